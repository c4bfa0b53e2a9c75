"""Cases as blocks: an overview, then each case with its matrices, and their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lanescope.copies import experiment as cases_of
from lanescope.copies.copy import copies_text
from lanescope.copies.experiment import Case, Unit
from lanescope.document.blocks import (
    Block,
    Bullets,
    Code,
    Column,
    Details,
    Group,
    Kind,
    SectionLink,
    Style,
    Subsection,
    Table,
    TableCell,
    Text,
    TintedTable,
    Value,
    Words,
)
from lanescope.report import format as fmt
from lanescope.report.format import count_text, gbs_text, percent_text
from lanescope.results import Result, Status, Verdict
from lanescope.store.run import Run
from lanescope.studies.runs.rows import (
    CellValue,
    case_values,
    cell_values,
    source_word,
    sum_of,
    worst_verdict,
)
from lanescope.studies.runs.tables import badge

#: Verdicts that ask for nothing to be done or explained.
_GOOD = (Status.HEALTHY, Status.UNJUDGED, Status.PREDICTED)

_ARROWS = {"->": "→", "<-": "←", "<->": "↔"}
#: How the words end that tell what rows and columns are.
_ENDS = ("(row)", "(column)", *_ARROWS.values())


@dataclass(frozen=True, slots=True)
class Remark:
    """Why some cells are not as they should be.

    Attributes
    ----------
    verdict
        What these cells have in common.
    experiments
        Their experiments, once each, in the order of the cells; empty for cells
        that are not applicable.
    """

    verdict: Verdict
    experiments: tuple[str, ...]

    @property
    def place(self) -> str:
        """The first experiment and how many more there are; empty when there is none."""
        more = len(self.experiments) - 1
        return "".join(self.experiments[:1]) + (f" and {more} more" if more > 0 else "")


def number_text(value: float | None, unit: Unit) -> str:
    """Return a cell's number without its unit, as fine as nvbandwidth writes it."""
    if value is None:
        return fmt.MISSING
    return f"{value:.0f}" if unit is Unit.NANOSECONDS else f"{value:.2f}"


def corner_text(matrix: cases_of.Matrix) -> str:
    """Return what stands in the corner of a matrix: which one it is, and its unit."""
    return f"{matrix.suffix}, {matrix.unit}" if matrix.suffix else str(matrix.unit)


def ends_text(matrix: cases_of.Matrix) -> str:
    """Return what rows and columns are: what nvbandwidth's caption says of them, no more."""
    words = (_ARROWS.get(word, word) for word in matrix.caption.split())
    return " ".join(w for w in words if w.endswith(_ENDS))


def has_sum(matrix: cases_of.Matrix) -> bool:
    """Whether a sum is shown: of rates in one row, as nvbandwidth does. Times do not add up."""
    return matrix.rows == 1 and matrix.unit is Unit.GBS


def summary_text(values: Sequence[CellValue]) -> str:
    """Return how sure and how good some cells are; empty when none has a number."""
    return "; ".join(_summary([v for v in values if v.median is not None]))


def remarks(values: Sequence[CellValue]) -> tuple[Remark, ...]:
    """Return the reasons of all cells that are not as they should be, once each."""
    found: dict[Verdict, dict[str, None]] = {}
    for value in values:
        if value.verdict.status not in _GOOD:
            experiments = found.setdefault(value.verdict, {})
            if value.cell.experiment is not None:
                experiments[value.cell.experiment] = None
    return tuple(Remark(verdict, tuple(names)) for verdict, names in found.items())


def _summary(values: Sequence[CellValue]) -> Iterator[str]:
    widths = [v.half_width for v in values if v.half_width is not None]
    if widths:
        yield f"95 % half-width {fmt.half_width_text(max(widths))} at most"
    variations = [v.variation for v in values if v.variation is not None]
    if variations:
        yield f"coefficient of variation {fmt.percent_text(max(variations))} at most"
    shares = [v.share_of_limit for v in values if v.share_of_limit is not None]
    if shares:
        yield f"{span_text(shares)} of the limit"
    counts = {s: sum(v.verdict.status is s for v in values) for s in (Status.HEALTHY, Status.SLOW)}
    yield from (f"{count} {status}" for status, count in counts.items() if count)


