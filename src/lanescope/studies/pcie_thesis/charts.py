"""Charts of a reproduction: what each source saw over the steps of a program, on one clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lanescope.document.contents import PERCENTILES, Axis, Chart, Curve, Span
from lanescope.report.format import bytes_text, seconds_text
from lanescope.report.html import FROM_GPU, TO_GPU
from lanescope.studies.pcie_thesis.reproduction import Step
from lanescope.studies.pcie_thesis.results import Payload, ProgramResults
from lanescope.trace.codes import Direction, FloatArray, IntArray
from lanescope.trace.operations import Operations
from lanescope.trace.probe import Probe
from lanescope.trace.rectangles import rectangles

#: With more points neighbours are joined: more than a wide screen has pixels.
MOST_POINTS = 3000
#: Rates below this share of the highest are as good as none: of many in a row two are kept.
_QUIET_SHARE = 2e-3


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line over time.

    Attributes
    ----------
    end_ns
        Until when each value holds, or when it was taken, nanoseconds since 1970.
    values
        Not a number where nothing is known.
    low, high
        Ends of a band; None without one.
    """

    end_ns: IntArray
    values: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None


def counted_line(payload: Payload, direction: int, begin_ns: int, end_ns: int) -> Line:
    """Return the rate of one direction in GB/s, record by record; pauses are left out."""
    last = int(np.searchsorted(payload.end_ns, end_ns)) + 1
    inside = slice(int(np.searchsorted(payload.end_ns, begin_ns)), last)
    return _few(payload.end_ns[inside], payload.gbs()[direction][inside])


def traced_line(operations: Operations, direction: int, begin_ns: int, end_ns: int) -> Line:
    """Return the rate of traced copies of one direction in GB/s, each with an even rate."""
    own = operations.rows(operations.direction == (Direction.H2D, Direction.D2H)[direction])
    times, columns = rectangles([own], (begin_ns, end_ns))
    lasted = np.where(columns[:, 1] > 0, columns[:, 1], np.nan)
    return _few(times, columns[:, 0] / lasted)


def probed_line(probe: Probe, direction: int, what: str, begin_ns: int, end_ns: int) -> Line:
    """Return bandwidth (``gbs``) or delay (``delay``, in seconds) of one direction.

    Of many records the median of equal parts of the time, with the 5th and 95th percentile.
    """
    own = probe.one_direction(direction)
    own = own.rows((own.begin_ns >= begin_ns) & (own.begin_ns < end_ns))
    values = own.gbs if what == "gbs" else own.delay_ns.astype(np.float64) * 1e-9
    if len(own) <= MOST_POINTS // 3:
        return Line(own.begin_ns, values)
    parts = MOST_POINTS // 3
    part = (own.begin_ns - begin_ns) * parts // max(end_ns - begin_ns, 1)
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    groups = np.split(values, starts[1:])
    low, middle, high = (
        np.array([_quantile_of_known(group, q) for group in groups]) for q in (0.05, 0.5, 0.95)
    )
    return Line(own.begin_ns[starts], middle, low, high)


def _quantile_of_known(values: FloatArray, q: float) -> float:
    known = values[np.isfinite(values)]
    return float(np.quantile(known, q)) if known.size else math.nan


def _few(end_ns: IntArray, values: FloatArray) -> Line:
    if not end_ns.size:
        return Line(end_ns, values)
    highest = np.nanmax(values) if np.isfinite(values).any() else 0.0
    quiet = np.abs(values) <= _QUIET_SHARE * highest
    inner = quiet & np.roll(quiet, 1) & np.roll(quiet, -1)
    inner[[0, -1]] = False
    end_ns, values = end_ns[~inner], values[~inner]
    each = -(-end_ns.size // MOST_POINTS)
    if each == 1:
        return Line(end_ns, values)
    starts = np.arange(0, end_ns.size, each)
    lasted = np.diff(end_ns, prepend=end_ns[:1]).astype(np.float64)
    known = np.where(np.isfinite(values), lasted, 0.0)
    sums = np.add.reduceat(np.where(np.isfinite(values), values * lasted, 0.0), starts)
    lasts = np.append(starts[1:], end_ns.size) - 1
    total = np.add.reduceat(known, starts)
    means = np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)
    return Line(end_ns[lasts], means)


_WORDS = ("to the GPU", "from the GPU")
_SHADED = (
    "Shaded: the program's own steps, named where pointed at; drag to move, Shift and wheel to zoom"
)
#: Colours of sources, the same in all charts.
_SOURCES = {"pm": 0, "counters": 1, "throughput": 2, "trace": 3}
_GREY = "#808894"
#: Before the first step and after the last, of their time.
_ROOM = 0.01


