"""The type of a finding, and the sentences that several kinds share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lanescope.document.finding import Finding
from lanescope.experiment.taruc.benchmark import Benchmark
from lanescope.model.taruc.compare import Comparison


def finding(
    kind: str, bench: Benchmark, sentence: str, evidence: Iterable[str], effect: float
) -> Finding:
    """Return a finding of a micro-benchmark, which its verb measures again."""
    return Finding(
        kind, sentence, tuple(dict.fromkeys(evidence)), f"lanescope bench {bench}", effect=effect
    )


def worst(found: Sequence[Comparison]) -> Comparison | None:
    """Return the comparison whose other is slowest; None when none is slower for certain."""
    return max((c for c in found if c.slower), key=lambda c: c.ratio, default=None)


def how_many(found: Sequence[Comparison]) -> str:
    """Return in how many of some comparisons the other is slower; empty for one alone."""
    slower = sum(c.slower for c in found)
    return "" if len(found) == 1 else f"; slower in {slower} of {len(found)} such pairs"


def listed(names: Iterable[str]) -> str:
    """Return names as a list in words."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