def span_text(shares: Sequence[float]) -> str:
    """Return the least and the greatest of some shares in percent, once if they are the same."""
    least, most = fmt.percent_text(min(shares)), fmt.percent_text(max(shares))
    return least if least == most else f"{least} to {most}"


#: More cases than this get a table of contents.
_MOST_WITHOUT_OVERVIEW = 6
#: More columns than this take a whole line of the page.
_NARROW_COLUMNS = 4
#: More remarks than this on one case start folded.
_MOST_OPEN_REMARKS = 6
#: Shares of the limit that get no tint and the full tint. Nearly all cells of a
#: healthy machine lie above the first; a scale from zero would show them alike.
_PALE, _FULL = 0.5, 1.0
#: Copies beyond this are counted, not named, when a cell is pointed at.
_MOST_COPIES = 8

_LEGEND = (
    "Cells hold medians. The stronger the tint, the nearer to the limit: none at half of it or "
    "less, full at all of it. "
)
_SIGNS = "▼ marks a slow cell, ✕ one that is faster than its links can be. "
_HOVER = "Point at a cell for its copies, spread and limit."

_Results = Mapping[str, Result]


def case_blocks(run: Run, *, mean: bool = False) -> list[Block]:
    """Return all cases of a run; nothing where it has none.

    Parameters
    ----------
    mean
        Matrices hold means and not medians.
    """
    cases, gpus = run.manifest.cases, [gpu.id for gpu in run.manifest.machine.gpus]
    if not cases:
        return []
    by_name = {r.experiment.name: r for r in run.results}
    failed = any(v.verdict.failed for case in cases for v in case_values(case, by_name))
    legend = Text(f"{_LEGEND}{_SIGNS if failed else ''}{_HOVER}", Style.QUIET)
    overview = [_overview(cases, by_name)] if len(cases) > _MOST_WITHOUT_OVERVIEW else []
    return [Details([*overview, legend]), *(_case(case, by_name, gpus, mean) for case in cases)]


def _key(case: Case) -> str:
    return f"case-{case.name}"


def _case(case: Case, results: _Results, gpus: Sequence[str], mean: bool) -> Subsection:
    if case.not_applicable is not None:
        why = Text(f"Not applicable: {case.not_applicable}.", Style.WARNING)
        return Subsection(_key(case), case.name, case.description, [why])
    values = case_values(case, results)
    summary = summary_text(values)
    blocks: list[Block] = [_matrix(matrix, results, gpus, mean) for matrix in case.matrices]
    blocks += [Text(f"{summary}.", Style.QUIET)] if summary else []
    blocks += _remark_blocks(remarks(values))
    wide = any(m.columns > _NARROW_COLUMNS for m in case.matrices)
    return Subsection(_key(case), case.name, case.description, blocks, wide)


def _matrix(
    matrix: cases_of.Matrix, results: _Results, gpus: Sequence[str], mean: bool
) -> TintedTable:
    values = cell_values(matrix, results)
    cells = {(v.cell.row, v.cell.column): v for v in values}
    columns = [Column(corner_text(matrix)), *map(_number, gpus[: matrix.columns])]
    rows: list[list[Value | TableCell]] = [
        [
            gpus[row] if matrix.rows > 1 else "",
            *(_cell(cells.get((row, c)), matrix.unit, mean) for c in range(matrix.columns)),
        ]
        for row in range(matrix.rows)
    ]
    if has_sum(matrix):
        columns.append(_number("sum"))
        rows[0].append(number_text(sum_of(values, mean=mean), matrix.unit))
    used = [r for v in values if (r := results.get(v.cell.experiment or ""))]
    which = f"{source_word(used)} {matrix.suffix}".strip()
    return TintedTable(Table(f"{which.capitalize()}, {ends_text(matrix)}", columns, [Group(rows)]))