def source_charts(one: ProgramResults) -> list[Chart]:
    """Return a chart for each direction: all counters and the trace; none without a watch."""
    shown = one.shown
    if not shown.steps or not (shown.payloads or shown.operations is not None):
        return []
    begin, end = _span(shown.steps)
    origin = _origin(shown.steps)
    charts = []
    for direction, word in enumerate(_WORDS):
        lines = [(p.source, counted_line(p, direction, begin, end)) for p in shown.payloads]
        if shown.operations is not None and len(shown.operations):
            lines.append(("trace", traced_line(shown.operations, direction, begin, end)))
        curves = [_stairs(name, line, origin) for name, line in lines if line.end_ns.size]
        title = f"{one.program.title}: payload {word}, as each source saw it"
        charts.append(_chart(title, Axis("Payload", "GB/s"), curves, shown.steps))
    return charts


def probe_charts(one: ProgramResults) -> list[Chart]:
    """Return the probe's bandwidth and its delay, both directions in one; none without a probe."""
    probe, steps = one.shown.probe, one.shown.probe_steps
    if probe is None or not steps:
        return []
    begin, end = _span(steps)
    origin = _origin(steps)
    chunk = bytes_text(probe.chunk_bytes)
    shown = {
        "gbs": (f"bandwidth of the probe's copies of {chunk}", Axis("Bandwidth", "GB/s"), 1.0),
        "delay": ("delay of the probe's copies of 4 bytes", Axis("Delay", "µs"), 1e6),
    }
    charts = []
    for what, (title, axis, scale) in shown.items():
        lines = [
            probed_line(probe, direction, what, begin, end) for direction in range(len(_WORDS))
        ]
        curves = [_banded(direction, line, origin, scale) for direction, line in enumerate(lines)]
        charts.append(_chart(f"{one.program.title}: {title}", axis, curves, steps))
    return charts


def _span(steps: Sequence[Step]) -> tuple[int, int]:
    begin, end = min(s.begin_ns for s in steps), max(s.end_ns for s in steps)
    room = int((end - begin) * _ROOM)
    return begin - room, end + room


def _origin(steps: Sequence[Step]) -> int:
    return min(step.begin_ns for step in steps)


def _chart(title: str, y: Axis, curves: Sequence[Curve], steps: Sequence[Step]) -> Chart:
    (begin, end), origin = _span(steps), _origin(steps)
    ends = (begin - origin) * 1e-9, (end - origin) * 1e-9
    x = Axis("s since the first step", ends=ends)
    spans = tuple(_shade(step, i, origin) for i, step in enumerate(steps))
    band = PERCENTILES if any(curve.low for curve in curves) else ""
    return Chart("", "", title, _SHADED, x, y, tuple(curves), band, spans=spans)


def _shade(step: Step, number: int, origin: int) -> Span:
    begin, end = _seconds([step.begin_ns, step.end_ns], origin)
    moved = [
        f"{bytes_text(count)} {word}"
        for count, word in zip(step.moved, _WORDS, strict=True)
        if count
    ]
    hint = "\n".join([step.name, seconds_text(step.seconds), *moved])
    if not moved:
        return Span(begin, end, step.name, _GREY, 0.05 + 0.05 * (number % 2), hint)
    return Span(begin, end, step.name, TO_GPU if step.h2d_bytes else FROM_GPU, 0.13, hint)


def _stairs(source: str, line: Line, origin: int) -> Curve:
    """A value holds from the record before to its own end."""
    number = _SOURCES.get(source, len(_SOURCES))
    times, values = _seconds(line.end_ns, origin), _rounded(line.values)
    dash = 1 if source == "trace" else 0
    return Curve(source, times, values, colour=number, dash=dash, points=False, stairs=True)


def _banded(direction: int, line: Line, origin: int, scale: float) -> Curve:
    return Curve(
        _WORDS[direction],
        _seconds(line.end_ns, origin),
        _rounded(line.values * scale),
        () if line.low is None else _rounded(line.low * scale),
        () if line.high is None else _rounded(line.high * scale),
        hue=(TO_GPU, FROM_GPU)[direction],
        points=False,
    )


def _seconds(times_ns: Any, origin: int) -> tuple[float, ...]:
    """Seconds since the first step, to 0.1 µs."""
    return tuple(round((int(time) - origin) * 1e-9, 7) for time in times_ns)


def _rounded(values: Any) -> tuple[float, ...]:
    """Numbers with four digits: what a chart shows, and a third of the bytes."""
    return tuple(float(f"{v:.4g}") for v in values)
