"""What tables show of each latency: one flat value per experiment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lanescope.report.format import count_text
from lanescope.results.result import CopyResult, Result, Status, Verdict


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """One latency as it is shown.

    Attributes
    ----------
    title
        Its name for people.
    measured
        Its times; None when nothing was measured.
    load_gbs
        Bandwidth of the copies that kept the path busy meanwhile, in GB/s; None
        where nothing did.
    verdict
        Why there is no number, where there is none.
    """

    title: str
    result: Result
    measured: CopyResult | None
    load_gbs: float | None
    verdict: Verdict

    @property
    def seconds(self) -> float | None:
        """Median time; None when not measured."""
        return None if self.measured is None else self.measured.statistics.median_seconds

    @property
    def low_seconds(self) -> float | None:
        """5th percentile; None when not measured."""
        return None if self.measured is None else self.measured.statistics.p5_seconds

    @property
    def high_seconds(self) -> float | None:
        """95th percentile; None when not measured."""
        return None if self.measured is None else self.measured.statistics.p95_seconds

    @property
    def half_width(self) -> float | None:
        """Relative 95 % half-width of the median; None when unknown."""
        return None if self.measured is None else self.measured.statistics.half_width

    @property
    def budget_spent(self) -> bool:
        """Whether the time budget ended the sampling, and not the target."""
        return self.result.stop is not None and self.result.stop.reason == "budget"


def latency_rows(results: Iterable[Result]) -> tuple[LatencyRow, ...]:
    """Return a row for each experiment that holds a latency."""
    return tuple(_row(result) for result in results if result.experiment.has_latency)


def latency_sentence(rows: Sequence[LatencyRow]) -> str:
    """Return what became of some latencies in a sentence; empty for none."""
    missing = sum(row.measured is None for row in rows)
    known = len(rows) - missing
    clauses = []
    if known:
        verb = "was" if known == 1 else "were"
        clauses.append(f"{count_text(known, 'latency', 'latencies')} {verb} measured")
    if missing:
        verb = "was" if missing == 1 else "were"
        clauses.append(f"{count_text(missing, 'latency', 'latencies')} {verb} not measured")
    return "; ".join(clauses) + "." if clauses else ""


def _row(result: Result) -> LatencyRow:
    measured = next((c for c in result.copies if c.copy.operation.is_latency), None)
    load = next((c for c in result.copies if not c.copy.operation.is_latency), None)
    if measured is not None:
        verdict = measured.verdict
    else:
        verdict = result.not_measured or Verdict(Status.NOT_MEASURED, "no samples were taken")
    title = result.experiment.title
    return LatencyRow(title, result, measured, None if load is None else load.gbs, verdict)
