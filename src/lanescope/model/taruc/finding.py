"""The type of a finding, and the sentences that several kinds share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lanescope.experiment.taruc.benchmark import Benchmark
from lanescope.model.taruc.compare import Comparison


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a suite has shown.

    Attributes
    ----------
    kind
        Stable identifier, such as ``far-host-memory``.
    sentence
        What was found, with numbers and units.
    evidence
        Names of the experiments that show it.
    confirm
        Shell command that measures it again.
    effect
        How large the difference is, as a share: of findings of one kind the
        largest comes first.
    """

    kind: str
    sentence: str
    evidence: tuple[str, ...]
    confirm: str
    effect: float


def finding(
    kind: str, bench: Benchmark, sentence: str, evidence: Iterable[str], effect: float
) -> Finding:
    """Return a finding of a micro-benchmark, which its verb measures again."""
    return Finding(
        kind, sentence, tuple(dict.fromkeys(evidence)), f"lanescope bench {bench}", effect
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
