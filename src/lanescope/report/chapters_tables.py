"""Tables of a reproduction for the page."""

from __future__ import annotations

from collections.abc import Callable

from lanescope.report.format import MISSING, bytes_text, gbs_text, seconds_text, sum_text
from lanescope.report.html import Cell, Column, Group, Markup, table, text
from lanescope.watch.chapters.plan import Way
from lanescope.watch.chapters.quantity import Quantity
from lanescope.watch.chapters.told import ProgramTold, SourceTold, StepTold, Told

Format = Callable[[float], str]
_WORDS = ("to GPU", "from GPU")


def signed_text(share: float) -> str:
    """Return a difference as percent.

    >>> signed_text(-0.0123), signed_text(0.0)
    ('-1.23 %', '0 %')
    """
    return f"{share * 100:+.2f} %" if share else "0 %"


def quantity_cell(value: Quantity | None, form: Format) -> Cell:
    """Return a number with its range below it; how it was found shows on hover."""
    if value is None:
        return MISSING
    low, high = form(value.low), form(value.high)
    spread = "" if low == high else f'<br><span class="quiet">{text(low)} to {text(high)}</span>'
    return Markup(f'<span title="{text(value.method)}">{text(form(value.value))}</span>{spread}')


def overview_table(told: Told) -> str:
    """Return a row for each program: how far sources are from the truth, and what they cost."""
    names = list(dict.fromkeys(s.source for one in told.programs for s in one.sources))
    columns = [Column("Program"), *(Column(f"Moved {w}", True) for w in _WORDS)]
    columns += [
        Column(f"{name}, {word}", True, "Told bytes against the program's own")
        for name in names
        for word in _WORDS
    ]
    columns += [
        Column("All sources cost", True, "Change of the program's time"),
        Column("Probe costs", True, "Change of the program's time"),
    ]
    rows = [_overview_row(one, names) for one in told.programs]
    return table(columns, [Group(rows)], "Every program, and how far each source is from it")


def _overview_row(one: ProgramTold, names: list[str]) -> list[Cell]:
    by_name = {source.source: source for source in one.sources}
    row: list[Cell] = [one.program.title, *(bytes_text(b) for b in one.truth_bytes)]
    for name in names:
        source = by_name.get(name)
        pair = (None, None) if source is None else source.deviation
        row += [quantity_cell(q, signed_text) for q in pair]
    ways = (Way.SOURCES, Way.PROBE)
    return [*row, *(quantity_cell(one.slowdown.get(way), signed_text) for way in ways)]


def source_table(one: ProgramTold) -> str:
    """Return a row for each source of a program under one of what the program itself says."""
    columns = [Column("Source"), Column("Bytes to GPU", True), Column("differs", True)]
    columns += [Column("Bytes from GPU", True), Column("differs", True)]
    columns += [
        Column(f"Fastest {w}, GB/s", True, "Of the program a step, of counters a record")
        for w in _WORDS
    ]
    columns += [
        Column("Record every", True),
        Column("Steps in shape", True, "Steps that copy and last three records or more"),
        Column("Samples", True),
        Column("Lost", True),
        Column("CPU, s", True, "Processor time of its own threads"),
    ]
    fastest = [quantity_cell(q, gbs_text) for q in one.fastest_step_gbs]
    down, up = map(sum_text, one.truth_bytes)
    truth: list[Cell] = ["the program", down, MISSING, up, MISSING, *fastest, *[MISSING] * 5]
    rows = [truth, *(_source_row(source) for source in one.sources)]
    return table(columns, [Group(rows)], f"{one.program.title}: each source against the program")


def _source_row(one: SourceTold) -> list[Cell]:
    if not one.used:
        why = Markup(f'{text(one.source)} <span class="quiet">did not watch</span>')
        return [why, *[MISSING] * 11]
    told: list[Cell] = []
    for count, deviation in zip(one.bytes, one.deviation, strict=True):
        told += [quantity_cell(count, sum_text), quantity_cell(deviation, signed_text)]
    every: Cell = quantity_cell(one.interval_seconds, seconds_text)
    if one.source == "trace":
        every = "each copy"
    shaped = MISSING if one.shaped is None else f"{one.shaped} of {one.copying}"
    return [
        one.source,
        *told,
        *(quantity_cell(q, gbs_text) for q in one.highest_gbs),
        every,
        shaped,
        MISSING if one.samples is None else f"{one.samples:,}",
        MISSING if one.lost is None else f"{one.lost:,}",
        quantity_cell(one.cpu_seconds, lambda seconds: f"{seconds:.3g}"),
    ]


def step_table(one: ProgramTold) -> str:
    """Return a row for each step: its time in each way of running, and the probe in it."""
    columns = [Column("Step"), Column("Moved", True), Column("Unwatched", True)]
    columns += [Column("All sources", True), Column("Probed", True)]
    columns += [Column(f"Probe {w}, GB/s", True) for w in _WORDS]
    columns += [Column(f"Delay {w}", True) for w in _WORDS]
    rows = [_step_row(step) for step in one.steps]
    total: list[Cell] = ["all", bytes_text(sum(one.truth_bytes))]
    total += [quantity_cell(one.work_seconds.get(way), seconds_text) for way in Way]
    rows.append([*total, *[MISSING] * 4])
    return table(columns, [Group(rows)], f"{one.program.title}: its steps, and the probe in them")


def _step_row(step: StepTold) -> list[Cell]:
    moved = step.h2d_bytes + step.d2h_bytes
    return [
        step.name,
        bytes_text(moved) if moved else MISSING,
        *(quantity_cell(step.seconds.get(way), seconds_text) for way in Way),
        *(quantity_cell(q, gbs_text) for q in step.probe_gbs),
        *(quantity_cell(q, seconds_text) for q in step.probe_delay_seconds),
    ]


def link_table(told: Told) -> str:
    """Return what the link carries at most, and what the probe found of it while it was idle."""
    columns = [
        Column("Direction"),
        Column("Limit, GB/s", True),
        Column("Probe, GB/s", True),
        Column("Delay of 4 bytes", True),
    ]
    rows: list[list[Cell]] = [
        [
            word,
            Markup(f'<span title="{text(limit.source)}">{text(gbs_text(limit.gbs))}</span>'),
            quantity_cell(gbs, gbs_text),
            quantity_cell(delay, seconds_text),
        ]
        for word, limit, gbs, delay in zip(
            _WORDS, told.limits, told.idle_gbs, told.idle_delay_seconds, strict=True
        )
    ]
    return table(columns, [Group(rows)], "The idle link")
