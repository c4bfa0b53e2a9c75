"""Predictions of measured cases: how far off each is, and what choosing by them would cost.

What is predicted from are a machine's link parameters, the bytes of a case, and the time of its
kernel alone. No time of a method goes into its prediction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lanescope.errors import NotMeasuredError
from lanescope.prediction.parameters import LinkParameters
from lanescope.prediction.predictor import STREAMED, Method, Prediction, Predictor
from lanescope.prediction.rank import Skipped
from lanescope.studies.ocean.measured import MeasuredCase, Timed, Validation
from lanescope.studies.ocean.running import workload_of
from lanescope.units.estimate import Estimate


class Choice(StrEnum):
    """What became of the method that is predicted to be the fastest."""

    RIGHT = "right"
    """It is the fastest that was measured."""
    TIE = "tie"
    """Another is, but by no more than its own runs differ."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Row:
    """A method with a number of streams, measured and predicted.

    Attributes
    ----------
    timed
        The runs.
    measured
        Median of the runs, with its interval.
    prediction
        With its own.
    """

    timed: Timed
    measured: Estimate
    prediction: Prediction

    @property
    def method(self) -> Method:
        """Which."""
        return self.timed.method

    @property
    def streams(self) -> int:
        """How many parts it was cut into."""
        return self.timed.streams

    @property
    def predicted(self) -> Estimate:
        """Seconds."""
        return self.prediction.seconds

    @property
    def error(self) -> float:
        """By how much the prediction is longer, as a share of the measured time; signed."""
        return self.predicted.value / self.measured.value - 1

    @property
    def inside(self) -> bool:
        """Whether the median lies within the prediction's interval."""
        return self.predicted.low <= self.measured.value <= self.predicted.high


@dataclass(frozen=True, slots=True)
class ComparedCase:
    """A case by one predictor.

    Attributes
    ----------
    measured
        The case.
    rows
        By method and rising number of streams.
    skipped
        Methods that the parameters say nothing about.
    """

    measured: MeasuredCase
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...] = ()

    def of(self, method: Method) -> tuple[Row, ...]:
        """Return the rows of a method."""
        return tuple(row for row in self.rows if row.method is method)

    @property
    def methods(self) -> tuple[Method, ...]:
        """Those that were measured and predicted."""
        return tuple(method for method in Method if self.of(method))

    def picked(self, method: Method) -> Row:
        """Return a method with the number of streams that is predicted to be its best."""
        return _predicted_fastest(self.of(method))

    def best(self, method: Method) -> Row:
        """Return a method with the number of streams that was measured to be its best."""
        return _fastest(self.of(method))

    def streams_loss(self, method: Method) -> float:
        """By which share the picked number of streams is slower than the best; measured."""
        return self.picked(method).measured.value / self.best(method).measured.value - 1

    @property
    def chosen(self) -> Row:
        """What is predicted to be the fastest of all."""
        return _predicted_fastest(self.rows)

    @property
    def fastest(self) -> Row:
        """What was measured to be the fastest of all."""
        return _fastest(self.rows)

    @property
    def loss(self) -> float:
        """By which share the chosen one is slower than the fastest; measured."""
        return self.chosen.measured.value / self.fastest.measured.value - 1

    @property
    def choice(self) -> Choice:
        """Whether the method was chosen rightly; see `Choice`."""
        if self.chosen.method is self.fastest.method:
            return Choice.RIGHT
        _, high = self.fastest.timed.spread
        return Choice.TIE if self.chosen.measured.value <= high else Choice.WRONG


@dataclass(frozen=True, slots=True)
class Compared:
    """All cases by one predictor.

    Attributes
    ----------
    predictor
        Its name.
    parameters
        From which it predicts.
    cases
        Those of which something was measured and predicted.
    """

    predictor: str
    parameters: LinkParameters
    cases: tuple[ComparedCase, ...]

    @property
    def rows(self) -> Iterator[tuple[ComparedCase, Row]]:
        """Every row with its case."""
        return ((case, row) for case in self.cases for row in case.rows)

    def largest(self, method: Method, *, picked: bool = False) -> tuple[ComparedCase, Row] | None:
        """Return where the error of a method is the largest, of either sign.

        With `picked` only the numbers of streams count that are predicted to be the best.
        """
        rows = [
            (case, row)
            for case, row in self.rows
            if row.method is method and (not picked or row == case.picked(method))
        ]
        return max(rows, key=lambda pair: abs(pair[1].error), default=None)

    def largest_streams_loss(self) -> tuple[ComparedCase, Method] | None:
        """Return where the picked number of streams costs most."""
        found = [(case, m) for case in self.cases for m in case.methods if m in STREAMED]
        return max(found, key=lambda pair: pair[0].streams_loss(pair[1]), default=None)


def compare(validation: Validation, parameters: LinkParameters, predictor: Predictor) -> Compared:
    """Predict all that was measured.

    Raises
    ------
    InputError
        If a case was measured with a number of streams that its grid cannot be cut into.
    """
    cases = (_compared(case, validation, parameters, predictor) for case in validation.cases)
    return Compared(predictor.name, parameters, tuple(case for case in cases if case.rows))


def _compared(
    measured: MeasuredCase,
    validation: Validation,
    parameters: LinkParameters,
    predictor: Predictor,
) -> ComparedCase:
    nx, ny, nz = validation.grid
    rows, skipped = [], {}
    for timed in measured.timed:
        workload = workload_of(
            measured.case,
            (nz, ny, nx),
            measured.kernel_of(timed.method).value,
            measured.reads,
        )
        try:
            found = predictor.predict(workload, timed.method, timed.streams, parameters)
        except NotMeasuredError as error:
            skipped[timed.method] = Skipped(timed.method, error.reason)
        else:
            rows.append(Row(timed, timed.median, found))
    return ComparedCase(measured, tuple(rows), tuple(skipped.values()))


def _fastest(rows: tuple[Row, ...]) -> Row:
    return min(rows, key=lambda row: (row.measured.value, row.streams))


def _predicted_fastest(rows: tuple[Row, ...]) -> Row:
    return min(rows, key=lambda row: (row.predicted.value, row.streams))
