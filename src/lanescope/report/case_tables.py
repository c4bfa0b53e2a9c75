"""Cases as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lanescope.diagnosis import Diagnosis
from lanescope.experiment.case import Case, Matrix, Unit
from lanescope.measurement.result import Result
from lanescope.model.case_values import CellValue, case_values, cell_values, sum_of
from lanescope.report import format as fmt
from lanescope.report.case_text import (
    corner_text,
    has_sum,
    number_text,
    remarks,
    row_text,
    summary_text,
)
from lanescope.report.status_style import verdict_text

#: Style of numbers that are worse than they should be.
_BAD = "bold red"


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
            yield _matrix_table(matrix, cell_values(matrix, by_name), mean)
        yield from _remarks(case_values(case, by_name))
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
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(corner_text(matrix))
    for column in range(matrix.columns):
        table.add_column(f"g{column}", justify="right")
    if has_sum(matrix):
        table.add_column("sum", justify="right")
    cells = {(v.cell.row, v.cell.column): v for v in values}
    for row in range(matrix.rows):
        shown = [
            _cell(cells.get((row, column)), matrix.unit, mean) for column in range(matrix.columns)
        ]
        if has_sum(matrix):
            shown.append(Text(number_text(sum_of(values, mean=mean), matrix.unit), "dim"))
        table.add_row(row_text(matrix, row), *shown)
    return table


def _cell(value: CellValue | None, unit: Unit, mean: bool) -> Text:
    if value is None:
        return Text(fmt.MISSING, "dim")
    return Text(number_text(value.number(mean=mean), unit), _BAD if value.verdict.failed else "")


def _remarks(values: Sequence[CellValue]) -> Iterator[RenderableType]:
    if summary := summary_text(values):
        yield Text(f"  {summary}", "dim")
    for remark in remarks(values):
        place = f"  {remark.place}: " if remark.place else "  "
        yield Text(place) + verdict_text(remark.verdict)
