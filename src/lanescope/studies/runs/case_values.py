"""The numbers of cases: each cell's value with its spread, from a run's results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lanescope.copies.experiment import Case, Cell, Matrix, Unit
from lanescope.results.result import CopyResult, Result, Source, Status, Verdict
from lanescope.units.bandwidth import bandwidth_gbs


@dataclass(frozen=True, slots=True)
class CellValue:
    """What is known of one cell.

    Attributes
    ----------
    median, mean
        In the matrix's unit; sums where several copies make up the cell. None
        when there is no number.
    samples
        The same for every sample; empty for sums, whose copies are not sampled
        in step.
    low, high
        Nine of ten samples lie between them, in the matrix's unit; None where
        there are no samples or only a prediction.
    half_width, variation
        Of the least certain of its copies, as shares; None when unknown.
    copies
        The results that make it up.
    verdict
        The worst of its copies, or why there is no number.
    """

    cell: Cell
    median: float | None
    mean: float | None
    samples: tuple[float, ...]
    low: float | None
    high: float | None
    half_width: float | None
    variation: float | None
    copies: tuple[CopyResult, ...]
    verdict: Verdict

    @property
    def limit_gbs(self) -> float | None:
        """Sum of the copies' limits, GB/s; None when one is unknown."""
        limits = [c.limit_gbs for c in self.copies]
        return None if not limits or None in limits else sum(filter(None, limits))

    @property
    def share_of_limit(self) -> float | None:
        """Sum of the copies' rates as a share of the sum of their limits."""
        rates = [c.carried_gbs for c in self.copies]
        if self.limit_gbs is None or None in rates:
            return None
        return sum(filter(None, rates)) / self.limit_gbs

    def number(self, *, mean: bool = False) -> float | None:
        """Return the median or the mean."""
        return self.mean if mean else self.median


_Spread = tuple[float, float] | tuple[None, None]

#: From bad to good: the verdict of several copies is the first of theirs.
_WORST_FIRST = (
    Status.IMPOSSIBLE,
    Status.SLOW,
    Status.NOT_MEASURED,
    Status.BUSY,
    Status.UNRESOLVED,
    Status.PREDICTED,
    Status.UNJUDGED,
    Status.NOT_APPLICABLE,
    Status.HEALTHY,
)


def case_values(case: Case, results: Mapping[str, Result]) -> tuple[CellValue, ...]:
    """Return the values of all cells of all matrices of a case; see `cell_values`."""
    return tuple(v for matrix in case.matrices for v in cell_values(matrix, results))


def sum_of(values: Iterable[CellValue], *, mean: bool = False) -> float | None:
    """Return the sum of what is known of some cells, in their unit; None when nothing is."""
    known = [n for v in values if (n := v.number(mean=mean)) is not None]
    return sum(known) if known else None


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the first of the worst of one or more verdicts."""
    return min(verdicts, key=lambda v: _WORST_FIRST.index(v.status))


def cell_values(matrix: Matrix, results: Mapping[str, Result]) -> tuple[CellValue, ...]:
    """Return the value of each cell of a matrix.

    Parameters
    ----------
    results
        By the experiment's name.
    """
    return tuple(
        _value(cell, matrix.unit, results.get(cell.experiment or "")) for cell in matrix.cells
    )


def _value(cell: Cell, unit: Unit, result: Result | None) -> CellValue:
    if result is None or not result.copies:
        verdict = _why_missing(cell, result)
        return CellValue(cell, None, None, (), None, None, None, None, (), verdict)
    copies = tuple(result.copies[i] for i in cell.measured)
    verdict = worst_verdict(c.verdict for c in copies)
    if not _sum_is_known(cell, copies):
        return CellValue(cell, None, None, (), None, None, None, None, (), verdict)
    series = [[_in_unit(c, s, unit) for s in c.seconds if s > 0] for c in copies]
    low, high = _spread(result, copies, unit)
    widths = [c.statistics.half_width for c in copies]
    variations = [c.statistics.variation for c in copies]
    return CellValue(
        cell=cell,
        median=sum(_in_unit(c, c.statistics.median_seconds, unit) for c in copies),
        mean=float(sum(np.mean(s) for s in series)),
        samples=tuple(series[0]) if len(series) == 1 else (),
        low=low,
        high=high,
        half_width=_worst(widths),
        variation=_worst(variations),
        copies=copies,
        verdict=verdict,
    )


def _sum_is_known(cell: Cell, copies: Sequence[CopyResult]) -> bool:
    """Whether those that took turns on an engine are all in the cell, or none of them."""
    known = all(c.own_rate or c.in_turns_with for c in copies)
    return known and all(set(c.in_turns_with) <= set(cell.measured) for c in copies)


def _why_missing(cell: Cell, result: Result | None) -> Verdict:
    if cell.not_applicable is not None:
        return Verdict(Status.NOT_APPLICABLE, cell.not_applicable)
    if result is not None and result.not_measured is not None:
        return result.not_measured
    return Verdict(Status.NOT_MEASURED, "the run ended before it")


def _spread(result: Result, copies: Sequence[CopyResult], unit: Unit) -> _Spread:
    if len(copies) != 1 or result.source is Source.PREDICTED:
        return None, None
    ends = copies[0].statistics.p5_seconds, copies[0].statistics.p95_seconds
    if not min(ends) > 0:
        return None, None
    low, high = sorted(_in_unit(copies[0], s, unit) for s in ends)  # the longest time is slowest
    return low, high


def _in_unit(copy: CopyResult, seconds: float, unit: Unit) -> float:
    if unit is Unit.NANOSECONDS:
        return float(seconds * 1e9)
    return bandwidth_gbs(copy.copy.counted_bytes, float(seconds))


def _worst(shares: Sequence[float | None]) -> float | None:
    known = [s for s in shares if s is not None]
    return max(known) if len(known) == len(shares) else None
