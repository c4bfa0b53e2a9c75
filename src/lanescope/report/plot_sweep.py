"""Curves of a sweep: bandwidth and time against the size of a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lanescope.experiment import Memory, Timing
from lanescope.measurement.result import FloatArray, Source
from lanescope.model.sweep import Series
from lanescope.report.format import (
    bytes_text,
    gbs_text,
    seconds_text,
)
from lanescope.report.palette import direction_colour, translucent
from lanescope.report.plot_hover import curve_hovers, curve_name
from lanescope.report.plot_parts import (
    Figure,
    Trace,
    axis,
    base_layout,
    numbers,
    plotly_text,
    with_legend,
)
from lanescope.units.bandwidth import bandwidths_gbs

#: What tells curves of one direction apart: dash of the line, sign of the point.
_STYLES = {
    (Memory.PINNED, Timing.GATE): ("solid", "circle"),
    (Memory.PINNED, Timing.HOST): ("dot", "diamond-open"),
    (Memory.PAGEABLE, Timing.HOST): ("dashdot", "square-open"),
}
_OTHER_STYLE = ("longdashdot", "cross-open")

_MOST_TICKS = 10


def bandwidth_figure(series: Sequence[Series]) -> Figure:
    """Return bandwidth against size, with the limit and where each curve saturates."""
    word = _word(series)
    figure = _figure(f"{word} bandwidth by size of the copy", series)
    figure["layout"]["yaxis"] = axis(f"Bandwidth (GB/s{_suffix(word)})", rangemode="tozero")
    figure["data"] = [
        *(t for s in series for t in _bandwidth_traces(s)),
        *_limit_lines(series),
        *_saturation_marks(series),
    ]
    with_legend(figure["layout"], figure["data"])
    return figure


def time_figure(series: Sequence[Series]) -> Figure:
    """Return the time of a copy against its size: the flat part is the delay."""
    word = _word(series)
    figure = _figure(f"{word} time by size of the copy", series)
    times = np.concatenate([s.seconds for s in series]) if series else np.array([1e-6])
    decades = range(int(np.floor(np.log10(times.min()))), int(np.ceil(np.log10(times.max()))) + 1)
    figure["layout"]["yaxis"] = axis(
        f"Time of one copy (seconds{_suffix(word)})",
        type="log",
        tickmode="array",
        tickvals=[10.0**d for d in decades],
        ticktext=[seconds_text(10.0**d).replace(".00", "").replace(".0", "") for d in decades],
    )
    figure["data"] = [t for s in series for t in _time_traces(s)]
    with_legend(figure["layout"], figure["data"])
    return figure


def _figure(title: str, series: Sequence[Series]) -> Figure:
    band = "" if _word(series) == "Predicted" else "Band: 5th to 95th percentile. "
    layout = base_layout(title, f"{band}Thin dashes: fitted delay + bytes / plateau", 460)
    layout |= {
        "margin": {"l": 8, "r": 12, "t": 76, "b": 76},
        "xaxis": _size_axis(series),
        "hovermode": "closest",
    }
    return {"data": [], "layout": layout}


def _size_axis(series: Sequence[Series]) -> dict[str, Any]:
    title = "Size of the copy (bytes)"
    if not series:
        return axis(title, type="log")
    low = int(np.floor(np.log2(min(s.sizes[0] for s in series))))
    high = int(np.ceil(np.log2(max(s.sizes[-1] for s in series))))
    step = max(1, -(-(high - low) // (_MOST_TICKS - 1)))
    powers = range(low, high + 1, step)
    return axis(
        title,
        type="log",
        tickmode="array",
        tickvals=[2**p for p in powers],
        ticktext=[bytes_text(2**p) for p in powers],
    )


def _bandwidth_traces(series: Series) -> list[Trace]:
    low, high = (bandwidths_gbs(series.sizes, s) for s in (series.high_seconds, series.low_seconds))
    fit = series.fit.gbs(series.sizes)
    return _curve(series, series.gbs, low, high, fit)


def _time_traces(series: Series) -> list[Trace]:
    fit = series.fit.seconds(series.sizes)
    return _curve(series, series.seconds, series.low_seconds, series.high_seconds, fit)


def _curve(
    series: Series, middle: FloatArray, low: FloatArray, high: FloatArray, fit: FloatArray
) -> list[Trace]:
    """The band of the spread, the fitted curve and the measured one on top."""
    colour = direction_colour(series.path)
    dash, symbol = _STYLES.get((series.memory, series.timing), _OTHER_STYLE)
    name = curve_name(series)
    group = {"legendgroup": name, "x": numbers(series.sizes)}
    band = {
        **group,
        "x": numbers(np.concatenate([series.sizes, series.sizes[::-1]])),
        "y": numbers(np.concatenate([high, low[::-1]])),
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "fill": "toself",
        "fillcolor": translucent(colour, 0.16),
        "hoverinfo": "skip",
        "showlegend": False,
        "name": f"{name}, 5th to 95th percentile",
    }
    fitted = {
        **group,
        "y": numbers(fit),
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 1.2, "dash": "dash", "color": translucent(colour, 0.75)},
        "hoverinfo": "skip",
        "showlegend": False,
        "name": f"{name}, fitted",
    }
    points = {
        **group,
        "y": numbers(middle),
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "line": {"width": 2, "dash": dash, "color": colour},
        "marker": {"size": 7, "symbol": symbol, "color": colour},
        "hovertext": curve_hovers(series),
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    spread = [] if series.source is Source.PREDICTED else [band]
    return [*spread, fitted, points]


def _limit_lines(series: Sequence[Series]) -> list[Trace]:
    """One line for each path, however many curves it has."""
    known = {s.path: s for s in series if s.limit_gbs is not None}
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": plotly_text(f"limit of {path}: {gbs_text(s.limit_gbs)} GB/s"),
            "x": numbers([s.sizes[0], s.sizes[-1]]),
            "y": [s.limit_gbs, s.limit_gbs],
            "line": {"width": 1.5, "dash": "longdash", "color": direction_colour(path)},
            "hoverinfo": "name",
        }
        for path, s in known.items()
    ]


def _saturation_marks(series: Sequence[Series]) -> list[Trace]:
    marked = [s for s in series if s.saturation_bytes is not None]
    if not marked:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "95 % of the plateau",
            "x": [s.saturation_bytes for s in marked],
            "y": [s.plateau_gbs * 0.95 for s in marked],
            "marker": {
                "symbol": "star",
                "size": 14,
                "color": [direction_colour(s.path) for s in marked],
                "line": {"width": 1, "color": "#ffffff"},
            },
            "hovertext": [
                f"<b>{curve_name(s)}</b><br>95 % of the plateau of {gbs_text(s.plateau_gbs)} GB/s "
                f"from {bytes_text(s.saturation_bytes)} on"
                for s in marked
            ],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
    ]


def _word(series: Sequence[Series]) -> str:
    predicted = [s.source is Source.PREDICTED for s in series]
    if predicted and all(predicted):
        return "Predicted"
    return "Measured and predicted" if any(predicted) else "Measured"


def _suffix(word: str) -> str:
    return "" if word == "Measured" else f", {word.lower()}"
