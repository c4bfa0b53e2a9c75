"""All cases of a page at a glance: a row for each, which leads to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lanescope.experiment.case import Case, Matrix
from lanescope.measurement.result import Result, Verdict
from lanescope.model.case_values import CellValue, cell_values, worst_verdict
from lanescope.report.case_text import number_text, span_text
from lanescope.report.format import MISSING
from lanescope.report.html import Cell, Column, Group, Markup, table, text
from lanescope.report.page_tables import badge
from lanescope.report.path_rows import source_word


def anchor(case: Case) -> str:
    """Return the identifier of a case within the page."""
    return f"case-{case.name}"


def overview_table(cases: Sequence[Case], results: Mapping[str, Result]) -> str:
    """Return a row for each case: its least and greatest cell, share of the limit, verdict.

    Parameters
    ----------
    results
        By the experiment's name.
    """
    columns = (
        Column("Case"),
        Column("Least", number=True, hint="The least cell"),
        Column("Greatest", number=True, hint="The greatest cell"),
        Column("% of limit", number=True, hint="Of the cell farthest from and nearest to it"),
        Column("Verdict", hint="The worst of its cells, and how many have it"),
    )
    rows = [[_link(case), *_rest(case, results)] for case in cases]
    word = source_word(results.values())
    return table(columns, [Group(rows)], f"All cases, {word}")


def _link(case: Case) -> Markup:
    return Markup(f'<a href="#{text(anchor(case))}">{text(case.name)}</a>')


def _rest(case: Case, results: Mapping[str, Result]) -> list[Cell]:
    if case.not_applicable is not None:
        return [MISSING, MISSING, MISSING, f"not applicable: {case.not_applicable}"]
    # The first matrix has every copy; further ones show the same turned or added up.
    matrix = case.matrices[0]
    values = [v for v in cell_values(matrix, results) if v.cell.experiment is not None]
    shares = [v.share_of_limit for v in values if v.share_of_limit is not None]
    return [
        *_ends(matrix, values),
        span_text(shares) if shares else MISSING,
        _verdict([v.verdict for v in values]),
    ]


def _ends(matrix: Matrix, values: Sequence[CellValue]) -> list[Cell]:
    known = [v.median for v in values if v.median is not None]
    if not known:
        return [MISSING, MISSING]
    return [f"{number_text(end(known), matrix.unit)} {matrix.unit}" for end in (min, max)]


def _verdict(verdicts: Sequence[Verdict]) -> Cell:
    if not verdicts:
        return MISSING
    worst = worst_verdict(verdicts)
    count = sum(v.status is worst.status for v in verdicts)
    how_many = "" if count == len(verdicts) else f" {count} of {len(verdicts)}"
    return Markup(f"{badge(worst).html}{how_many}")
