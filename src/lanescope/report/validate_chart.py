"""Measured and predicted times as pairs of bars, like figures 8 to 10 of the paper."""

from __future__ import annotations

from pathlib import Path

from lanescope.document.chart import Axis, Bar, BarRow, Bars
from lanescope.model.overlap.methods import STREAMED, Method
from lanescope.model.transfer.estimate import Estimate
from lanescope.model.validation.compare import Compared, ComparedCase, Row
from lanescope.model.validation.measured import Validation
from lanescope.report.chart_files import picture_svg, write_picture
from lanescope.report.palette import colour
from lanescope.report.validate_tables import held_out

#: As in the paper; with pageable memory the other bars would be small.
_DRAWN = tuple(method for method in Method if method is not Method.PAGEABLE)
_COLUMNS = 2


def write_bars(validation: Validation, compared: Compared, path: Path) -> None:
    """Draw a panel for each case to a file whose name ends in ``.png`` or ``.svg``.

    Each method has the number of streams that is predicted to be its best.

    Raises
    ------
    InputError
        If it cannot be written, or vl-convert is not installed.
    """
    known = compared.parameters
    sides = " × ".join(map(str, validation.grid))
    picture = picture_svg(
        [validate_chart(case) for case in compared.cases],
        f"Measured on {validation.gpu}, and predicted for {known.name} by {compared.predictor}",
        f"Grids of {sides} points; whiskers: 95 % interval; at the left: streams; at the right: "
        "error of the prediction",
        [f"{held_out(compared)} {Method.PAGEABLE} is not drawn: the paper has no such bars."],
        _COLUMNS,
    )
    write_picture(picture, path)


def validate_chart(case: ComparedCase) -> Bars:
    """Return a pair of bars for each method of a case."""
    rows = tuple(_row(case.picked(method)) for method in _DRAWN if case.of(method))
    name = case.measured.name
    return Bars(f"validate-{name}", "model", name, "", Axis("Time", "ms"), rows)


def _row(row: Row) -> BarRow:
    name = f"{row.method} ({row.streams})" if row.method in STREAMED else str(row.method)
    bars = (_bar("measured", 0, row.measured), _bar("predicted", 1, row.predicted))
    return BarRow(name, bars, beside=f"{row.error * 100:+.1f} %")


def _bar(name: str, number: int, time: Estimate) -> Bar:
    return Bar(name, colour(number), time.value * 1e3, time.low * 1e3, time.high * 1e3)
