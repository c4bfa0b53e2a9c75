"""The cases: what was measured of them, the file of that, and how far off predictions are."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from lanescope.codec.fields import FieldError, build, shown
from lanescope.codec.files import fields_of, read_json, require_version
from lanescope.errors import InputError, NotMeasuredError, command
from lanescope.prediction import stored_parameters
from lanescope.prediction.parameters import LinkParameters
from lanescope.prediction.points import SETTLED, median_of
from lanescope.prediction.predictor import STREAMED, Method, Prediction, Predictor
from lanescope.prediction.rank import Skipped
from lanescope.store.folder import RunFolder, default_runs_folder
from lanescope.studies.ocean.case import MOST_POINTS, GridCase
from lanescope.studies.ocean.reference import Equation, Kernel
from lanescope.studies.ocean.running import COLUMNS, workload_of
from lanescope.units.estimate import Estimate

#: `state` with one and three outputs and `buoydiff` are the paper's.
CASES = (
    GridCase(Kernel.STATE),
    GridCase(Kernel.STATE, outputs=3),
    GridCase(Kernel.STATE, Equation.JMCD),
    GridCase(Kernel.STATE, Equation.JMCD, outputs=3),
    GridCase(Kernel.BUOYDIFF),
    GridCase(Kernel.AXPY),
    GridCase(Kernel.CONVOLUTION),
)
#: Points from west to east, to north, and levels: the paper's grid.
GRID = (1024, 1024, 42)
#: Numbers of streams that are tried, as far as a grid has levels.
STREAMS = (1, 2, 3, 4, 6, 8, 14, 21, 42)
#: The file's name in a run folder.
FILE = "validation.json"
SCHEMA = 1


def case_name(case: GridCase) -> str:
    """Return a case in words, such as ``state mwjf, 3 outputs``."""
    if not case.has_equation:
        return str(case.kernel)
    name = f"{case.kernel} {case.equation}"
    if case.kernel is not Kernel.STATE:
        return name
    return f"{name}, {case.outputs} output{'s' if case.outputs > 1 else ''}"


def stream_counts(method: Method, levels: int) -> tuple[int, ...]:
    """Return the numbers of streams to try of a grid with so many levels, its own among them."""
    if method not in STREAMED:
        return (1,)
    return tuple(sorted({*(n for n in STREAMS if n <= levels), min(levels, STREAMS[-1])}))


@dataclass(frozen=True, slots=True)
class TimedMethod:
    """A case by a method.

    Attributes
    ----------
    streams
        Into how many parts it was cut; 1 for methods without streams.
    seconds
        Of each run, until the host had seen the end of all.
    disturbed
        The same of rounds that do not count, as another one was clearly faster.
    """

    method: Method
    streams: int
    seconds: tuple[float, ...]
    disturbed: tuple[float, ...] = ()

    @property
    def median(self) -> Estimate:
        """With its 95 % interval; of fewer than six runs, their range."""
        return median_of(np.array(self.seconds))

    @property
    def spread(self) -> tuple[float, float]:
        """5th and 95th percentile of the runs."""
        low, high = np.percentile(self.seconds, [5, 95])
        return float(low), float(high)


def joined(method: Method, streams: int, rounds: Sequence[tuple[float, ...]]) -> TimedMethod:
    """Join rounds of the same: those whose median is within 3 % of the fastest one's count."""
    most = min(float(np.median(one)) for one in rounds) * (1 + SETTLED)
    counts = [one for one in rounds if float(np.median(one)) <= most]
    others = [one for one in rounds if one not in counts]
    return TimedMethod(method, streams, sum(counts, ()), sum(others, ()))


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """An output compared with NumPy's.

    Attributes
    ----------
    method, streams
        By which it was computed.
    output, unit, tolerance
        As `lanescope.studies.ocean.case.OutputDifference` has them.
    levels
        How many of the grid's were compared.
    largest
        The largest difference; None where a value is no number.
    """

    method: Method
    streams: int
    output: str
    unit: str
    tolerance: float
    levels: int
    largest: float | None = None

    @property
    def right(self) -> bool:
        """Whether rounding explains it."""
        return self.largest is not None and self.largest <= self.tolerance


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """All that was measured of a case.

    Attributes
    ----------
    kernel, equation, outputs
        As `GridCase` has them.
    mapped_reads
        How often each byte is read over the link in mapped memory, as computed; see
        `lanescope.studies.ocean.measuring`.
    counted_reads
        The same as PM sampling counted it; None where it could not.
    columns, points
        Seconds of the kernel alone, its data in the GPU's memory, in one launch: the version
        with one thread for each column, of Explicit and Pageable, and that of the others with
        one for each point. Of each run.
    timed
        Empty methods have not been measured yet.
    checks
        One for each output of each method.
    """

    kernel: Kernel
    equation: Equation
    outputs: int
    mapped_reads: float
    columns: tuple[float, ...]
    points: tuple[float, ...]
    timed: tuple[TimedMethod, ...] = ()
    checks: tuple[OutputCheck, ...] = ()
    counted_reads: float | None = None

    @property
    def reads(self) -> float:
        """Return how often a mapped byte is read, as counted or else as computed."""
        return self.mapped_reads if self.counted_reads is None else self.counted_reads

    @property
    def case(self) -> GridCase:
        """Return which it is."""
        return GridCase(self.kernel, self.equation, self.outputs)

    @property
    def name(self) -> str:
        """Return it in words."""
        return case_name(self.case)

    def kernel_of(self, method: Method) -> Estimate:
        """Return what the kernel's version of a method takes alone."""
        return median_of(np.array(self.columns if method in COLUMNS else self.points))


