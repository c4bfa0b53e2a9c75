"""Figures of a reproduction: what each source saw over a program's own steps, on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lanescope.report.chapters_reduce import Line, counted_line, probed_line, traced_line
from lanescope.report.chart_style import DASHES, colour
from lanescope.report.format import bytes_text, seconds_text
from lanescope.report.palette import FROM_GPU, TO_GPU, translucent
from lanescope.report.plot_parts import (
    Figure,
    Trace,
    axis,
    base_layout,
    numbers,
    plotly_text,
    with_legend,
)
from lanescope.watch.chapters.steps import Step
from lanescope.watch.chapters.told import ProgramTold

_HEIGHT = 340
_WORDS = ("to the GPU", "from the GPU")
_SHADED = "Shaded: the program's own steps, named where pointed at; drag to zoom"
#: Colours of sources, the same in all figures.
_SOURCES = {"pm": 0, "counters": 1, "throughput": 2, "trace": 3}
#: Steps that take less of the width have no room for their name: it shows on hover.
_LEAST_NAMED = 0.05
_NAME_CHARACTERS = 22
#: Before the first step and after the last, of their time.
_ROOM = 0.01


def source_figures(one: ProgramTold) -> list[Figure]:
    """Return a figure for each direction: all counters and the trace; none without a watch."""
    shown = one.shown
    if not shown.steps or not (shown.payloads or shown.operations is not None):
        return []
    begin, end = _span(shown.steps)
    origin = _origin(shown.steps)
    figures = []
    for way, word in enumerate(_WORDS):
        lines = [(p.source, counted_line(p, way, begin, end)) for p in shown.payloads]
        if shown.operations is not None and len(shown.operations):
            lines.append(("trace", traced_line(shown.operations, way, begin, end)))
        data = [_stairs(name, line, origin) for name, line in lines if line.end_ns.size]
        title = f"{one.program.title}: payload {word}, as each source saw it"
        figures.append(_figure(title, "GB/s", data, shown.steps))
    return figures


def probe_figures(one: ProgramTold) -> list[Figure]:
    """Return the probe's bandwidth and its delay, both directions in one; none without a probe."""
    probe, steps = one.shown.probe, one.shown.probe_steps
    if probe is None or not steps:
        return []
    begin, end = _span(steps)
    origin = _origin(steps)
    chunk = bytes_text(probe.chunk_bytes)
    titles = {
        "gbs": (f"{one.program.title}: bandwidth of the probe's copies of {chunk}", "GB/s"),
        "delay": (f"{one.program.title}: delay of the probe's copies of 4 bytes", "µs"),
    }
    figures = []
    for what, (title, unit) in titles.items():
        data: list[Trace] = []
        for way, word in enumerate(_WORDS):
            line = probed_line(probe, way, what, begin, end)
            hue = (TO_GPU, FROM_GPU)[way]
            data += _banded(word, line, origin, hue, 1.0 if what == "gbs" else 1e6)
        figures.append(_figure(title, unit, data, steps))
    return figures


def _span(steps: Sequence[Step]) -> tuple[int, int]:
    begin, end = min(s.begin_ns for s in steps), max(s.end_ns for s in steps)
    room = int((end - begin) * _ROOM)
    return begin - room, end + room


def _origin(steps: Sequence[Step]) -> int:
    return min(step.begin_ns for step in steps)


def _figure(title: str, unit: str, data: list[Trace], steps: Sequence[Step]) -> Figure:
    (begin, end), origin = _span(steps), _origin(steps)
    layout: dict[str, Any] = base_layout(plotly_text(title), _SHADED, _HEIGHT)
    ends = [(begin - origin) * 1e-9, (end - origin) * 1e-9]
    layout |= {
        "margin": {"l": 8, "r": 12, "t": 76, "b": 60},
        "xaxis": axis("s since the first step", range=ends),
        "yaxis": axis(unit, rangemode="tozero"),
        "hovermode": "closest",
        "meta": "chart",
        "shapes": [_shade(step, i, origin) for i, step in enumerate(steps)],
        "annotations": [
            _name(step, origin)
            for step in steps
            if step.end_ns - step.begin_ns >= _LEAST_NAMED * (end - begin)
        ],
    }
    data = [*data, _step_marks(steps, origin)]
    with_legend(layout, data)
    return {"data": data, "layout": layout}


