"""Charts as figures of the page."""

from __future__ import annotations

from math import log10

from lanescope.document.chart import Axis, Chart, Curve
from lanescope.report.chart_style import DASHES, LIMIT_DASH, MARKERS, colour
from lanescope.report.chart_ticks import axis_title, ticks, value_text, x_values, y_values
from lanescope.report.palette import translucent
from lanescope.report.plot_parts import (
    Figure,
    Trace,
    axis,
    base_layout,
    numbers,
    plotly_text,
    with_legend,
)

_HEIGHT = 440


def chart_figure(chart: Chart) -> Figure:
    """Return a chart as a figure."""
    layout = base_layout(plotly_text(chart.title), plotly_text(subtitle(chart)), _HEIGHT)
    layout |= {
        "margin": {"l": 8, "r": 12, "t": 76, "b": 76},
        "xaxis": _axis(chart.x, x_values(chart)),
        "yaxis": _axis(chart.y, y_values(chart)),
        "hovermode": "closest",
        "meta": "chart",  # the page breaks its title and subtitle where they are too long
    }
    bands = [_band(curve) for curve in chart.curves if curve.low and len(curve.x) > 1]
    data = [*bands, *(_line(chart, curve) for curve in chart.curves)]
    with_legend(layout, data)
    return {"data": data, "layout": layout}


def subtitle(chart: Chart) -> str:
    """Return what a chart's curves have in common, and what its bands are."""
    band = f"Band: {chart.band}" if chart.band else ""
    return ". ".join(part for part in (chart.subtitle, band) if part)


def _axis(about: Axis, values: list[float]) -> Trace:
    where, words = ticks(about, values)
    made = axis(axis_title(about), rangemode="tozero")
    if about.log:
        made |= {"type": "log", "rangemode": "normal"}
    if where:
        made |= {"tickmode": "array", "tickvals": where, "ticktext": words}
    if where and about.unit == "s":
        ends = min(where[0], *values), max(where[-1], *values)
        made |= {"range": [log10(end) for end in ends]}
    return made


def _band(curve: Curve) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plotly_text(curve.name),
        "legendgroup": plotly_text(curve.name),
        "x": numbers([*curve.x, *reversed(curve.x)]),
        "y": numbers([*curve.high, *reversed(curve.low)]),
        "line": {"width": 0},
        "fill": "toself",
        "fillcolor": translucent(colour(curve.colour), 0.16),
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _line(chart: Chart, curve: Curve) -> Trace:
    hue = colour(curve.colour)
    trace: Trace = {
        "type": "scatter",
        "mode": "lines" if curve.limit else "lines+markers",
        "name": plotly_text(curve.name),
        "legendgroup": plotly_text(curve.name),
        "x": numbers(curve.x),
        "y": numbers(curve.y),
        "hovertext": [_hover(chart, curve, i) for i in range(len(curve.x))],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    if curve.limit:
        return trace | {"line": {"width": 1.5, "dash": LIMIT_DASH[0], "color": hue}}
    symbol = MARKERS[curve.colour % len(MARKERS)][0]
    hollow = curve.hollow or (False,) * len(curve.x)
    return trace | {
        "line": {"width": 2, "dash": DASHES[curve.dash % len(DASHES)][0], "color": hue},
        "marker": {
            "size": 7,
            "symbol": [f"{symbol}-open" if open_ else symbol for open_ in hollow],
            "color": hue,
        },
    }


def _hover(chart: Chart, curve: Curve, i: int) -> str:
    lines = [f"<b>{plotly_text(curve.name)}</b>", _at(chart, curve, i)]
    if curve.low:
        low, high = value_text(chart.y, curve.low[i]), value_text(chart.y, curve.high[i])
        lines.append(f"{chart.band}: {low} to {high}")
    if curve.hollow and curve.hollow[i]:
        lines.append("unresolved: the clock takes too much of it")
    return "<br>".join(lines)


def _at(chart: Chart, curve: Curve, i: int) -> str:
    return f"{value_text(chart.x, curve.x[i])}: {value_text(chart.y, curve.y[i])}"
