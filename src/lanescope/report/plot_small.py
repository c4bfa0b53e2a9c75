"""Heat maps of small copies: the fastest method by size and count of pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lanescope.experiment.submission import Submission
from lanescope.report.format import bytes_text, gbs_text, percent_text, seconds_text
from lanescope.report.plot_parts import (
    Figure,
    Trace,
    axis,
    base_layout,
    plotly_text,
    with_legend,
)
from lanescope.studies.small_maps import SmallCell, SmallMap
from lanescope.studies.small_text import cell_lines

#: Light enough for dark text in both themes; each cell also names its method.
METHOD_COLOURS = {
    Submission.SINGLE: "#c9ced6",
    Submission.BATCH: "#8cc5e8",
    Submission.GRAPH: "#f0c27b",
    Submission.KERNEL: "#8fd3b6",
    Submission.MAPPED: "#dcb3d6",
}
_CELL_TEXT = "#1f2933"
_ROW_PIXELS = 34
_FRAME_PIXELS = 170


def small_figures(maps: Sequence[SmallMap]) -> list[Figure]:
    """Return a heat map for each path."""
    return [map_figure(small) for small in maps]


def map_figure(small: SmallMap) -> Figure:
    """Return the heat map of one path, coloured by the fastest method."""
    title = f"Fastest way to hand over small copies, {plotly_text(small.path)}"
    subtitle = "In each cell: the method and its GB/s; ~ where another may be as fast"
    layout = base_layout(title, subtitle, _FRAME_PIXELS + _ROW_PIXELS * len(small.sizes))
    layout |= {
        "margin": {"l": 8, "r": 12, "t": 76, "b": 60},
        "xaxis": _categories("Number of pieces", [str(n) for n in small.counts]),
        "yaxis": _categories("Size of a piece", [bytes_text(s) for s in small.sizes]),
    }
    data = [_heat(small), *(_legend_entry(method) for method in _leaders(small))]
    with_legend(layout, data)
    return {"data": data, "layout": layout}


def _categories(title: str, names: list[str]) -> dict[str, Any]:
    ticks = list(range(len(names)))
    return axis(
        title,
        tickmode="array",
        tickvals=ticks,
        ticktext=names,
        range=[-0.5, len(names) - 0.5],
        showgrid=False,
        fixedrange=True,
    )


def _heat(small: SmallMap) -> Trace:
    methods = tuple(Submission)
    rows = [[small.cells.get((n, s)) for n in small.counts] for s in small.sizes]
    best = [[None if cell is None else cell.fastest() for cell in row] for row in rows]
    return {
        "type": "heatmap",
        "x": list(range(len(small.counts))),
        "y": list(range(len(small.sizes))),
        "z": [[None if m is None else methods.index(m) for m in row] for row in best],
        "zmin": -0.5,
        "zmax": len(methods) - 0.5,
        "colorscale": _steps(methods),
        "showscale": False,
        "showlegend": False,
        "xgap": 2,
        "ygap": 2,
        "text": [[next(iter(cell_lines(cell)), "") for cell in row] for row in rows],
        "texttemplate": "%{text}",
        "textfont": {"color": _CELL_TEXT, "size": 12},
        "hovertext": [[_hover(small, cell) for cell in row] for row in rows],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _steps(methods: Sequence[Submission]) -> list[list[float | str]]:
    """A scale without shades in between: each method has its share of it."""
    width = 1 / len(methods)
    return [
        [(i + end) * width, METHOD_COLOURS[method]]
        for i, method in enumerate(methods)
        for end in (0, 1)
    ]


def _leaders(small: SmallMap) -> list[Submission]:
    found = {cell.fastest() for cell in small.cells.values()}
    return [method for method in Submission if method in found]


def _legend_entry(method: Submission) -> Trace:
    """A trace that draws nothing but its line in the legend."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": str(method),
        "x": [None],
        "y": [None],
        "marker": {"size": 12, "symbol": "square", "color": METHOD_COLOURS[method]},
        "hoverinfo": "skip",
    }


def _hover(small: SmallMap, cell: SmallCell | None) -> str:
    if cell is None:
        return ""
    size = bytes_text(cell.piece_bytes)
    lines = [f"<b>{plotly_text(small.path)}, {cell.pieces} × {size}</b>"]
    for method in sorted(cell.by_method, key=cell.seconds):
        share = cell.submit_share(method)
        calls = "" if share is None else f", {percent_text(share)} of it in the calls"
        gbs = gbs_text(cell.by_method[method].gbs)
        lines.append(f"{method}: {gbs} GB/s, {seconds_text(cell.seconds(method))}{calls}")
    return "<br>".join(lines)
