"""Cases as a section of the page: an overview, then each case with its matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lanescope.experiment.case import Case, Matrix
from lanescope.measurement.result import Result, Status
from lanescope.model.case_values import case_values
from lanescope.report.case_text import Remark, remarks, summary_text
from lanescope.report.format import count_text
from lanescope.report.html import Markup, items, text
from lanescope.report.page_matrix import matrix_table
from lanescope.report.page_overview import anchor, overview_table
from lanescope.report.page_tables import badge, reason

#: More cases than this get a table of contents.
_MOST_WITHOUT_OVERVIEW = 6
#: More columns than this take a whole line of the page.
_NARROW_COLUMNS = 4
#: More remarks than this on one case start folded.
_MOST_OPEN_REMARKS = 6

LEGEND = (
    "Cells hold medians. The stronger the tint, the nearer to the limit: none at half of it or "
    "less, full at all of it. "
)
SIGNS = "▼ marks a slow cell, ✕ one that is faster than its links can be. "
HOVER = "Point at a cell for its copies, spread and limit."


def cases_section(cases: Sequence[Case], results: Sequence[Result]) -> str:
    """Return all cases of a run; empty when it has none."""
    if not cases:
        return ""
    by_name = {r.experiment.name: r for r in results}
    values = [v for case in cases for v in case_values(case, by_name)]
    signs = SIGNS if any(v.verdict.failed for v in values) else ""
    overview = overview_table(cases, by_name) if len(cases) > _MOST_WITHOUT_OVERVIEW else ""
    shown = "".join(_case(case, by_name) for case in cases)
    return (
        f'{overview}<p class="quiet">{text(LEGEND + signs + HOVER)}</p>'
        f'<div class="cases">{shown}</div>'
    )


def _case(case: Case, results: Mapping[str, Result]) -> str:
    wide = " wide" if any(m.columns > _NARROW_COLUMNS for m in case.matrices) else ""
    head = (
        f'<article class="case{wide}" id="{text(anchor(case))}"><h3>{text(case.name)}</h3>'
        f"<p>{text(case.description)}</p>"
    )
    if case.not_applicable is not None:
        return f"{head}<p>Not applicable: {text(case.not_applicable)}.</p></article>"
    values = case_values(case, results)
    said = summary_text(values)
    summary = f'<p class="quiet">{text(said)}.</p>' if said else ""
    return (
        f"{head}{_matrices(case.matrices, results)}{summary}"
        f"{_remark_list(remarks(values))}</article>"
    )


def _matrices(matrices: Sequence[Matrix], results: Mapping[str, Result]) -> str:
    return f'<div class="matrices">{"".join(matrix_table(m, results) for m in matrices)}</div>'


def _remark_list(found: Sequence[Remark]) -> str:
    if not found:
        return ""
    # What is slow comes before what is missing: it is what there is to do.
    ordered = sorted(found, key=lambda r: not r.verdict.failed)
    listed = items(Markup(_remark(remark)) for remark in ordered)
    if len(found) <= _MOST_OPEN_REMARKS:
        return listed
    slow = sum(len(r.experiments) for r in found if r.verdict.status is Status.SLOW)
    words = f"{count_text(len(found), 'reason')}{f', {slow} slow' if slow else ''}"
    return f"<details><summary>{words}</summary>{listed}</details>"


def _remark(remark: Remark) -> str:
    place = f"<code>{text(remark.place)}</code> " if remark.place else ""
    return f"{place}{badge(remark.verdict).html} {reason(remark.verdict).html}"
