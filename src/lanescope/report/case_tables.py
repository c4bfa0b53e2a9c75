"""Cases as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lanescope.diagnosis import Diagnosis
from lanescope.experiment.case import Case, Matrix, Unit
from lanescope.measurement.result import Result, Status
from lanescope.model.case_values import CellValue, cell_values
from lanescope.report import format as fmt
from lanescope.report.status_style import verdict_text

_GOOD = (Status.HEALTHY, Status.UNJUDGED, Status.PREDICTED)


def case_parts(
    cases: Sequence[Case], results: Sequence[Result], *, mean: bool = False
) -> Iterator[RenderableType]:
    """Yield each case: its name, its matrices, and below them how sure and how good they are."""
    by_name = {r.experiment.name: r for r in results}
    for case in cases:
        yield Text.assemble((case.name, "bold"), f"  {case.description}")
        if case.not_applicable is not None:
            yield Text(f"  not applicable: {case.not_applicable}\n", "yellow")
            continue
        for matrix in case.matrices:
            values = cell_values(matrix, by_name)
            yield _matrix_table(matrix, values, mean)
        yield from _remarks(case, by_name)
        yield ""


def diagnosis_parts(diagnoses: Sequence[Diagnosis]) -> Iterator[RenderableType]:
    """Yield what the whole matrix says about causes."""
    for found in diagnoses:
        yield Text.assemble((f"{found.kind}: ", "bold magenta"), found.sentence)
        for line in found.evidence:
            yield Text(f"  seen: {line}", "dim")
        yield Text.assemble("  confirm: ", (found.confirm, "cyan"))
        yield Text(f"  → {found.remedy}")


def _matrix_table(matrix: Matrix, values: Sequence[CellValue], mean: bool) -> Table:
    words = f"{matrix.suffix}, {matrix.unit}" if matrix.suffix else str(matrix.unit)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(words)
    for column in range(matrix.columns):
        table.add_column(f"g{column}", justify="right")
    if matrix.rows == 1:
        table.add_column("sum", justify="right")
    cells = {(v.cell.row, v.cell.column): v for v in values}
    for row in range(matrix.rows):
        shown = [
            _cell(cells.get((row, column)), matrix.unit, mean) for column in range(matrix.columns)
        ]
        head = f"g{row}" if matrix.rows > 1 else ""
        if matrix.rows == 1:
            numbers = [v.mean if mean else v.median for v in values]
            known = [n for n in numbers if n is not None]
            shown.append(Text(_number(sum(known) if known else None, matrix.unit), "dim"))
        table.add_row(head, *shown)
    return table


def _cell(value: CellValue | None, unit: Unit, mean: bool) -> Text:
    if value is None:
        return Text(fmt.MISSING, "dim")
    style = {Status.SLOW: "bold red", Status.IMPOSSIBLE: "bold red"}.get(value.verdict.status, "")
    return Text(_number(value.mean if mean else value.median, unit), style)


def _number(value: float | None, unit: Unit) -> str:
    if value is None:
        return fmt.MISSING
    return f"{value:.0f}" if unit is Unit.NANOSECONDS else f"{value:.2f}"


def _remarks(case: Case, results: Mapping[str, Result]) -> Iterator[RenderableType]:
    values = [v for matrix in case.matrices for v in cell_values(matrix, results)]
    known = [v for v in values if v.median is not None]
    if known:
        yield Text("  " + "; ".join(_summary(known)), "dim")
    reasons = {v.verdict: v for v in values if v.verdict.status not in _GOOD}
    for verdict, value in reasons.items():
        place = f"  {value.cell.experiment}: " if value.cell.experiment else "  "
        yield Text(place) + verdict_text(verdict)


def _summary(values: Sequence[CellValue]) -> Iterator[str]:
    widths = [v.half_width for v in values if v.half_width is not None]
    if widths:
        yield f"95 % half-width {fmt.half_width_text(max(widths))} at most"
    variations = [v.variation for v in values if v.variation is not None]
    if variations:
        yield f"coefficient of variation {fmt.percent_text(max(variations))} at most"
    shares = [v.share_of_limit for v in values if v.share_of_limit is not None]
    if shares:
        least, most = fmt.percent_text(min(shares)), fmt.percent_text(max(shares))
        yield f"{least} of the limit" if least == most else f"{least} to {most} of the limit"
    counts = {s: sum(v.verdict.status is s for v in values) for s in (Status.HEALTHY, Status.SLOW)}
    yield from (f"{count} {status}" for status, count in counts.items() if count)
