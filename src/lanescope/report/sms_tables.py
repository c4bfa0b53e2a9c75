"""Curves over numbers of SMs for a terminal, as rich renderables."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lanescope.measurement.result import Result
from lanescope.model.sms import SmCurve, sm_curves
from lanescope.report import format as fmt
from lanescope.report.sms_text import EXPLANATION, curve_sentence, kernel_text

_BAR_WIDTH = 32


def sms_tables(results: Sequence[Result]) -> list[RenderableType]:
    """Return each path's curve, and how few SMs are enough."""
    parts: list[RenderableType] = []
    for curve in sm_curves(results):
        parts += [curve_table(curve), Text(curve_sentence(curve), "bold"), ""]
    return [*parts, Text(EXPLANATION, "dim")] if parts else []


def curve_table(curve: SmCurve) -> Table:
    """Return a row for each number of SMs, with a bar as long as its bandwidth."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=curve.title, title_justify="left")
    for header in ("SMs", "GB/s", "p5 to p95", "of plateau"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("kernel", no_wrap=True)
    for point in curve.points:
        share = point.gbs / curve.plateau_gbs
        style = "bold green" if point is curve.fewest else ""
        table.add_row(
            str(point.sms),
            fmt.gbs_text(point.gbs),
            fmt.spread_text(point.low_gbs, point.high_gbs),
            fmt.percent_text(share),
            "█" * round(share * _BAR_WIDTH),
            kernel_text(point),
            style=style,
        )
    return table
