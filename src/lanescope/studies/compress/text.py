"""Ratios and speeds of codecs as people read them, and the columns in which they stand."""

from __future__ import annotations

from rich.table import Table

from lanescope.report.format import gbs_text
from lanescope.units.estimate import Estimate


def estimate_text(one: Estimate) -> str:
    """Return GB/s with their interval."""
    return f"{gbs_text(one.value)} ({gbs_text(one.low)}–{gbs_text(one.high)})"


SPEED_WIDTH = 13


def add_speed_columns(table: Table, *, over_a_link: bool) -> None:
    """Add the columns of speeds, and of what is predicted from them."""
    for header in ("in GB/s", "out GB/s"):
        table.add_column(header, justify="right", min_width=SPEED_WIDTH)
    table.add_column("pays below", justify="right", min_width=len("below"))
    if over_a_link:
        table.add_column("over the link", justify="right", min_width=len("the link"))


def ratio_text(ratio: float) -> str:
    """Return a ratio with three decimals, fewer where it is large."""
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.4g}"
