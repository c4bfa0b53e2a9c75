"""A matrix of a case as a table of the page, tinted by how near each cell is to its limit."""

from __future__ import annotations

from collections.abc import Mapping

from lanescope.experiment.case import Matrix, Unit
from lanescope.experiment.notation import copies_text
from lanescope.measurement.result import Result
from lanescope.model.case_values import CellValue, cell_values, sum_of
from lanescope.report.case_text import corner_text, ends_text, has_sum, number_text, row_text
from lanescope.report.format import MISSING, gbs_text, percent_text
from lanescope.report.html import Cell, Column, Group, Markup, table, text
from lanescope.report.palette import STATUS_SIGNS
from lanescope.report.path_rows import source_word

#: Shares of the limit that get no tint and the full tint. Nearly all cells of a
#: healthy machine lie above the first; a scale from zero would show them alike.
_PALE, _FULL = 0.5, 1.0
#: Copies beyond this are counted, not named, when a cell is pointed at.
_MOST_COPIES = 8


def matrix_table(matrix: Matrix, results: Mapping[str, Result]) -> str:
    """Return a matrix with the median of each cell.

    Parameters
    ----------
    results
        By the experiment's name.
    """
    values = cell_values(matrix, results)
    cells = {(v.cell.row, v.cell.column): v for v in values}
    columns = [Column(corner_text(matrix))]
    columns += [Column(f"g{column}", number=True) for column in range(matrix.columns)]
    rows: list[list[Cell]] = [
        [
            row_text(matrix, row),
            *(_cell(cells.get((row, column)), matrix.unit) for column in range(matrix.columns)),
        ]
        for row in range(matrix.rows)
    ]
    if has_sum(matrix):
        columns.append(Column("sum", number=True))
        rows[0].append(_plain(number_text(sum_of(values), matrix.unit)))
    used = [r for v in values if (r := results.get(v.cell.experiment or ""))]
    return table(columns, [Group(rows)], _caption(matrix, source_word(used)))


def _caption(matrix: Matrix, source: str) -> str:
    which = f"{source} {matrix.suffix}".strip()
    return f"{which.capitalize()}, {ends_text(matrix)}"


def _plain(words: str) -> Markup:
    return Markup(f'<span class="plain">{text(words)}</span>')


def _cell(value: CellValue | None, unit: Unit) -> Cell:
    if value is None:
        return _plain(MISSING)
    number = text(number_text(value.median, unit))
    kind = "cell"
    if value.verdict.failed:
        word = text(value.verdict.status)
        sign = f'<span aria-hidden="true">{STATUS_SIGNS[value.verdict.status]}</span>'
        number = f'{sign}<span class="unseen">{word}</span> <strong>{number}</strong>'
        kind += f" {word}"
    title = text(cell_title(value, unit))
    return Markup(f'<span class="{kind}" title="{title}"{_tint(value)}>{number}</span>')


def _tint(value: CellValue) -> str:
    share = value.share_of_limit
    if share is None:
        return ""
    strength = min(max((share - _PALE) / (_FULL - _PALE), 0.0), 1.0)
    return f' style="--tint:{strength:.2f}"'


def cell_title(value: CellValue, unit: Unit) -> str:
    """Return what is known of a cell, a line each: copies, number, spread, limit, verdict."""
    lines = _copy_lines(value)
    if value.median is not None:
        lines.append(f"{number_text(value.median, unit)} {unit}")
    if value.low is not None:
        low, high = number_text(value.low, unit), number_text(value.high, unit)
        lines.append(f"5th–95th percentile: {low} to {high} {unit}")
    if value.limit_gbs is not None and value.share_of_limit is not None:
        share = percent_text(value.share_of_limit)
        lines.append(f"limit: {gbs_text(value.limit_gbs)} GB/s, {share} of it reached")
    lines.append(f"{value.verdict.status}: {value.verdict.reason}")
    return "\n".join(lines)


def _copy_lines(value: CellValue) -> list[str]:
    """The copies that the cell shows, and all that ran with them."""
    whole = value.cell.experiment
    if whole is None:
        return []
    shown = copies_text(c.copy for c in value.copies)
    if not shown or shown == whole:
        return [_cut(whole)]
    return [_cut(shown), f"together with the rest of: {_cut(whole)}"]


def _cut(copies: str) -> str:
    listed = copies.split(", ")
    more = len(listed) - _MOST_COPIES
    return ", ".join(listed[:_MOST_COPIES]) + (f" and {more} more" if more > 0 else "")
