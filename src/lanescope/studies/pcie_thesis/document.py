"""The document of a reproduction: the thesis' chapters 4 and 5, and its outlook, here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from lanescope.document.blocks import (
    Banner,
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Details,
    Document,
    Facts,
    Group,
    Headline,
    Kind,
    Section,
    Style,
    Table,
    Text,
    Tone,
    Value,
)
from lanescope.document.contents import AnyChart
from lanescope.report.document_page import document_page
from lanescope.report.format import (
    bytes_text,
    count_text,
    gbs_text,
    seconds_text,
    signed_percent_text,
    sum_text,
)
from lanescope.store.folder import state_sentence
from lanescope.studies.pcie_thesis.charts import probe_charts, source_charts
from lanescope.studies.pcie_thesis.reproduction import Mode
from lanescope.studies.pcie_thesis.results import (
    Pair,
    ProgramResults,
    Quantity,
    ReproductionResults,
    SourceResults,
    StepResults,
)
from lanescope.studies.pcie_thesis.sources import SOURCES

Format = Callable[[float], str]
Row: TypeAlias = "list[Value | Cell]"
_WORDS = ("to GPU", "from GPU")
_THESIS = (
    "After Qi, Analysis of data movements over the PCIe bus, 2022: chapters 4 and 5, and the "
    "outlook of 7.4."
)
_DEFINITIONS = (
    (
        "Differs",
        "Told bytes over what the program itself says to have moved, less 1: the middle of the "
        "repetitions, and their range. Counters are taken in the steps that copy 1 MiB or more "
        "and two records around them, and their wire bytes become payload by the default model, "
        "which knows nothing of the trace.",
    ),
    (
        "All sources",
        "pm, counters, throughput and trace watch the same run of the program, on one clock. What "
        "they cause on the link by watching is taken off each other where it is known.",
    ),
    (
        "Probe",
        "Its own copies fill the link, one after the other, so that it has a run of its own. Lines "
        "are medians, bands the 5th to 95th percentile.",
    ),
    (
        "Cost",
        "The program's time from its first step to its last, over that of the unwatched run in "
        "the same repetition, less 1; ways of running take turns.",
    ),
    ("GB/s", "1e9 bytes of payload a second. Times are from begin to end by the host's clock."),
)


def chapters_page_html(results: ReproductionResults, *, static: bool = False) -> str:
    """Return a reproduction as one self-contained HTML page; see `document_page`."""
    return document_page(chapters_document(results), static=static)


def chapters_document(results: ReproductionResults) -> Document:
    """Return all that a reproduction has shown, every program first."""
    request = results.reproduction.asked
    gpu = next(gpu for gpu in request.machine.gpus if gpu.index == request.gpu)
    thesis = [one for one in results.programs if one.program.part != "outlook"]
    outlook = [one for one in results.programs if one.program.part == "outlook"]
    sections = (
        Section("overview", "Every program", overview(results)),
        _section("chapter-4", "Chapter 4: counters and trace", thesis, _sources),
        Section("link", "The idle link", [_link_table(results)]),
        _section("chapter-5", "Chapter 5: a probe that fills the link", thesis, _probe),
        _section("outlook", "Outlook: concurrent copies, and load with copies", outlook, _both),
        Section("turns", "What was run", [_turns(results)]),
        Section(
            "definitions",
            "What the numbers mean",
            [Details([Facts(_DEFINITIONS)], "Differs, all sources, probe, cost, GB/s")],
        ),
    )
    return Document(
        title="lanescope reproduce pcie-thesis",
        heading="Data movements over the PCIe bus, watched on this machine",
        started=request.started,
        facts=(
            f"{gpu.id}, {gpu.name}",
            request.machine.name,
            count_text(request.repetitions, "repetition"),
            f"lanescope {request.tool_version}",
        ),
        commands=(request.command,),
        headline=_headline(results),
        sections=sections,
        tool_version=request.tool_version,
        banners=[Banner(words)] if (words := state_sentence(request.state)) else (),
    )


def _headline(results: ReproductionResults) -> Headline:
    """What watching and probing cost the programs at most."""
    costs = []
    for mode, words in ((Mode.SOURCES, "all sources"), (Mode.PROBE, "the probe")):
        known = [(q.value, one) for one in results.programs if (q := one.slowdown.get(mode))]
        if known:
            most, one = max(known, key=lambda pair: pair[0])
            costs.append(f"{words} {_signed(most)} ({one.program.title})")
    done = f"{count_text(len(results.programs), 'program')} watched on this machine."
    words = f"{done} Of their time watching costs at most: {', '.join(costs)}." if costs else done
    notes = [f"Note: {note}" for note in results.reproduction.asked.notes]
    return Headline(words, Tone.OPEN, [Text(_THESIS, Style.QUIET), Bullets(notes)])


def overview(results: ReproductionResults) -> list[Block]:
    """Return a row for each program: how far sources are from the truth, and what they cost."""
    columns = (
        Column("program"),
        Column("moved to / from GPU", Kind.FIGURES),
        Column("took", Kind.SECONDS, "Unwatched"),
        *(Column(name, Kind.FIGURES, "Bytes against the program's own") for name in SOURCES),
        Column("all sources cost", Kind.FIGURES, "Change of the program's time"),
        Column("probe costs", Kind.FIGURES, "Change of the program's time"),
    )
    title = "Each source's bytes against the program's own (to the GPU / from it), and the cost"
    rows = [_overview_row(one) for one in results.programs]
    return [Table(title, columns, [Group(rows)])] if rows else []


def _overview_row(one: ProgramResults) -> Row:
    by_name = {source.source: source for source in one.sources if source.used}
    deviations = [by_name[name].deviation if name in by_name else (None, None) for name in SOURCES]
    return [
        one.program.title,
        " / ".join(map(bytes_text, one.truth_bytes)),
        _cell(one.work_seconds.get(Mode.PLAIN), seconds_text),
        *map(_pair_cell, deviations),
        *(_cell(one.slowdown.get(mode), _signed) for mode in (Mode.SOURCES, Mode.PROBE)),
    ]


def _signed(share: float) -> str:
    return signed_percent_text(share) if share else "0 %"


def _range(value: Quantity, form: Format) -> str:
    low, high = form(value.low), form(value.high)
    return "" if low == high else f"{low} to {high}"


def _cell(value: Quantity | None, form: Format) -> Value | Cell:
    """A number with its range below it; how it was found shows where it is pointed at."""
    if value is None:
        return None
    spread = _range(value, form)
    return Cell(form(value.value), below=(spread,) if spread else (), hint=value.method)


def _pair_cell(pair: Pair) -> Value | Cell:
    known = [q for q in pair if q is not None]
    if not known:
        return None
    shown = " / ".join("–" if q is None else _signed(q.value) for q in pair)
    spreads = dict.fromkeys(spread for q in known if (spread := _range(q, _signed)))
    return Cell(shown, below=tuple(spreads), hint=known[0].method)


def _section(
    key: str,
    title: str,
    programs: Sequence[ProgramResults],
    of: Callable[[ProgramResults, bool], list[Block]],
) -> Section:
    return Section(key, title, [b for p in programs for b in of(p, not _is_open(p, programs))])


def _sources(one: ProgramResults, folded: bool) -> list[Block]:
    if not one.sources:
        return []
    words = Bullets(one.sentences.sources)
    return [_heading(one), _source_table(one), words, *_charts(source_charts(one), folded)]


def _probe(one: ProgramResults, folded: bool) -> list[Block]:
    words = Bullets(one.sentences.probe)
    return [_heading(one), _step_table(one), words, *_charts(probe_charts(one), folded)]


def _both(one: ProgramResults, _: bool) -> list[Block]:
    sources, probe = _sources(one, folded=False), _probe(one, folded=False)
    return [*sources, *(probe[1:] if sources else probe), Bullets(one.sentences.program)]


def _heading(one: ProgramResults) -> Text:
    return Text(one.program.title, Style.STRONG)


def _charts(charts: Sequence[AnyChart], folded: bool) -> list[Block]:
    if not folded or not charts:
        return list(charts)
    return [Details(list(charts), count_text(len(charts), "chart"))]


def _is_open(one: ProgramResults, programs: Sequence[ProgramResults]) -> bool:
    """Whether its charts are shown at once: of one program with many sizes the largest are."""
    name = one.program.arguments[0]
    same = [p for p in programs if p.program.arguments[0] == name]
    return one is max(same, key=lambda p: sum(p.truth_bytes))


def _source_table(one: ProgramResults) -> Table:
    """A row for each source of a program, under one of what the program itself says."""
    columns = (
        Column("Source"),
        Column("Bytes to GPU", Kind.SUM),
        Column("differs", Kind.ERROR),
        Column("Bytes from GPU", Kind.SUM),
        Column("differs", Kind.ERROR),
        *(
            Column(f"Fastest {w}, GB/s", Kind.GBS, "Of the program a step, of counters a record")
            for w in _WORDS
        ),
        Column("Record every", Kind.SECONDS),
        Column("Steps in shape", Kind.FIGURES, "Steps that copy and last three records or more"),
        Column("Samples", Kind.COUNT),
        Column("Lost", Kind.COUNT),
        Column("CPU, s", Kind.FIGURES, "Processor time of its own threads"),
    )
    down, up = one.truth_bytes
    fastest = [_cell(q, gbs_text) for q in one.fastest_step_gbs]
    truth: Row = ["the program", down, None, up, None, *fastest, *[None] * 5]
    rows = [truth, *map(_source_row, one.sources)]
    return Table(f"{one.program.title}: each source against the program", columns, [Group(rows)])


def _source_row(one: SourceResults) -> Row:
    if not one.used:
        return [f"{one.source} did not watch", *[None] * 11]
    moved: Row = []
    for count, deviation in zip(one.bytes, one.deviation, strict=True):
        moved += [_cell(count, sum_text), _cell(deviation, _signed)]
    traced = one.source == "trace"
    return [
        one.source,
        *moved,
        *(_cell(q, gbs_text) for q in one.highest_gbs),
        "each copy" if traced else _cell(one.interval_seconds, seconds_text),
        None if one.shaped is None else f"{one.shaped} of {one.copying}",
        None if one.samples is None else f"{one.samples:,}",
        None if one.lost is None else f"{one.lost:,}",
        _cell(one.cpu_seconds, "{:.3g}".format),
    ]


def _step_table(one: ProgramResults) -> Table:
    """A row for each step: its time in each way of running, and the probe in it."""
    columns = (
        Column("Step"),
        Column("Moved", Kind.BYTES),
        *(Column(w, Kind.SECONDS) for w in ("Unwatched", "All sources", "Probed")),
        *(Column(f"Probe {w}, GB/s", Kind.GBS) for w in _WORDS),
        *(Column(f"Delay {w}", Kind.SECONDS) for w in _WORDS),
    )
    total: Row = ["all", sum(one.truth_bytes)]
    total += [_cell(one.work_seconds.get(mode), seconds_text) for mode in Mode]
    rows = [*map(_step_row, one.steps), [*total, *[None] * 4]]
    return Table(f"{one.program.title}: its steps, and the probe in them", columns, [Group(rows)])


def _step_row(step: StepResults) -> Row:
    return [
        step.name,
        (step.h2d_bytes + step.d2h_bytes) or None,
        *(_cell(step.seconds.get(mode), seconds_text) for mode in Mode),
        *(_cell(q, gbs_text) for q in step.probe_gbs),
        *(_cell(q, seconds_text) for q in step.probe_delay_seconds),
    ]


def _link_table(results: ReproductionResults) -> Table:
    """What the link carries at most, and what the probe found of it while it was idle."""
    columns = (
        Column("Direction"),
        Column("Limit, GB/s", Kind.GBS),
        Column("Probe, GB/s", Kind.GBS),
        Column("Delay of 4 bytes", Kind.SECONDS),
    )
    rows: list[Row] = [
        [word, Cell(limit.gbs, hint=limit.source), _cell(gbs, gbs_text), _cell(delay, seconds_text)]
        for word, limit, gbs, delay in zip(
            _WORDS, results.limits, results.idle_gbs, results.idle_delay_seconds, strict=True
        )
    ]
    return Table("The idle link", columns, [Group(rows)])


def _turns(results: ReproductionResults) -> Text:
    done = count_text(len(results.reproduction.done), "run")
    return Text(
        (
            f"{done} of {results.planned} are here. Each watched one is a run folder of its own "
            "below the reproduction's: ",
            Code("lanescope report FOLDER/PROGRAM/sources-1"),
            " writes its page. All numbers of this page, with unit, method and spread, are in ",
            Code("chapters.json"),
            ".",
        )
    )
