"""The document of a reproduction: the thesis' chapters 4 and 5, and its outlook, here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from lanescope.document.blocks import (
    Banner,
    Block,
    Bullets,
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
    TableCell,
    Text,
    Tone,
    Value,
)
from lanescope.document.contents import PERCENTILES, AnyChart, Axis, Chart, Curve, ShadedSpan
from lanescope.report.document_page import document_page
from lanescope.report.format import (
    bytes_text,
    count_text,
    gbs_text,
    seconds_text,
    signed_percent_text,
    sum_text,
)
from lanescope.report.html import FROM_GPU, TO_GPU
from lanescope.store.folder import state_sentence
from lanescope.studies.pcie_thesis.reproduction import Mode, ProgramStep
from lanescope.studies.pcie_thesis.results import (
    Pair,
    Payload,
    ProgramResults,
    Quantity,
    ReproductionResults,
    SourceResults,
    StepResults,
)
from lanescope.studies.pcie_thesis.sources import SOURCES
from lanescope.trace.codes import DirectionCode, FloatArray, IntArray
from lanescope.trace.operations import Operations
from lanescope.trace.probe import Probe
from lanescope.trace.rectangles import rectangles

Format = Callable[[float], str]
Row: TypeAlias = "list[Value | TableCell]"
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
#: With more points neighbours are joined: more than a wide screen has pixels.
MOST_POINTS = 3000
#: Rates below this share of the highest are as good as none: of many in a row two are kept.
_QUIET_SHARE = 2e-3
_DIRECTIONS = ("to the GPU", "from the GPU")
_SHADED = (
    "Shaded: the program's own steps, named where pointed at; drag to move, Shift and wheel to zoom"
)
#: Colours of sources, the same in all charts.
_SOURCES = {"pm": 0, "counters": 1, "throughput": 2, "trace": 3}
_GREY = "#808894"
#: Before the first step and after the last, of their time.
_ROOM = 0.01


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


def _cell(value: Quantity | None, form: Format) -> Value | TableCell:
    """A number with its range below it; how it was found shows where it is pointed at."""
    if value is None:
        return None
    spread = _range(value, form)
    return TableCell(form(value.value), below=(spread,) if spread else (), hint=value.method)


def _pair_cell(pair: Pair) -> Value | TableCell:
    known = [q for q in pair if q is not None]
    if not known:
        return None
    shown = " / ".join("–" if q is None else _signed(q.value) for q in pair)
    spreads = dict.fromkeys(spread for q in known if (spread := _range(q, _signed)))
    return TableCell(shown, below=tuple(spreads), hint=known[0].method)


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
        [
            word,
            TableCell(limit.gbs, hint=limit.source),
            _cell(gbs, gbs_text),
            _cell(delay, seconds_text),
        ]
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


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line over time.

    Attributes
    ----------
    end_ns
        Until when each value holds, or when it was taken, nanoseconds since 1970.
    values
        Not a number where nothing is known.
    low, high
        Ends of a band; None without one.
    """

    end_ns: IntArray
    values: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None


def counted_line(payload: Payload, direction: int, begin_ns: int, end_ns: int) -> Line:
    """Return the rate of one direction in GB/s, record by record; pauses are left out."""
    last = int(np.searchsorted(payload.end_ns, end_ns)) + 1
    inside = slice(int(np.searchsorted(payload.end_ns, begin_ns)), last)
    return _few(payload.end_ns[inside], payload.gbs()[direction][inside])


def traced_line(operations: Operations, direction: int, begin_ns: int, end_ns: int) -> Line:
    """Return the rate of traced copies of one direction in GB/s, each with an even rate."""
    own = operations.rows(operations.direction == (DirectionCode.H2D, DirectionCode.D2H)[direction])
    times, columns = rectangles([own], (begin_ns, end_ns))
    lasted = np.where(columns[:, 1] > 0, columns[:, 1], np.nan)
    return _few(times, columns[:, 0] / lasted)


def probed_line(probe: Probe, direction: int, what: str, begin_ns: int, end_ns: int) -> Line:
    """Return bandwidth (``gbs``) or delay (``delay``, in seconds) of one direction.

    Of many records the median of equal parts of the time, with the 5th and 95th percentile.
    """
    own = probe.one_direction(direction)
    own = own.rows((own.begin_ns >= begin_ns) & (own.begin_ns < end_ns))
    values = own.gbs if what == "gbs" else own.delay_ns.astype(np.float64) * 1e-9
    if len(own) <= MOST_POINTS // 3:
        return Line(own.begin_ns, values)
    parts = MOST_POINTS // 3
    part = (own.begin_ns - begin_ns) * parts // max(end_ns - begin_ns, 1)
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    groups = np.split(values, starts[1:])
    low, middle, high = (
        np.array([_quantile_of_known(group, q) for group in groups]) for q in (0.05, 0.5, 0.95)
    )
    return Line(own.begin_ns[starts], middle, low, high)


def _quantile_of_known(values: FloatArray, q: float) -> float:
    known = values[np.isfinite(values)]
    return float(np.quantile(known, q)) if known.size else math.nan


