"""Ticks of the axes of charts: powers of ten for times and round sizes, of two for others."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor, isfinite, log2, log10

from lanescope.document.chart import Axis, Chart
from lanescope.report.format import bytes_text, seconds_text
from lanescope.units.sizes import is_decimal

_MOST_TICKS = 10
_FEW_DECADES = 2


def ticks(axis: Axis, values: Iterable[float]) -> tuple[list[float], list[str]]:
    """Return where an axis has ticks and what they say; empty where they come by themselves."""
    known = [v for v in values if v > 0]
    if not known or not axis.log:
        return [], []
    if axis.unit == "s":
        times = _times(min(known), max(known))
        return times, [_plain(seconds_text(time)) for time in times]
    if axis.unit == "B" and is_decimal(known):
        sizes = [10.0**p for p in _spread(floor(log10(min(known))), ceil(log10(max(known))))]
        return sizes, [bytes_text(size) for size in sizes]
    powers = _spread(floor(log2(min(known))), ceil(log2(max(known))))
    if axis.unit == "B":
        return [2.0**p for p in powers], [bytes_text(2.0**p) for p in powers]
    return [2.0**p for p in powers], [f"{2.0**p:g}" for p in powers]


def x_values(chart: Chart) -> list[float]:
    """Return every x of a chart."""
    return [x for curve in chart.curves for x in curve.x]


def y_values(chart: Chart) -> list[float]:
    """Return every y of a chart, those of bands too."""
    values = (y for c in chart.curves for ys in (c.y, c.low, c.high) for y in ys)
    return [y for y in values if isfinite(y)]


def value_text(axis: Axis, value: float) -> str:
    """Return a value of an axis with its unit."""
    match axis.unit:
        case "B":
            return bytes_text(value)
        case "s":
            return seconds_text(value)
    return f"{float(f'{value:.3g}'):g} {axis.unit}"


def axis_title(axis: Axis) -> str:
    """Return an axis' title with its unit."""
    return axis.label if axis.unit in ("B", "s", "") else f"{axis.label} ({axis.unit})"


def _times(low: float, high: float) -> list[float]:
    """Powers of ten around a range of times; where it is narrow, also 2 and 5 times them."""
    first, last = floor(log10(low)), ceil(log10(high))
    if last - first > _FEW_DECADES:
        return [10.0**p for p in _spread(first, last)]
    fine = [float(f"{m}e{p}") for p in range(first - 1, last + 1) for m in (1, 2, 5)]
    below = max(t for t in fine if t <= low)
    above = min(t for t in fine if t >= high * 1.01)
    return [t for t in fine if below <= t <= above]


def _spread(low: int, high: int) -> range:
    return range(low, high + 1, max(1, -(-(high - low) // (_MOST_TICKS - 1))))


def _plain(text: str) -> str:
    return text.replace(".00 ", " ").replace(".0 ", " ")
