"""Charts as picture files, for papers and slides."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lanescope.document.chart import Axis, Chart, Curve
from lanescope.errors import InputError
from lanescope.report.chart_plotly import subtitle
from lanescope.report.chart_style import DASHES, LIMIT_DASH, MARKERS, colour
from lanescope.report.chart_ticks import axis_title, ticks, x_values, y_values
from lanescope.report.matplotlib_folder import writable_folder
from lanescope.report.taruc_charts import taruc_charts
from lanescope.run.atomic import replace_when_written
from lanescope.run.run import Run

FORMATS = ("png", "svg")
DPI = 150
_INCHES = (8.0, 4.6)
_LEGEND_ROW_INCHES = 0.22
_NOTE_COLUMNS = 120
#: Three, or two, names of so many letters fill a row of the legend.
_SHORT_NAME, _LONG_NAME = 25, 44
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a929c",
    "axes.grid": True,
    "grid.color": "#dde2e8",
    "grid.linewidth": 0.7,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "lanescope",  # the same picture for the same numbers
}


def write_charts(run: Run, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every chart of a suite's run, a file for each format, and return the files.

    The folder is made where it is missing; a run without micro-benchmarks gives
    neither files nor a folder.

    Raises
    ------
    InputError
        If the folder is none or cannot be written to, a format is not one of
        `FORMATS`, or matplotlib is not installed.
    """
    if unknown := set(formats) - set(FORMATS):
        raise InputError(f"charts are not written as {sorted(unknown)[0]}; png and svg are known")
    charts = taruc_charts(run)
    if not charts:
        return []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [path for chart in charts for path in _write(chart, folder, formats)]
    except FileExistsError as error:
        raise InputError(f"{folder} is not a folder; name one for the plots") from error
    except OSError as error:
        raise InputError(
            f"cannot write plots into {folder}: {error.strerror}; name another folder"
        ) from error


def write_chart(chart: Chart, path: Path) -> None:
    """Write one chart to a file whose name ends in one of `FORMATS`.

    Raises
    ------
    InputError
        If it cannot be written, or matplotlib is not installed.
    """
    try:
        _write(replace(chart, key=path.stem), path.parent, (path.suffix.removeprefix("."),))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; name another place") from error


def _write(chart: Chart, folder: Path, formats: Sequence[str]) -> list[Path]:
    try:
        with writable_folder():
            import matplotlib
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "picture files need matplotlib, which is not installed: pip install matplotlib"
        ) from error
    entries = len(chart.curves)
    columns = _columns(max((len(c.name) for c in chart.curves), default=0))
    notes = [line for note in chart.notes for line in textwrap.wrap(note, _NOTE_COLUMNS)]
    below = _LEGEND_ROW_INCHES * -(-entries // columns) + 0.17 * len(notes) + 0.15
    height = _INCHES[1] + below
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(_INCHES[0], height), layout=None)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.115, (below + 0.55) / height, 0.86, (_INCHES[1] - 1.2) / height))
        for curve in chart.curves:
            _draw(axes, curve)
        _frame(axes, chart)
        figure.text(0.02, 1 - 0.16 / height, chart.title, size=12, weight="bold", va="top")
        figure.text(0.02, 1 - 0.40 / height, subtitle(chart), size=9, va="top", color="#57606a")
        figure.legend(
            loc="lower left",
            bbox_to_anchor=(0.015, (0.17 * len(notes) + 0.05) / height),
            ncols=columns,
            frameon=False,
            handlelength=3.2,
            borderaxespad=0,
        )
        figure.text(0.02, 0.06 / height, "\n".join(notes), size=8, color="#57606a", va="bottom")
        paths = []
        for name in formats:
            path = folder / f"{chart.key}.{name}"
            # the time of drawing says nothing about the measurement
            about = {"Date": None} if name == "svg" else None
            look: Any = {"format": name, "dpi": DPI, "metadata": about, "facecolor": "white"}
            replace_when_written(path, functools.partial(figure.savefig, **look))
            paths.append(path)
    return paths


def _columns(longest: int) -> int:
    """How many entries of a legend fit beside each other, by the letters of the longest."""
    return 3 if longest <= _SHORT_NAME else 2 if longest <= _LONG_NAME else 1


def _draw(axes: Any, curve: Curve) -> None:
    hue = colour(curve.colour)
    if curve.limit:
        axes.plot(curve.x, curve.y, color=hue, lw=1.2, ls=(0, LIMIT_DASH[1]), label=curve.name)
        return
    dash = DASHES[curve.dash % len(DASHES)][1]
    if curve.low and len(curve.x) > 1:
        axes.fill_between(curve.x, curve.low, curve.high, color=hue, alpha=0.16, lw=0)
    axes.plot(
        curve.x,
        curve.y,
        color=hue,
        lw=1.6,
        ls=dash if isinstance(dash, str) else (0, dash),
        marker=MARKERS[curve.colour % len(MARKERS)][1],
        ms=4.5,
        label=curve.name,
    )
    hollow = [i for i, open_ in enumerate(curve.hollow) if open_]
    if hollow:
        axes.plot(
            [curve.x[i] for i in hollow],
            [curve.y[i] for i in hollow],
            ls="none",
            marker=MARKERS[curve.colour % len(MARKERS)][1],
            ms=4.5,
            mfc="white",
            mec=hue,
            zorder=5,
        )


def _frame(axes: Any, chart: Chart) -> None:
    for about, values, side in (
        (chart.x, x_values(chart), axes.xaxis),
        (chart.y, y_values(chart), axes.yaxis),
    ):
        _ticks(axes, about, values, side)
    axes.set_xlabel(axis_title(chart.x))
    axes.set_ylabel(axis_title(chart.y))
    if not chart.y.log:
        axes.set_ylim(0, 1.08 * max((*y_values(chart), *(h for c in chart.curves for h in c.high))))


def _ticks(axes: Any, about: Axis, values: list[float], side: Any) -> None:
    if about.log:
        (axes.set_xscale if side is axes.xaxis else axes.set_yscale)("log")
    where, words = ticks(about, values)
    if where:
        if about.unit == "s":
            side.set_view_interval(min(where[0], *values), max(where[-1], *values), ignore=True)
        low, high = side.get_view_interval()
        kept = [(at, word) for at, word in zip(where, words, strict=True) if low <= at <= high]
        side.set_ticks([at for at, _ in kept], labels=[word for _, word in kept])
        side.set_ticks([], minor=True)