def _few(end_ns: IntArray, values: FloatArray) -> Line:
    if not end_ns.size:
        return Line(end_ns, values)
    highest = np.nanmax(values) if np.isfinite(values).any() else 0.0
    quiet = np.abs(values) <= _QUIET_SHARE * highest
    inner = quiet & np.roll(quiet, 1) & np.roll(quiet, -1)
    inner[[0, -1]] = False
    end_ns, values = end_ns[~inner], values[~inner]
    each = -(-end_ns.size // MOST_POINTS)
    if each == 1:
        return Line(end_ns, values)
    starts = np.arange(0, end_ns.size, each)
    lasted = np.diff(end_ns, prepend=end_ns[:1]).astype(np.float64)
    known = np.where(np.isfinite(values), lasted, 0.0)
    sums = np.add.reduceat(np.where(np.isfinite(values), values * lasted, 0.0), starts)
    lasts = np.append(starts[1:], end_ns.size) - 1
    total = np.add.reduceat(known, starts)
    means = np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)
    return Line(end_ns[lasts], means)


def source_charts(one: ProgramResults) -> list[Chart]:
    """Return a chart for each direction: all counters and the trace; none without a watch."""
    shown = one.shown
    if not shown.steps or not (shown.payloads or shown.operations is not None):
        return []
    begin, end = _span(shown.steps)
    origin = _origin(shown.steps)
    charts = []
    for direction, word in enumerate(_DIRECTIONS):
        lines = [(p.source, counted_line(p, direction, begin, end)) for p in shown.payloads]
        if shown.operations is not None and len(shown.operations):
            lines.append(("trace", traced_line(shown.operations, direction, begin, end)))
        curves = [_stairs(name, line, origin) for name, line in lines if line.end_ns.size]
        title = f"{one.program.title}: payload {word}, as each source saw it"
        charts.append(_chart(title, Axis("Payload", "GB/s"), curves, shown.steps))
    return charts


def probe_charts(one: ProgramResults) -> list[Chart]:
    """Return the probe's bandwidth and its delay, both directions in one; none without a probe."""
    probe, steps = one.shown.probe, one.shown.probe_steps
    if probe is None or not steps:
        return []
    begin, end = _span(steps)
    origin = _origin(steps)
    chunk = bytes_text(probe.chunk_bytes)
    shown = {
        "gbs": (f"bandwidth of the probe's copies of {chunk}", Axis("Bandwidth", "GB/s"), 1.0),
        "delay": ("delay of the probe's copies of 4 bytes", Axis("Delay", "µs"), 1e6),
    }
    charts = []
    for what, (title, axis, scale) in shown.items():
        lines = [
            probed_line(probe, direction, what, begin, end) for direction in range(len(_DIRECTIONS))
        ]
        curves = [_banded(direction, line, origin, scale) for direction, line in enumerate(lines)]
        charts.append(_chart(f"{one.program.title}: {title}", axis, curves, steps))
    return charts


def _span(steps: Sequence[ProgramStep]) -> tuple[int, int]:
    begin, end = min(s.begin_ns for s in steps), max(s.end_ns for s in steps)
    room = int((end - begin) * _ROOM)
    return begin - room, end + room


def _origin(steps: Sequence[ProgramStep]) -> int:
    return min(step.begin_ns for step in steps)


def _chart(title: str, y: Axis, curves: Sequence[Curve], steps: Sequence[ProgramStep]) -> Chart:
    (begin, end), origin = _span(steps), _origin(steps)
    ends = (begin - origin) * 1e-9, (end - origin) * 1e-9
    x = Axis("s since the first step", ends=ends)
    spans = tuple(_shade(step, i, origin) for i, step in enumerate(steps))
    band = PERCENTILES if any(curve.low for curve in curves) else ""
    return Chart("", "", title, _SHADED, x, y, tuple(curves), band, spans=spans)


def _shade(step: ProgramStep, number: int, origin: int) -> ShadedSpan:
    begin, end = _seconds([step.begin_ns, step.end_ns], origin)
    moved = [
        f"{bytes_text(count)} {word}"
        for count, word in zip(step.moved, _DIRECTIONS, strict=True)
        if count
    ]
    hint = "\n".join([step.name, seconds_text(step.seconds), *moved])
    if not moved:
        return ShadedSpan(begin, end, step.name, _GREY, 0.05 + 0.05 * (number % 2), hint)
    return ShadedSpan(begin, end, step.name, TO_GPU if step.h2d_bytes else FROM_GPU, 0.13, hint)


def _stairs(source: str, line: Line, origin: int) -> Curve:
    """A value holds from the record before to its own end."""
    number = _SOURCES.get(source, len(_SOURCES))
    times, values = _seconds(line.end_ns, origin), _rounded(line.values)
    dash = 1 if source == "trace" else 0
    return Curve(source, times, values, colour=number, dash=dash, points=False, stairs=True)


def _banded(direction: int, line: Line, origin: int, scale: float) -> Curve:
    return Curve(
        _DIRECTIONS[direction],
        _seconds(line.end_ns, origin),
        _rounded(line.values * scale),
        () if line.low is None else _rounded(line.low * scale),
        () if line.high is None else _rounded(line.high * scale),
        hue=(TO_GPU, FROM_GPU)[direction],
        points=False,
    )


def _seconds(times_ns: Any, origin: int) -> tuple[float, ...]:
    """Seconds since the first step, to 0.1 µs."""
    return tuple(round((int(time) - origin) * 1e-9, 7) for time in times_ns)


def _rounded(values: Any) -> tuple[float, ...]:
    """Numbers with four digits: what a chart shows, and a third of the bytes."""
    return tuple(float(f"{v:.4g}") for v in values)
