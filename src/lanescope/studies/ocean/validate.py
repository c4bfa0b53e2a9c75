"""``model validate``: how far predictions are from measured kernels of an ocean model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from lanescope.calls import checked
from lanescope.codec.fields import shown
from lanescope.document.blocks import (
    Column,
    Group,
    Kind,
    Section,
    Span,
    Style,
    Table,
    TableCell,
    Text,
)
from lanescope.document.contents import Axis, Bar, BarRow, Bars
from lanescope.errors import InputError, argument
from lanescope.kinds import StrPath
from lanescope.machine import discover
from lanescope.prediction.parameters import LinkParameters, Origin
from lanescope.prediction.predictor import PUBLISHED_ERRORS, STREAMED, Method, predictor_named
from lanescope.report.format import (
    count_text,
    fine_percent_text,
    seconds_text,
)
from lanescope.report.html import colour
from lanescope.studies import MOST_PARTS, Argument, Option, one_run
from lanescope.studies.analysis import (
    PARAMETERS,
    Analysis,
    AnalysisResult,
    Observer,
    OutFolder,
    Parameters,
    Silent,
    analysis_folder,
    link_parameters,
    seconds_fields,
)
from lanescope.studies.ocean.case import parse_sides
from lanescope.studies.ocean.measured import (
    GRID,
    Choice,
    Compared,
    ComparedCase,
    MeasuredCase,
    Row,
    Validation,
    compare,
    find,
    load,
)
from lanescope.units.estimate import Estimate
from lanescope.units.values import Value, Whole

#: The first one's cases are shown.
_PREDICTORS = ("replay", "equations")
_CHOICES = {
    Choice.RIGHT: "right",
    Choice.TIE: "a tie, as the other's runs differ by more",
    Choice.WRONG: "wrong",
}
#: The paper has no bars of pageable memory.
_DRAWN = tuple(method for method in Method if method is not Method.PAGEABLE)
_COLUMNS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Validate(Analysis):
    """Run kernels by every method, predict each, and say how far off that is.

    Kernels of an ocean model and two more, by Explicit, Streams, Implicit, Hybrid and Pageable;
    their outputs are compared with NumPy's. Predicted is from the parameters of 'model fit' and
    the time of each kernel alone.

    Attributes
    ----------
    run
        A stored run, which is predicted again; no GPU is needed.
    parameters
        Link parameters: a name that ships, a GPU such as ``a100-sxm``, a file, a run of ``model
        fit``, or a `LinkParameters`; None for those of a stored run, else those of this machine.
    gpu
        Which GPU; None is the first.
    grid
        Points of the grids, such as ``"512x512x40"``.
    out
        Run folder; None makes one under the runs folder.
    predictor
        ``equations``, ``equations-shared`` or ``replay``; None takes replay, and equations for the
        summary.
    """

    verb: ClassVar[str] = "validate"
    title: ClassVar[str] = "Validation of predictions"

    run: Annotated[
        StrPath | None,
        Argument("[RUN]", "A stored run, which is predicted again; no GPU is needed.", one_run),
    ] = None
    parameters: Annotated[Parameters, PARAMETERS] = None
    gpu: Annotated[
        int | None,
        Option(
            Whole("--gpu", 0, MOST_PARTS, "more are in no machine"), "GPU to measure; default 0."
        ),
    ] = None
    grid: Annotated[
        str | None,
        Option(
            Value("--grid"),
            "Points of the grids; default 1024x1024x42, the paper's.",
            metavar="XxYxZ",
        ),
    ] = None
    out: OutFolder = None
    predictor: Annotated[
        str | None,
        Option(
            Value("--predictor"),
            "equations, equations-shared or replay; default: replay, with equations in the "
            "summary, too.",
        ),
    ] = None

    def result(self, observer: Observer) -> Validated:
        """Return what was measured, and each predictor's account of it."""
        self._require_alone()
        names = _PREDICTORS if self.predictor is None else [self.predictor]
        predictors = [predictor_named(name) for name in names]
        if self.run is None:
            validation, known = self._measured(observer)
        else:
            validation, known = self._stored(str(self.run))
        compared = tuple(compare(validation, known, one) for one in predictors)
        return Validated(validation, compared)

    def _require_alone(self) -> None:
        """Refuse what a stored run leaves without effect."""
        measured = ((argument.gpu, self.gpu), (argument.grid, self.grid), (argument.out, self.out))
        for name, given in measured:
            if self.run is not None and given is not None:
                raise InputError(f"a stored run was measured already; leave out {name}, or the run")

    def _stored(self, run: str) -> tuple[Validation, LinkParameters]:
        """Read a run, and parameters: those that are named, else its own, or this machine's."""
        validation = load(find(run))
        if not validation.cases:
            raise InputError(f"{shown(run)} ended before the first case was measured; run it again")
        if self.parameters is None and validation.parameters is not None:
            return validation, validation.parameters
        return validation, link_parameters(self.parameters)

    def _measured(self, observer: Observer) -> tuple[Validation, LinkParameters]:
        from lanescope.studies.ocean.measuring import record, require_gpu

        sides = GRID if self.grid is None else parse_sides(self.grid, argument.grid, "1024x1024x42")
        here, gpu = discover(), self.gpu or 0
        require_gpu(here, gpu)
        known = link_parameters(self.parameters)  # before anything is measured in vain
        with analysis_folder(self.verb, self.out, here) as run:
            observer.stores(run.path)
            return record(here, gpu, sides, known, run, progress=observer.progress), known

    @classmethod
    def read(cls, folder: Path) -> Validated:
        """Return what a run folder holds, with what is predicted for it."""
        return cls(run=folder).result(Silent())


