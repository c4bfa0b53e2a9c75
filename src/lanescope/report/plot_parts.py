"""What the figures share: fonts, axes, numbers that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import isfinite
from typing import Any

Trace = dict[str, Any]
Figure = dict[str, Any]

#: Neutral enough to be read on white and on near-black without the page's help.
GRID = "rgba(128,136,148,0.28)"
TEXT = "#6b7480"
FONT = {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 13}

_LEGEND_ROW_PIXELS = 26
#: How many entries stand beside each other at least in a window of usual width.
_LEGEND_COLUMNS = 3

#: Marks a trace whose colour the page sets to that of its text.
FOLLOWS_TEXT = "text"


def plotly_text(value: str) -> str:
    """Return text that Plotly shows as it is: it reads ``<b>`` and the like as markup."""
    return escape(value, quote=False)


def numbers(values: Iterable[float]) -> list[float | None]:
    """Return plain floats; what JSON cannot hold becomes None, which Plotly leaves out."""
    return [float(v) if isfinite(v) else None for v in values]


def base_layout(title: str, subtitle: str, height: int) -> dict[str, Any]:
    """Return the layout that every figure starts from."""
    return {
        "title": {
            "text": title,
            "subtitle": {"text": subtitle, "font": {"size": 12}},
            "x": 0,
            "xref": "container",
            "font": {"size": 15},
        },
        "height": height,
        "font": {**FONT, "color": TEXT},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": "rgba(128,136,148,0.6)",
            "activecolor": "#2a7fbf",
        },
        "hoverlabel": {"align": "left", "font": {"size": 13}},
    }


def with_legend(layout: dict[str, Any], data: Sequence[Trace]) -> None:
    """Put the legend below the plot and make room for it.

    The page calculates anew where the window is narrow.
    """
    entries = sum(trace.get("showlegend", True) for trace in data)
    room = _LEGEND_ROW_PIXELS * -(-entries // _LEGEND_COLUMNS)
    layout["legend"] = {
        "orientation": "h",
        "x": 0,
        "xref": "container",
        "y": 0,
        "yref": "container",
        "yanchor": "bottom",
    }
    layout["margin"]["b"] += room
    layout["height"] += room


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Return an axis with a title that holds its unit."""
    return {
        "title": {"text": title, "standoff": 12},
        "gridcolor": GRID,
        "linecolor": GRID,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": GRID,
        "automargin": True,
        **more,
    }
