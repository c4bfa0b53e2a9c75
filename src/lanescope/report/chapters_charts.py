"""Charts of a reproduction: what each source saw over a program's own steps, on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lanescope.document.chart import PERCENTILES, Axis, Chart, Curve, Span
from lanescope.report.chapters_reduce import Line, counted_line, probed_line, traced_line
from lanescope.report.format import bytes_text, seconds_text
from lanescope.report.palette import FROM_GPU, TO_GPU
from lanescope.watch.chapters.results import ProgramTold
from lanescope.watch.chapters.steps import Step

_WORDS = ("to the GPU", "from the GPU")
_SHADED = (
    "Shaded: the program's own steps, named where pointed at; drag to move, Shift and wheel to zoom"
)
#: Colours of sources, the same in all charts.
_SOURCES = {"pm": 0, "counters": 1, "throughput": 2, "trace": 3}
_GREY = "#808894"
#: Before the first step and after the last, of their time.
_ROOM = 0.01


def source_charts(one: ProgramTold) -> list[Chart]:
    """Return a chart for each direction: all counters and the trace; none without a watch."""
    shown = one.shown
    if not shown.steps or not (shown.payloads or shown.operations is not None):
        return []
    begin, end = _span(shown.steps)
    origin = _origin(shown.steps)
    charts = []
    for way, word in enumerate(_WORDS):
        lines = [(p.source, counted_line(p, way, begin, end)) for p in shown.payloads]
        if shown.operations is not None and len(shown.operations):
            lines.append(("trace", traced_line(shown.operations, way, begin, end)))
        curves = [_stairs(name, line, origin) for name, line in lines if line.end_ns.size]
        title = f"{one.program.title}: payload {word}, as each source saw it"
        charts.append(_chart(title, Axis("Payload", "GB/s"), curves, shown.steps))
    return charts


def probe_charts(one: ProgramTold) -> list[Chart]:
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
        lines = [probed_line(probe, way, what, begin, end) for way in range(len(_WORDS))]
        curves = [_banded(way, line, origin, scale) for way, line in enumerate(lines)]
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


def _banded(way: int, line: Line, origin: int, scale: float) -> Curve:
    return Curve(
        _WORDS[way],
        _seconds(line.end_ns, origin),
        _rounded(line.values * scale),
        () if line.low is None else _rounded(line.low * scale),
        () if line.high is None else _rounded(line.high * scale),
        hue=(TO_GPU, FROM_GPU)[way],
        points=False,
    )


def _seconds(times_ns: Any, origin: int) -> tuple[float, ...]:
    """Seconds since the first step, to 0.1 µs."""
    return tuple(round((int(time) - origin) * 1e-9, 7) for time in times_ns)


def _rounded(values: Any) -> tuple[float, ...]:
    """Numbers with four digits: what a chart shows, and a third of the bytes."""
    return tuple(float(f"{v:.4g}") for v in values)
