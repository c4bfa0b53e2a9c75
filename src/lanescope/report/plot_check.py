"""The bar chart of a check: every path beside its limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lanescope.measurement.result import Result, Status
from lanescope.report.format import (
    gbs_text,
)
from lanescope.report.palette import STATUS_COLOURS
from lanescope.report.path_rows import GROUPS, PathRow, bandwidth_rows, source_word
from lanescope.report.plot_hover import limit_reason, row_hover, row_summary
from lanescope.report.plot_parts import (
    FOLLOWS_TEXT,
    Figure,
    Trace,
    axis,
    base_layout,
    plotly_text,
    with_legend,
)

_ROW_PIXELS = 27
#: Between two groups: the lower one's heading and the upper one's axis.
_GAP_PIXELS = 92
_TOP_PIXELS = 108
_BOTTOM_PIXELS = 66


def check_figure(results: Sequence[Result]) -> Figure:
    """Return bars of bandwidth for every measured path, with its spread and its limit.

    Groups of paths get an axis each: next to NVLink, PCIe would be too short to read.
    """
    rows = [r for r in bandwidth_rows(results) if r.measured is not None and r.measured.own_rate]
    groups = [(name, [r for r in rows if r.group == name]) for name in GROUPS]
    groups = [(name, members) for name, members in groups if members]
    word = source_word([r.result for r in rows]).capitalize()
    inner = _ROW_PIXELS * len(rows) + _GAP_PIXELS * max(len(groups) - 1, 0)
    whiskers = "" if word == "Predicted" else "Whiskers: 5th to 95th percentile. "
    layout = base_layout(
        f"{word} bandwidth of every path",
        f"{whiskers}At the right: GB/s and share of the limit",
        inner + _TOP_PIXELS + _BOTTOM_PIXELS,
    )
    layout |= {
        "margin": {"l": 8, "r": 128, "t": _TOP_PIXELS, "b": _BOTTOM_PIXELS},
        "barmode": "overlay",
        "annotations": [],
    }
    data: list[Trace] = []
    top, shown = float(inner or 1), set[str]()
    for number, (name, members) in enumerate(groups, start=1):
        bottom = top - _ROW_PIXELS * len(members)
        suffix = "" if number == 1 else str(number)
        data += _traces(members, suffix, shown)
        layout |= _axes(members, suffix, (bottom / inner, top / inner), word)
        layout["annotations"] += _annotations(name, members, suffix, top / inner)
        top = bottom - _GAP_PIXELS
    with_legend(layout, data)
    return {"data": data, "layout": layout}


def _traces(rows: Sequence[PathRow], suffix: str, shown: set[str]) -> list[Trace]:
    traces = []
    for status in Status:
        chosen = [(i, r) for i, r in enumerate(rows) if r.verdict.status is status]
        if chosen:
            traces.append(_bars(chosen, status, suffix, str(status) not in shown))
            shown.add(str(status))
    limits = [(i, r) for i, r in enumerate(rows) if r.limit_gbs is not None]
    if limits:
        traces.append(_limits(limits, suffix, "limit" not in shown))
        shown.add("limit")
    return traces


def _bars(
    chosen: Sequence[tuple[int, PathRow]], status: Status, suffix: str, in_legend: bool
) -> Trace:
    values = [r.gbs or 0.0 for _, r in chosen]
    marker: dict[str, Any] = {"color": STATUS_COLOURS[status]}
    if status is Status.PREDICTED:
        marker["pattern"] = {"shape": "/", "solidity": 0.25, "fillmode": "overlay"}
    trace = {
        "type": "bar",
        "orientation": "h",
        "name": str(status),
        "legendgroup": str(status),
        "showlegend": in_legend,
        "x": values,
        "y": [i for i, _ in chosen],
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "width": 0.62,
        "marker": marker,
        "hovertext": [row_hover(r) for _, r in chosen],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    if status is not Status.PREDICTED:
        trace["error_x"] = {
            "type": "data",
            "symmetric": False,
            "array": [
                max(0.0, (r.high_gbs or v) - v) for v, (_, r) in zip(values, chosen, strict=True)
            ],
            "arrayminus": [
                max(0.0, v - (r.low_gbs or v)) for v, (_, r) in zip(values, chosen, strict=True)
            ],
            "color": "#57606a",
            "thickness": 1.5,
            "width": 4,
        }
    return trace


def _limits(rows: Sequence[tuple[int, PathRow]], suffix: str, in_legend: bool) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "limit",
        "legendgroup": "limit",
        "showlegend": in_legend,
        "meta": FOLLOWS_TEXT,
        "x": [r.limit_gbs for _, r in rows],
        "y": [i for i, _ in rows],
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "marker": {
            "symbol": "line-ns-open",
            "size": 20,
            "color": "#57606a",
            "line": {"width": 2.5, "color": "#57606a"},
        },
        "hovertext": [
            plotly_text(f"limit {gbs_text(r.limit_gbs)} GB/s: {limit_reason(r)}") for _, r in rows
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _axes(
    rows: Sequence[PathRow], suffix: str, domain: tuple[float, float], word: str
) -> dict[str, Any]:
    most = max(max(r.high_gbs or 0.0, r.gbs or 0.0, r.limit_gbs or 0.0) for r in rows)
    unit = "GB/s" if word == "Measured" else f"GB/s, {word.lower()}"
    return {
        f"xaxis{suffix}": axis(
            unit, anchor=f"y{suffix}", range=[0, most * 1.04], fixedrange=False, nticks=8
        ),
        f"yaxis{suffix}": axis(
            "",
            anchor=f"x{suffix}",
            domain=[max(0.0, domain[0]), min(1.0, domain[1])],
            range=[len(rows) - 0.5, -0.5],
            tickmode="array",
            tickvals=list(range(len(rows))),
            ticktext=[plotly_text(r.label) for r in rows],
            fixedrange=True,
            showgrid=False,
            ticks="",
        ),
    }


def _annotations(
    name: str, rows: Sequence[PathRow], suffix: str, top: float
) -> list[dict[str, Any]]:
    """The group's heading, and each row's numbers in a column at the right."""
    heading = {
        "text": f"<b>{name}</b>",
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": min(top, 1.0),
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": 4,
        "showarrow": False,
    }
    column = [
        {
            "text": row_summary(row),
            "xref": "paper",
            "yref": f"y{suffix}",
            "x": 1,
            "y": index,
            "xanchor": "left",
            "xshift": 8,
            "showarrow": False,
            "align": "left",
        }
        for index, row in enumerate(rows)
    ]
    return [heading, *column]
