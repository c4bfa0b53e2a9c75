"""The table of latencies for a terminal, as a rich renderable."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from lanescope.report import format as fmt
from lanescope.report.latency_rows import LatencyRow

_BUDGET_NOTE = "* the time budget ended the sampling before the target half-width"


def latency_table(rows: Sequence[LatencyRow]) -> Table:
    """Return a row for each latency: time, spread, and how it was timed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("latency")
    for header in ("time", "p5 to p95", "95 % half-width"):
        table.add_column(header, justify="right", no_wrap=True)
    loaded = any(row.load_gbs is not None for row in rows)
    if loaded:
        table.add_column("load GB/s", justify="right", no_wrap=True)
    table.add_column("how", ratio=1)
    for row in rows:
        load = (fmt.gbs_text(row.load_gbs) if row.load_gbs is not None else "",) if loaded else ()
        table.add_row(
            row.title,
            fmt.seconds_text(row.seconds),
            fmt.time_spread_text(row.low_seconds, row.high_seconds),
            fmt.half_width_text(row.half_width) + ("*" if row.budget_spent else ""),
            *load,
            Text(row.how, "dim" if row.measured is not None else "yellow"),
        )
    if any(row.budget_spent for row in rows):
        table.caption = _BUDGET_NOTE
        table.caption_justify = "left"
    return table