def _cell(value: CellValue | None, unit: Unit, mean: bool) -> TableCell:
    if value is None:
        return TableCell(None)
    return TableCell(
        number_text(value.number(mean=mean), unit),
        badge=badge(value.verdict) if value.verdict.failed else None,
        hint="\n".join(_hints(value, unit)),
        tint=_tint(value.share_of_limit),
    )


def _tint(share: float | None) -> float:
    return 0.0 if share is None else min(max((share - _PALE) / (_FULL - _PALE), 0.0), 1.0)


def _hints(value: CellValue, unit: Unit) -> list[str]:
    """What is known of a cell, a line each: copies, number, spread, limit, verdict."""
    lines = _copy_lines(value)
    if value.median is not None:
        lines.append(f"{number_text(value.median, unit)} {unit}")
    if value.low is not None:
        low, high = number_text(value.low, unit), number_text(value.high, unit)
        lines.append(f"p5 to p95: {low} to {high} {unit}")
    if value.limit_gbs is not None and value.share_of_limit is not None:
        share = percent_text(value.share_of_limit)
        lines.append(f"limit: {gbs_text(value.limit_gbs)} GB/s, {share} of it reached")
    return [*lines, f"{value.verdict.status}: {value.verdict.reason}"]


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


def _remark_blocks(found: Sequence[Remark]) -> list[Block]:
    if not found:
        return []
    # What is slow comes before what is missing: it is what there is to do.
    ordered = sorted(found, key=lambda r: not r.verdict.failed)
    listed = Bullets([_remark(remark) for remark in ordered])
    if len(found) <= _MOST_OPEN_REMARKS:
        return [listed]
    slow = sum(len(r.experiments) for r in found if r.verdict.status is Status.SLOW)
    words = f"{count_text(len(found), 'reason')}{f', {slow} slow' if slow else ''}"
    return [Details([listed], words, on_terminal=True)]


def _remark(remark: Remark) -> Words:
    place = (Code(remark.place), ": ") if remark.place else ()
    verdict = remark.verdict
    remedy = f" → {verdict.remedy}" if verdict.remedy else ""
    return (*place, badge(verdict), f": {verdict.reason}{remedy}")


def _overview(cases: Sequence[Case], results: _Results) -> Table:
    columns = (
        Column("case"),
        _number("least", "The least cell"),
        _number("greatest", "The greatest cell"),
        _number("of limit", "Of the cell farthest from and nearest to it"),
        Column("verdict", hint="The worst of its cells, and how many have it"),
    )
    rows = [[SectionLink(case.name, _key(case)), *_at_a_glance(case, results)] for case in cases]
    return Table(f"All cases, {source_word(results.values())}", columns, [Group(rows)])


def _at_a_glance(case: Case, results: _Results) -> list[Value | TableCell]:
    if case.not_applicable is not None:
        return [None, None, None, f"not applicable: {case.not_applicable}"]
    # The first matrix has every copy; further ones show the same turned or added up.
    matrix = case.matrices[0]
    values = [v for v in cell_values(matrix, results) if v.cell.experiment is not None]
    shares = [v.share_of_limit for v in values if v.share_of_limit is not None]
    known = [v.median for v in values if v.median is not None]
    ends = (f"{number_text(end(known), matrix.unit)} {matrix.unit}" for end in (min, max))
    return [
        *(ends if known else (None, None)),
        span_text(shares) if shares else None,
        _worst(values),
    ]


def _worst(values: Sequence[CellValue]) -> Value | TableCell:
    if not values:
        return None
    worst = worst_verdict([v.verdict for v in values])
    count = sum(v.verdict.status is worst.status for v in values)
    how_many = "" if count == len(values) else f" {count} of {len(values)}"
    return TableCell(badge(worst), mark=how_many)


def _number(title: str, hint: str | None = None) -> Column:
    return Column(title, Kind.COUNT, hint)
