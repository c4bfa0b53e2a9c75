"""The numbers of cases: each cell's value with its spread, from a run's results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lanescope.experiment.case import Cell, Matrix, Unit
from lanescope.measurement.bandwidth import bandwidth_gbs
from lanescope.measurement.result import CopyResult, Result, Status, Verdict


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
    half_width: float | None
    variation: float | None
    copies: tuple[CopyResult, ...]
    verdict: Verdict

    @property
    def share_of_limit(self) -> float | None:
        """Sum of the copies' rates as a share of the sum of their limits."""
        limits = [c.limit_gbs for c in self.copies]
        rates = [c.gbs for c in self.copies]
        if not limits or None in limits or None in rates:
            return None
        return sum(filter(None, rates)) / sum(filter(None, limits))


#: From bad to good: the verdict of several copies is the first of theirs.
_WORST_FIRST = (
    Status.IMPOSSIBLE,
    Status.SLOW,
    Status.NOT_MEASURED,
    Status.PREDICTED,
    Status.UNJUDGED,
    Status.HEALTHY,
)


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
        return CellValue(cell, None, None, (), None, None, (), _why_missing(cell, result))
    copies = tuple(result.copies[i] for i in cell.measured)
    series = [_in_unit(copy, unit) for copy in copies]
    widths = [c.statistics.half_width for c in copies]
    variations = [c.statistics.variation for c in copies]
    return CellValue(
        cell=cell,
        median=float(sum(_median(copy, unit) for copy in copies)),
        mean=float(sum(np.mean(s) for s in series)),
        samples=tuple(float(x) for x in series[0]) if len(series) == 1 else (),
        half_width=_worst(widths),
        variation=_worst(variations),
        copies=copies,
        verdict=min((c.verdict for c in copies), key=lambda v: _WORST_FIRST.index(v.status)),
    )


def _why_missing(cell: Cell, result: Result | None) -> Verdict:
    if cell.not_applicable is not None:
        return Verdict(Status.NOT_MEASURED, f"not applicable: {cell.not_applicable}")
    if result is not None and result.not_measured is not None:
        return result.not_measured
    return Verdict(Status.NOT_MEASURED, "the run ended before it")


def _median(copy: CopyResult, unit: Unit) -> float:
    seconds = copy.statistics.median_seconds
    if unit is Unit.NANOSECONDS:
        return seconds * 1e9
    return bandwidth_gbs(copy.copy.counted_bytes, seconds)


def _in_unit(copy: CopyResult, unit: Unit) -> Sequence[float]:
    if unit is Unit.NANOSECONDS:
        return [s * 1e9 for s in copy.seconds]
    return [bandwidth_gbs(copy.copy.counted_bytes, s) for s in copy.seconds if s > 0]


def _worst(shares: Sequence[float | None]) -> float | None:
    known = [s for s in shares if s is not None]
    return max(known) if len(known) == len(shares) else None