def _shade(step: Step, number: int, origin: int) -> dict[str, Any]:
    if sum(step.moved):
        fill = translucent(TO_GPU if step.h2d_bytes else FROM_GPU, 0.13)
    else:
        fill = f"rgba(128,136,148,{0.05 + 0.05 * (number % 2)})"
    return {
        "type": "rect",
        "layer": "below",
        "yref": "paper",
        "x0": (step.begin_ns - origin) * 1e-9,
        "x1": (step.end_ns - origin) * 1e-9,
        "y0": 0,
        "y1": 1,
        "line": {"width": 0},
        "fillcolor": fill,
    }


def _name(step: Step, origin: int) -> dict[str, Any]:
    middle = _middle(step, origin)
    name = step.name
    short = name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"
    return {
        "x": middle,
        "y": 1,
        "yref": "paper",
        "yanchor": "top",
        "showarrow": False,
        "text": plotly_text(short),
        "textangle": -90,
        "font": {"size": 11},
        "opacity": 0.75,
    }


def _middle(step: Step, origin: int) -> float:
    return (step.begin_ns - origin + step.end_ns - origin) / 2 * 1e-9


def _step_marks(steps: Sequence[Step], origin: int) -> Trace:
    """A mark at the foot of each step, that tells it when it is pointed at."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "steps",
        "showlegend": False,
        "x": [_middle(step, origin) for step in steps],
        "y": [0.0] * len(steps),
        "marker": {"size": 7, "symbol": "triangle-up", "color": "#708090"},
        "hovertext": [_step_words(step) for step in steps],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _step_words(step: Step) -> str:
    moved = [
        f"{bytes_text(count)} {word}"
        for count, word in zip(step.moved, _WORDS, strict=True)
        if count
    ]
    lines = [f"<b>{plotly_text(step.name)}</b>", seconds_text(step.seconds), *moved]
    return "<br>".join(lines)


def _stairs(source: str, line: Line, origin: int) -> Trace:
    """A value holds from the record before to its own end."""
    number = _SOURCES.get(source, len(_SOURCES))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": source,
        "x": _times(line, origin),
        "y": _rounded(line.values),
        "line": {
            "shape": "vh",
            "width": 2.5 if source == "trace" else 1.5,
            "color": colour(number),
            "dash": DASHES[1 if source == "trace" else 0][0],
        },
        "hovertemplate": f"{source}: %{{y:.3g}} GB/s<extra></extra>",
    }


def _banded(name: str, line: Line, origin: int, hue: str, scale: float) -> list[Trace]:
    times = _times(line, origin)
    curve: Trace = {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "x": times,
        "y": _rounded(line.values * scale),
        "line": {"width": 1.5, "color": hue},
        "hovertemplate": f"{name}: %{{y:.3g}}<extra></extra>",
    }
    if line.low is None or line.high is None:
        return [curve]
    band: Trace = {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "showlegend": False,
        "x": [*times, *reversed(times)],
        "y": [*_rounded(line.high * scale), *reversed(_rounded(line.low * scale))],
        "line": {"width": 0},
        "fill": "toself",
        "fillcolor": translucent(hue, 0.18),
        "hoverinfo": "skip",
    }
    return [band, curve]


def _times(line: Line, origin: int) -> list[float]:
    """Seconds since the first step, to 0.1 µs."""
    return [round(float(time) * 1e-9, 7) for time in line.end_ns - origin]


def _rounded(values: Any) -> list[float | None]:
    """Numbers with four digits: what a figure shows, and a third of the bytes."""
    return [None if v is None else float(f"{v:.4g}") for v in numbers(values)]