@dataclass(frozen=True, slots=True)
class Validation:
    """What one run measured.

    Attributes
    ----------
    gpu
        Its product name.
    grid
        Points from west to east, to north, and levels.
    seed
        Of the ocean.
    started
        As ISO 8601.
    tool_version
        Of lanescope.
    finished
        False where it was interrupted.
    cases
        As far as it came.
    machine_key
        As link parameters have it; None: not known.
    parameters
        From which it was predicted then; None: not stored.
    note
        What else there is to know of it.
    """

    gpu: str
    grid: tuple[int, int, int]
    seed: int
    started: str
    tool_version: str
    finished: bool
    cases: tuple[MeasuredCase, ...]
    machine_key: str | None = None
    parameters: LinkParameters | None = None
    note: str = ""

    @property
    def wrong(self) -> tuple[tuple[MeasuredCase, OutputCheck], ...]:
        """Outputs that are not what they should be."""
        return tuple((case, c) for case in self.cases for c in case.checks if not c.right)


def save(validation: Validation, run: RunFolder) -> None:
    """Write the file into a run folder, whole or not at all; raises `InputError`."""
    known = validation.parameters
    content = {"schema": SCHEMA} | dataclasses.asdict(
        dataclasses.replace(validation, parameters=None)
    )
    if known is not None:
        content["parameters"] = json.loads(stored_parameters.dumps(known))
    run.write_json(FILE, content)


def find(name: str) -> Path:
    """Return the file of a run: by the folder's path, its own, or the run's name.

    Raises
    ------
    InputError
        If there is none.
    """
    for path in (Path(name), Path(name) / FILE, default_runs_folder() / name / FILE):
        if path.is_file():
            return path
    raise InputError(
        f"{name!r} is no run of {command('model validate')} here or under "
        f"{default_runs_folder()}: there is no {FILE}; name the folder of one"
    )


def load(path: Path) -> Validation:
    """Read what `save` wrote.

    Raises
    ------
    InputError
        If it cannot be read, or is no such file.
    """
    again = f"name a run of {command('model validate')}, or run it again"
    table = read_json(path, inner=int(path.name == FILE))  # of a folder, maybe a stranger's
    if not isinstance(table, dict) or "cases" not in table:
        raise InputError(f"{path} holds no measured cases; {again}")
    with fields_of(path, again):
        require_version(table.get("schema"), SCHEMA, path, writer=table.get("tool_version"))
        if (known := table.get("parameters")) is not None:
            known = stored_parameters.parameters_of(known, f"in {path}")
        fields = {key: value for key, value in table.items() if key != "schema"}
        found = build(Validation, fields | {"parameters": known})
        _require_whole(found)
    return found


def _require_whole(found: Validation) -> None:
    for number, case in enumerate(found.cases):
        try:
            _ = case.case
        except InputError as error:
            raise FieldError(f"field 'outputs': {error}", "outputs", "cases", number) from error
        for one in case.timed:
            if not 1 <= one.streams <= found.grid[2]:
                raise FieldError(
                    f"{case.name}: a grid of {found.grid[2]} levels has no {one.streams} streams",
                    "streams",
                )
        for what, seconds in (
            ("columns", case.columns),
            ("points", case.points),
            *((f"timed {one.method}", one.seconds) for one in case.timed),
        ):
            if not seconds or min(seconds) <= 0:
                raise FieldError(f"{case.name}: {what} must have times above zero", what)
    points = math.prod(found.grid)
    if not 1 <= points <= MOST_POINTS:
        raise FieldError(f"field 'grid' has {shown(points)} points, not 1 to {MOST_POINTS}", "grid")


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

    timed: TimedMethod
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

    What is predicted from are a machine's link parameters, the bytes of a case, and the time of its
    kernel alone. No time of a method goes into its prediction.

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
