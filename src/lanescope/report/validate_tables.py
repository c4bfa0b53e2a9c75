"""Measured and predicted cases as tables and lines of the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from lanescope.model.overlap.errors import PUBLISHED_ERRORS
from lanescope.model.overlap.methods import STREAMED, Method
from lanescope.model.transfer.parameters import Origin
from lanescope.model.validation.compare import Choice, Compared, ComparedCase, Row
from lanescope.model.validation.measured import Validation
from lanescope.report.format import MISSING, count_text, seconds_text, time_spread_text

_CHOICES = {
    Choice.RIGHT: "right",
    Choice.TIE: "a tie, as the other's runs differ by more",
    Choice.WRONG: "wrong",
}


def signed_text(share: float) -> str:
    """Return a signed share as percent.

    >>> signed_text(-0.0123)
    '-1.23 %'
    """
    return f"{share * 100:+.2f} %"


def _loss_text(share: float) -> str:
    return f"{share * 100:.2f} %"


def validate_parts(validation: Validation, compared: Sequence[Compared]) -> Iterator[Table | str]:
    """Return what the terminal shows; the cases are those of the first predictor."""
    first = compared[0]
    yield _head(validation)
    yield _parameters(first)
    for case in first.cases:
        yield ""
        yield _case(case, first.predictor)
        yield _choice(case)
        for skipped in case.skipped:
            yield f"{skipped.method} is left out: {skipped.reason}"
    yield ""
    yield _largest(compared)
    for each in compared:
        yield _losses(each)
    yield ""
    yield held_out(first)
    yield from notes(validation, first)


def held_out(compared: Compared) -> str:
    """Return what went into the predictions, and what did not."""
    known = compared.parameters
    fitted = {
        Origin.MEASURED: "Fitted: the parameters, from transfers alone.",
        Origin.PUBLISHED: f"The parameters are published: {known.source}.",
        Origin.DERIVED: f"The parameters are derived: {known.source}.",
    }[known.origin]
    return (
        f"{fitted} Held out: every time of a method. Of a case the predictors are told its "
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


def _head(validation: Validation) -> str:
    sides = " × ".join(map(str, validation.grid))
    return (
        f"Measured on {validation.gpu}, grids of {sides} points, {validation.started}"
        f"{'' if validation.finished else ', interrupted'}"
    )


def _parameters(compared: Compared) -> str:
    known = compared.parameters
    day = f" of {known.day}" if known.day else ""
    return (
        f"Predicted by {compared.predictor} for {known.name}: {known.gpu}, {known.link}, "
        f"{known.origin} parameters{day}"
    )


def _case(case: ComparedCase, predictor: str) -> Table:
    alone = case.measured
    table = Table(
        title=f"{alone.name}: kernel alone {seconds_text(alone.kernel_of(Method.EXPLICIT).value)} "
        f"by columns, {seconds_text(alone.kernel_of(Method.STREAMS).value)} by points (measured)",
        title_justify="left",
    )
    for name, justify in (
        ("method", "left"),
        ("streams", "right"),
        ("measured", "right"),
        ("95 % interval", "right"),
        (f"predicted, {predictor}", "right"),
        ("95 % interval", "right"),
        ("error", "right"),
        ("best streams, measured", "right"),
        ("loss", "right"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for method in case.methods:
        row, cut = case.picked(method), method in STREAMED
        table.add_row(
            str(method),
            str(row.streams) if cut else MISSING,
            seconds_text(row.measured.value),
            time_spread_text(row.measured.low, row.measured.high),
            seconds_text(row.predicted.value),
            time_spread_text(row.predicted.low, row.predicted.high),
            signed_text(row.error),
            str(case.best(method).streams) if cut else MISSING,
            _loss_text(case.streams_loss(method)) if cut else MISSING,
        )
    return table


def row_text(row: Row) -> str:
    """Return a method with its number of streams, such as ``Streams (14)``."""
    return f"{row.method} ({row.streams})" if row.method in STREAMED else str(row.method)


def _choice(case: ComparedCase) -> str:
    chosen, fastest = case.chosen, case.fastest
    told = f"{row_text(chosen)} is predicted to be the fastest: {_CHOICES[case.choice]}."
    if chosen == fastest:
        return told
    return (
        f"{told} {row_text(fastest)} was measured to be; the choice is {_loss_text(case.loss)} "
        "slower."
    )


def _largest(compared: Sequence[Compared]) -> Table:
    table = Table(
        title="Largest error of each method: with any number of streams, and with the predicted "
        "best",
        title_justify="left",
    )
    table.add_column("method")
    for each in compared:
        table.add_column(f"{each.predictor}, any", justify="right")
        table.add_column("of", justify="left")
        table.add_column("best", justify="right")
    table.add_column("the paper's", justify="right")
    for method in Method:
        cells = [cell for each in compared for cell in _largest_cells(each, method)]
        # the paper has no pageable memory
        published = None if method is Method.PAGEABLE else PUBLISHED_ERRORS[method]
        paper = MISSING if published is None else f"{published * 100:.2f} %"
        table.add_row(str(method), *cells, paper)
    return table


def _largest_cells(compared: Compared, method: Method) -> tuple[str, str, str]:
    found, picked = compared.largest(method), compared.largest(method, picked=True)
    if found is None or picked is None:
        return MISSING, MISSING, MISSING
    case, row = found
    streams = f" ({row.streams})" if method in STREAMED else ""
    return signed_text(row.error), f"{case.measured.name}{streams}", signed_text(picked[1].error)


def _losses(compared: Compared) -> str:
    choices = [case.choice for case in compared.cases]
    counted = ", ".join(f"{choices.count(one)} {one}" for one in Choice)
    loss = max((case.loss for case in compared.cases), default=0.0)
    told = (
        f"By {compared.predictor}, of {count_text(len(choices), 'case')} the method was chosen: "
        f"{counted}; the choice is at most {_loss_text(loss)} slower than the fastest"
    )
    streams = compared.largest_streams_loss()
    if streams is not None:
        case, method = streams
        told += (
            f", the number of streams costs at most {_loss_text(case.streams_loss(method))} "
            f"({method}, {case.measured.name})"
        )
    inside = [row.inside for _, row in compared.rows]
    return (
        f"{told}. {sum(inside)} of {count_text(len(inside), 'measured time')} "
        f"{'lies' if len(inside) == 1 else 'lie'} within the predicted interval."
    )


def notes(validation: Validation, compared: Compared) -> Iterator[str]:
    """Return what else there is to know: outputs, machines, and what is missing."""
    wrong = validation.wrong
    for case, check in wrong:
        far = "no number" if check.largest is None else f"off by {check.largest:.1e} {check.unit}"
        yield (
            f"WRONG: {check.output} of {case.name} by {check.method} is {far.rstrip()}; allowed "
            f"are {check.tolerance:.1e} {check.unit}".rstrip()
        )
    checks = [check for case in validation.cases for check in case.checks]
    if checks and not wrong:
        yield f"All {count_text(len(checks), 'output')} compared agree with NumPy's."
    levels = validation.grid[2]
    for case in validation.cases:
        fewer = {check.levels for check in case.checks if check.levels < levels}
        if fewer:
            yield f"Of {case.name}, {min(fewer)} of {levels} levels were compared."
    timed = [one for case in validation.cases for one in case.timed]
    disturbed = sum(bool(one.disturbed) for one in timed)
    if disturbed:
        yield (
            f"Of {disturbed} of {count_text(len(timed), 'time')} a round was clearly slower than "
            "another one: it was disturbed, and does not count."
        )
    key = compared.parameters.machine_key
    if validation.machine_key and key != validation.machine_key:
        yield (
            f"The parameters are of another machine ({key or compared.parameters.name}) than the "
            f"times ({validation.machine_key})."
        )
    if validation.note:
        yield validation.note
    if not validation.finished:
        yield "The run was interrupted: cases and methods that were not reached are missing."
