"""A reproduction as a short table on a terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table

from lanescope.report.chapters_tables import signed_text
from lanescope.report.format import MISSING, seconds_text
from lanescope.watch.chapters.plan import Way
from lanescope.watch.chapters.quantity import Quantity
from lanescope.watch.chapters.sources import SOURCES
from lanescope.watch.chapters.told import ProgramTold, Told

_TITLE = "Told bytes against the program's own (to the GPU / from it), and what watching cost"


def chapters_table(told: Told) -> Table:
    """Return a row for each program: each source's difference, and what watching cost."""
    made = Table(title=_TITLE, title_justify="left", box=box.SIMPLE_HEAD)
    made.add_column("program", no_wrap=True)
    made.add_column("took", justify="right")
    for name in SOURCES:
        made.add_column(name, justify="right")
    made.add_column("all sources cost", justify="right")
    made.add_column("probe costs", justify="right")
    for one in told.programs:
        made.add_row(*_row(one))
    return made


def _row(one: ProgramTold) -> list[str]:
    by_name = {source.source: source for source in one.sources if source.used}
    took = one.work_seconds.get(Way.PLAIN)
    row = [one.program.title, seconds_text(None if took is None else took.value)]
    for name in SOURCES:
        source = by_name.get(name)
        pair = (None, None) if source is None else source.deviation
        row.append(" / ".join(_signed(q) for q in pair) if source else MISSING)
    return [*row, *(_signed(one.slowdown.get(way)) for way in (Way.SOURCES, Way.PROBE))]


def _signed(value: Quantity | None) -> str:
    return MISSING if value is None else signed_text(value.value)
