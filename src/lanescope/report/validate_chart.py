"""Measured and predicted times as grouped bars, like figures 8 to 10 of the paper."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from lanescope.errors import InputError
from lanescope.model.overlap.methods import STREAMED, Method
from lanescope.model.transfer.estimate import Estimate
from lanescope.model.validation.compare import Compared, ComparedCase, Row
from lanescope.model.validation.measured import Validation
from lanescope.report.chart_files import DPI, FORMATS, STYLE
from lanescope.report.chart_style import colour
from lanescope.report.matplotlib_folder import writable_folder
from lanescope.report.validate_tables import held_out
from lanescope.run.atomic import replace_when_written

#: As in the paper; with pageable memory the other bars would be small.
_DRAWN = tuple(method for method in Method if method is not Method.PAGEABLE)
_COLUMNS = 2
_PANEL_INCHES = (4.4, 2.5)
_HEAD_INCHES, _LEGEND_INCHES, _LINE_INCHES = 0.55, 0.3, 0.155
_BAR = 0.38
_NOTE_COLUMNS = 140
_KINDS = (("measured", -_BAR / 2, 0), ("predicted", _BAR / 2, 1))


def write_bars(validation: Validation, compared: Compared, path: Path) -> None:
    """Draw a panel for each case to a file whose name ends in one of `FORMATS`.

    Each method has the number of streams that is predicted to be its best.

    Raises
    ------
    InputError
        If it cannot be written, or matplotlib is not installed.
    """
    assert path.suffix.removeprefix(".") in FORMATS
    try:
        with writable_folder():
            import matplotlib
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "picture files need matplotlib, which is not installed: pip install matplotlib"
        ) from error
    rows = -(-len(compared.cases) // _COLUMNS) or 1
    lines = _notes(compared)
    foot = _LEGEND_INCHES + _LINE_INCHES * len(lines) + 0.1
    inches = _COLUMNS * _PANEL_INCHES[0], rows * _PANEL_INCHES[1] + _HEAD_INCHES + foot
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=inches, layout=None)
        FigureCanvasAgg(figure)
        for number, case in enumerate(compared.cases):
            left = (number % _COLUMNS + 0.15) / _COLUMNS
            below = (rows - 1 - number // _COLUMNS) * _PANEL_INCHES[1] + foot + 0.45
            place = (
                left,
                below / inches[1],
                0.82 / _COLUMNS,
                (_PANEL_INCHES[1] - 0.85) / inches[1],
            )
            _draw(figure.add_axes(place), case)
        _words(figure, inches[1], validation, compared, lines)
        about = {"Date": None} if path.suffix == ".svg" else None
        try:
            replace_when_written(
                path,
                lambda file: figure.savefig(
                    file, format=path.suffix[1:], dpi=DPI, metadata=about, facecolor="white"
                ),
            )
        except OSError as error:
            raise InputError(
                f"cannot write {path}: {error.strerror}; name another place"
            ) from error


def _draw(axes: Any, case: ComparedCase) -> None:
    rows = [case.picked(method) for method in _DRAWN if case.of(method)]
    for kind, shift, hue in _KINDS:
        times = [row.measured if kind == "measured" else row.predicted for row in rows]
        axes.bar(
            [place + shift for place in range(len(rows))],
            [time.value * 1e3 for time in times],
            _BAR,
            color=colour(hue),
            yerr=_whiskers(times),
            error_kw={"lw": 0.9, "capsize": 2.5, "ecolor": "#24292f"},
            label=kind,
        )
    axes.set_xticks(range(len(rows)), labels=[_label(row) for row in rows])
    axes.grid(visible=False, axis="x")
    axes.set_axisbelow(True)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("Time (ms)")
    axes.set_title(case.measured.name, loc="left", size=10, weight="bold")


def _whiskers(times: list[Estimate]) -> list[list[float]]:
    return [
        [(time.value - time.low) * 1e3 for time in times],
        [(time.high - time.value) * 1e3 for time in times],
    ]


def _label(row: Row) -> str:
    error = f"{row.error * 100:+.1f} %"
    name = f"{row.method} ({row.streams})" if row.method in STREAMED else str(row.method)
    return f"{name}\n{error}"


def _notes(compared: Compared) -> list[str]:
    told = f"{held_out(compared)} {Method.PAGEABLE} is not drawn: the paper has no such bars."
    return textwrap.wrap(told, _NOTE_COLUMNS)


def _words(
    figure: Any, height: float, validation: Validation, compared: Compared, lines: list[str]
) -> None:
    known = compared.parameters
    sides = " × ".join(map(str, validation.grid))
    figure.text(
        0.02,
        1 - 0.12 / height,
        f"Measured on {validation.gpu}, and predicted for {known.name} by {compared.predictor}",
        size=12,
        weight="bold",
        va="top",
    )
    figure.text(
        0.02,
        1 - 0.38 / height,
        f"Grids of {sides} points; whiskers: 95 % interval; below: streams, and the error of "
        "the prediction",
        size=9,
        va="top",
        color="#57606a",
    )
    if figure.axes:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0.015, (_LINE_INCHES * len(lines) + 0.1) / height),
            ncols=2,
            frameon=False,
            borderaxespad=0,
        )
    figure.text(
        0.02,
        0.06 / height,
        "\n".join(lines),
        size=8,
        color="#57606a",
        va="bottom",
    )
