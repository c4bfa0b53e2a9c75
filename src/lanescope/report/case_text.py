"""What cases say in words: shared by the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lanescope.experiment.case import Matrix, Unit
from lanescope.measurement.result import Status, Verdict
from lanescope.model.case_values import CellValue
from lanescope.report import format as fmt

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


def corner_text(matrix: Matrix) -> str:
    """Return what stands in the corner of a matrix: which one it is, and its unit."""
    return f"{matrix.suffix}, {matrix.unit}" if matrix.suffix else str(matrix.unit)


def ends_text(matrix: Matrix) -> str:
    """Return what rows and columns are: what nvbandwidth's caption says of them, no more."""
    words = (_ARROWS.get(word, word) for word in matrix.caption.split())
    return " ".join(w for w in words if w.endswith(_ENDS))


def row_text(matrix: Matrix, row: int) -> str:
    """Return the heading of a row; a matrix of one row needs none."""
    return f"g{row}" if matrix.rows > 1 else ""


def has_sum(matrix: Matrix) -> bool:
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
