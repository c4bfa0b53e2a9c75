"""What the figures share: fonts, axes, numbers that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from math import isfinite
from typing import Any

Trace = dict[str, Any]
Figure = dict[str, Any]

#: Neutral enough to be read on white and on near-black without the page's help.
GRID = "rgba(128,136,148,0.28)"
TEXT = "#6b7480"
FONT = {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 13}

#: Marks a trace whose colour the page sets to that of its text.
FOLLOWS_TEXT = "text"


def plotly_text(value: str) -> str:
    """Return text that Plotly shows as it is: it reads ``<b>`` and the like as markup."""
    return escape(value, quote=False)


def numbers(values: Iterable[float]) -> list[float | None]:
    """Return plain floats; what JSON cannot hold becomes None, which Plotly leaves out."""
    return [float(v) if isfinite(v) else None for v in values]


def base_layout(title: str, height: int) -> dict[str, Any]:
    """Return the layout that every figure starts from."""
    return {
        "title": {"text": title, "x": 0, "xref": "container", "font": {"size": 15}},
        "height": height,
        "font": {**FONT, "color": TEXT},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"align": "left", "font": {"size": 13}},
    }


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