@dataclass(frozen=True, slots=True, repr=False)
class Validated(AnalysisResult):
    """Measured cases, and what each predictor made of them; the first one's are shown."""

    validation: Validation
    compared: tuple[Compared, ...]

    @property
    def exit_code(self) -> int:
        """1 where an output is not what it should be."""
        return 1 if self.validation.wrong else 0

    def in_brief(self) -> list[str]:
        """Return what was measured, and how often the choice of a method was right."""
        first = self.compared[0]
        return [self._measured_on(), _predicted_from(first), _losses(first)]

    def _measured_on(self) -> str:
        found = self.validation
        sides = " × ".join(map(str, found.grid))
        return (
            f"Measured on {found.gpu}, grids of {sides} points, {found.started}"
            f"{'' if found.finished else ', interrupted'}"
        )

    def blocks(self) -> list[Section]:
        """Return a table for each case, the largest errors, and what went into all that."""
        found, first = self.validation, self.compared[0]
        by = [Text(self._measured_on()), Text(_predicted_from(first))]
        cases = [_case_section(case, first.predictor) for case in first.cases]
        losses = [Text(_losses(each)) for each in self.compared]
        wrong = [Text(line, Style.WARNING) for line in _wrong(found)]
        more = [Text(held_out(first)), *wrong, *map(Text, _notes(found, first))]
        return [
            Section("validate", "Predicted and measured", by),
            *cases,
            Section("errors", "Errors", [_largest(self.compared), *losses]),
            Section("notes", "What it holds for", more),
        ]

    def charts(self) -> list[Bars]:
        """Return measured and predicted bars of each case, at the predicted best streams."""
        return [_bars(case) for case in self.compared[0].cases]

    def picture(self) -> str:
        """Return a panel for each case as SVG."""
        from lanescope.report.charts import picture_svg

        first = self.compared[0]
        sides = " × ".join(map(str, self.validation.grid))
        return picture_svg(
            self.charts(),
            f"Measured on {self.validation.gpu}, and predicted for {first.parameters.name} by "
            f"{first.predictor}",
            f"Grids of {sides} points; whiskers: 95 % interval; at the left: streams; at the "
            "right: error of the prediction",
            [f"{held_out(first)} {Method.PAGEABLE} is not drawn: the paper has no such bars."],
            _COLUMNS,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all rows of all predictors; times are seconds, errors and losses shares."""
        found = self.validation
        return {
            "schema": self.schema,
            "measured": {
                "gpu": found.gpu,
                "grid": list(found.grid),
                "started": found.started,
                "finished": found.finished,
                "cases": [_measured(case) for case in found.cases],
            },
            "wrong_outputs": len(found.wrong),
            "predicted": [_compared(each) for each in self.compared],
            "held_out": held_out(self.compared[0]),
            "notes": [*_wrong(found), *_notes(found, self.compared[0])],
        }


def held_out(compared: Compared) -> str:
    """Return what went into the predictions, and what did not."""
    known = compared.parameters
    fitted = {
        Origin.MEASURED: "Fitted: the parameters, from transfers alone.",
        Origin.PUBLISHED: f"The parameters are published: {known.source}.",
        Origin.DERIVED: f"The parameters are derived: {known.source}.",
    }[known.origin]
    return (
        f"{fitted} Held out: every time of a method. Of a case the predictors get its "
        "bytes and the time of its kernel alone, by columns for Explicit and Pageable and by "
        f"points for the others; how often mapped memory is read {_reads(compared)}."
    )


def _reads(compared: Compared) -> str:
    """Where the reads of mapped memory come from, which the cases say one by one."""
    counted = [case.measured.counted_reads is not None for case in compared.cases]
    computed = "is computed from the kernel and the grid"
    if not any(counted):
        return computed
    words = "was counted by PM sampling, in runs that are not timed"
    return words if all(counted) else f"{words} where that could be, and else {computed}"


def _predicted_from(compared: Compared) -> str:
    known = compared.parameters
    day = f" of {known.day}" if known.day else ""
    return (
        f"Predicted by {compared.predictor} for {known.name}: {known.gpu}, {known.link}, "
        f"{known.origin} parameters{day}"
    )


def _case_section(case: ComparedCase, predictor: str) -> Section:
    skipped = [f"{one.method} is left out: {one.reason}" for one in case.skipped]
    name = case.measured.name
    words = [Text(words) for words in (_choice(case), *skipped)]
    return Section(f"case-{name}", name, [_case(case, predictor), *words])


def _case(case: ComparedCase, predictor: str) -> Table:
    alone = case.measured
    columns = (
        Column("method"),
        Column("streams", Kind.COUNT),
        Column("measured", Kind.SECONDS),
        Column("95 % interval", Kind.SECONDS),
        Column(f"predicted, {predictor}", Kind.SECONDS),
        Column("95 % interval", Kind.SECONDS),
        Column("error", Kind.ERROR, "Predicted over measured, less 1"),
        Column("best streams, measured", Kind.COUNT),
        Column("loss", Kind.FINE_SHARE, "What the predicted number of streams costs"),
    )
    rows = []
    for method in case.methods:
        row, cut = case.picked(method), method in STREAMED
        rows.append(
            (
                str(method),
                row.streams if cut else None,
                *_times_of(row.measured),
                *_times_of(row.predicted),
                row.error,
                case.best(method).streams if cut else None,
                case.streams_loss(method) if cut else None,
            )
        )
    title = (
        f"{alone.name}: kernel alone {seconds_text(alone.kernel_of(Method.EXPLICIT).value)} "
        f"by columns, {seconds_text(alone.kernel_of(Method.STREAMS).value)} by points (measured)"
    )
    return Table(title, columns, [Group(rows)])


def _times_of(one: Estimate) -> tuple[TableCell, Span]:
    return TableCell(one.value, strong=True), Span(one.low, one.high)


def row_text(row: Row) -> str:
    """Return a method with its number of streams, such as ``Streams (14)``."""
    return f"{row.method} ({row.streams})" if row.method in STREAMED else str(row.method)


def _choice(case: ComparedCase) -> str:
    chosen, fastest = case.chosen, case.fastest
    words = f"{row_text(chosen)} is predicted to be the fastest: {_CHOICES[case.choice]}."
    if chosen == fastest:
        return words
    return (
        f"{words} {row_text(fastest)} was measured to be; the choice is "
        f"{fine_percent_text(case.loss)} slower."
    )


def _largest(compared: Sequence[Compared]) -> Table:
    columns = [Column("method")]
    for each in compared:
        columns += [
            Column(f"{each.predictor}, any", Kind.ERROR),
            Column("of"),
            Column("best", Kind.ERROR),
        ]
    columns.append(Column("the paper's", Kind.FINE_SHARE))
    # the paper has no pageable memory
    published = {Method.PAGEABLE: None}
    rows = [
        (
            str(method),
            *(cell for each in compared for cell in _largest_of(each, method)),
            published.get(method, PUBLISHED_ERRORS[method]),
        )
        for method in Method
    ]
    title = "Largest error of each method: with any number of streams, and with the predicted best"
    return Table(title, columns, [Group(rows)])


def _largest_of(
    compared: Compared, method: Method
) -> tuple[float | None, str | None, float | None]:
    found, picked = compared.largest(method), compared.largest(method, picked=True)
    if found is None or picked is None:
        return None, None, None
    case, row = found
    streams = f" ({row.streams})" if method in STREAMED else ""
    return row.error, f"{case.measured.name}{streams}", picked[1].error


def _losses(compared: Compared) -> str:
    choices = [case.choice for case in compared.cases]
    counted = ", ".join(f"{choices.count(one)} {one}" for one in Choice)
    loss = max((case.loss for case in compared.cases), default=0.0)
    words = (
        f"By {compared.predictor}, of {count_text(len(choices), 'case')} the method was chosen: "
        f"{counted}; the choice is at most {fine_percent_text(loss)} slower than the fastest"
    )
    streams = compared.largest_streams_loss()
    if streams is not None:
        case, method = streams
        words += (
            f", the number of streams costs at most {fine_percent_text(case.streams_loss(method))} "
            f"({method}, {case.measured.name})"
        )
    inside = [row.inside for _, row in compared.rows]
    return (
        f"{words}. {sum(inside)} of {count_text(len(inside), 'measured time')} "
        f"{'lies' if len(inside) == 1 else 'lie'} within the predicted interval."
    )


def _wrong(found: Validation) -> Iterator[str]:
    for case, check in found.wrong:
        far = "no number" if check.largest is None else f"off by {check.largest:.1e} {check.unit}"
        yield (
            f"WRONG: {check.output} of {case.name} by {check.method} is {far.rstrip()}; allowed "
            f"are {check.tolerance:.1e} {check.unit}".rstrip()
        )


def _notes(found: Validation, compared: Compared) -> Iterator[str]:
    """What else there is to know: outputs, machines, and what is missing."""
    checks = [check for case in found.cases for check in case.checks]
    if checks and not found.wrong:
        yield f"All {count_text(len(checks), 'output')} compared agree with NumPy's."
    levels = found.grid[2]
    for case in found.cases:
        fewer = {check.levels for check in case.checks if check.levels < levels}
        if fewer:
            yield f"Of {case.name}, {min(fewer)} of {levels} levels were compared."
    timed = [one for case in found.cases for one in case.timed]
    disturbed = sum(bool(one.disturbed) for one in timed)
    if disturbed:
        yield (
            f"Of {disturbed} of {count_text(len(timed), 'time')} a round was clearly slower than "
            "another one: it was disturbed, and does not count."
        )
    key = compared.parameters.machine_key
    if found.machine_key and key != found.machine_key:
        yield (
            f"The parameters are of another machine ({key or compared.parameters.name}) than the "
            f"times ({found.machine_key})."
        )
    if found.note:
        yield found.note
    if not found.finished:
        yield "The run was interrupted: cases and methods that were not reached are missing."


def _bars(case: ComparedCase) -> Bars:
    name = case.measured.name
    rows = tuple(_bar_row(case.picked(method)) for method in _DRAWN if case.of(method))
    key = f"validate-{name.replace(', ', '-').replace(' ', '-')}"
    return Bars(key, "model", name, "", Axis("Time", "ms"), rows)


def _bar_row(row: Row) -> BarRow:
    bars = (_bar("measured", 0, row.measured), _bar("predicted", 1, row.predicted))
    return BarRow(row_text(row), bars, beside=f"{row.error * 100:+.1f} %")


def _bar(name: str, number: int, time: Estimate) -> Bar:
    return Bar(name, colour(number), time.value * 1e3, time.low * 1e3, time.high * 1e3)


def _measured(case: MeasuredCase) -> dict[str, Any]:
    return {
        "name": case.name,
        "kernel_by_columns": seconds_fields(case.kernel_of(Method.EXPLICIT)),
        "kernel_by_points": seconds_fields(case.kernel_of(Method.STREAMS)),
        "mapped_reads": case.mapped_reads,
        "counted_reads": case.counted_reads,
        "checks": [dataclasses.asdict(check) | {"right": check.right} for check in case.checks],
    }


def _compared(compared: Compared) -> dict[str, Any]:
    known = compared.parameters
    largest = {str(method): _largest_fields(compared, method) for method in Method}
    return {
        "predictor": compared.predictor,
        "machine": known.name,
        "origin": str(known.origin),
        "source": known.source,
        "cases": [_case_fields(case) for case in compared.cases],
        "largest_errors": {method: found for method, found in largest.items() if found},
    }


def _case_fields(case: ComparedCase) -> dict[str, Any]:
    return {
        "name": case.measured.name,
        "chosen": _which(case.chosen),
        "fastest": _which(case.fastest),
        "choice": str(case.choice),
        "loss": case.loss,
        "streams": [
            {
                "method": str(method),
                "picked": case.picked(method).streams,
                "best": case.best(method).streams,
                "loss": case.streams_loss(method),
            }
            for method in case.methods
            if method in STREAMED
        ],
        "rows": [_row_fields(row) for row in case.rows],
        "skipped": [dataclasses.asdict(one) for one in case.skipped],
    }


def _largest_fields(compared: Compared, method: Method) -> dict[str, Any] | None:
    found, picked = compared.largest(method), compared.largest(method, picked=True)
    if found is None or picked is None:
        return None
    return {
        "error": found[1].error,
        "case": found[0].measured.name,
        "streams": found[1].streams,
        "error_with_picked_streams": picked[1].error,
        "paper": None if method is Method.PAGEABLE else PUBLISHED_ERRORS[method],
    }


def _row_fields(row: Row) -> dict[str, Any]:
    return {
        **_which(row),
        "measured": seconds_fields(row.measured),
        "runs": len(row.timed.seconds),
        "predicted": seconds_fields(row.predicted),
        "busiest": row.prediction.busiest,
        "error": row.error,
        "inside": row.inside,
    }


def _which(row: Row) -> dict[str, Any]:
    return {"method": str(row.method), "streams": row.streams}
