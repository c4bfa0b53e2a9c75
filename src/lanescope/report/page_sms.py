"""Curves over numbers of SMs for the page: tables and a figure."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.model.sms import SmCurve, SmPoint
from lanescope.report.format import gbs_text, percent_text, spread_text
from lanescope.report.html import Cell, Column, Group, Markup, items, table, text
from lanescope.report.plot_parts import Figure, Trace, axis, base_layout, numbers, with_legend
from lanescope.report.sms_text import EXPLANATION, curve_sentence, kernel_text

_HEIGHT = 380
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_MARKERS = ("circle", "square", "diamond", "cross", "triangle-up", "x")


def sms_section(curves: Sequence[SmCurve]) -> str:
    """Return what the curves say and their tables; empty without curves."""
    if not curves:
        return ""
    tables = "".join(map(_curve_table, curves))
    said = items([curve_sentence(curve) for curve in curves])
    return f'{said}{tables}<p class="quiet">{text(EXPLANATION)}</p>'


def _curve_table(curve: SmCurve) -> str:
    columns = (
        Column("SMs", number=True),
        Column("GB/s", number=True),
        Column("5th–95th percentile", number=True),
        Column("Of the plateau", number=True),
        Column("Kernel"),
    )
    rows = [_cells(curve, point) for point in curve.points]
    return table(columns, [Group(rows)], f"{curve.title}: bandwidth by number of SMs")


def _cells(curve: SmCurve, point: SmPoint) -> list[Cell]:
    gbs = gbs_text(point.gbs)
    return [
        str(point.sms),
        Markup(f"<strong>{gbs}</strong>") if point is curve.fewest else gbs,
        spread_text(point.low_gbs, point.high_gbs),
        percent_text(point.gbs / curve.plateau_gbs),
        kernel_text(point),
    ]


def sms_figures(curves: Sequence[SmCurve]) -> list[Figure]:
    """Return one figure with all curves, as shares of their plateaus."""
    if not curves:
        return []
    layout = base_layout(
        "Bandwidth of copy kernels by number of SMs",
        "As a share of the plateau of each path; the best kernel for each number",
        _HEIGHT,
    )
    layout |= {
        "margin": {"l": 8, "r": 12, "t": 76, "b": 60},
        "xaxis": axis("SMs", type="log", tickvals=[1, 2, 4, 8, 16, 32, 64, 128]),
        "yaxis": axis("Share of the plateau, %", range=[0, 105]),
    }
    data = [_trace(curve, number) for number, curve in enumerate(curves)]
    with_legend(layout, data)
    return [{"data": data, "layout": layout}]


def _trace(curve: SmCurve, number: int) -> Trace:
    colour = _COLOURS[number % len(_COLOURS)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"{curve.title} ({gbs_text(curve.plateau_gbs)} GB/s)",
        "x": numbers(p.sms for p in curve.points),
        "y": numbers(p.gbs / curve.plateau_gbs * 100 for p in curve.points),
        "text": [f"{gbs_text(p.gbs)} GB/s, {kernel_text(p)}" for p in curve.points],
        "hovertemplate": "%{x} SMs: %{text}<extra></extra>",
        "line": {"color": colour},
        "marker": {"symbol": _MARKERS[number % len(_MARKERS)], "size": 8},
    }
