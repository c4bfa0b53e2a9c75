"""Which differences count: those beyond both 95 % intervals and above 3 %."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lanescope.document.contents import Finding
from lanescope.studies.taruc.contended import ScalingStep
from lanescope.studies.taruc.parameters import Benchmark
from lanescope.studies.taruc.points import Series, Setting, SizePoint
from lanescope.units.sizes import size_text
from lanescope.units.words import enumeration

#: Smaller differences are not told, however certain they are.
LEAST = 0.03

Interval = tuple[float, float]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two series at one size.

    Attributes
    ----------
    ratio
        Time of the other over that of the base.
    counts
        Whether the difference counts.
    """

    base: Series
    other: Series
    a: SizePoint
    b: SizePoint
    ratio: float
    counts: bool

    @property
    def setting(self) -> Setting:
        """That of the other."""
        return self.other.setting

    @property
    def size(self) -> str:
        """The size of both, in words."""
        return size_text(self.b.bytes)

    @property
    def slower(self) -> bool:
        """Whether the other is slower for certain."""
        return self.counts and self.ratio > 1

    @property
    def loss(self) -> float:
        """Share of the base's bandwidth that the other lacks."""
        return 1 - 1 / self.ratio

    @property
    def times(self) -> tuple[float, float]:
        """Median seconds of base and other; of one load for single loads."""
        return _median(self.a), _median(self.b)

    @property
    def rates(self) -> tuple[float, float]:
        """GB/s of base and other; 0 where the operation has none."""
        return self.a.gbs or 0.0, self.b.gbs or 0.0

    @property
    def evidence(self) -> tuple[str, str]:
        """Names of both experiments."""
        return self.a.experiment, self.b.experiment


def comparisons(
    series: Iterable[Series],
    alike: Callable[[Setting], Hashable],
    is_base: Callable[[Setting], bool],
    most_bytes: int | None = None,
) -> list[Comparison]:
    """Compare each series with its base, at the largest size that both have.

    Parameters
    ----------
    alike
        Returns what a series and its base have in common.
    is_base
        Whether others are compared with it.
    most_bytes
        No larger size is compared; None is any.
    """
    bases: dict[Hashable, Series] = {}
    others: dict[Hashable, list[Series]] = defaultdict(list)
    for one in series:
        if is_base(one.setting):
            bases.setdefault(alike(one.setting), one)
        else:
            others[alike(one.setting)].append(one)
    pairs = [(bases[key], other) for key in others if key in bases for other in others[key]]
    return [c for base, other in pairs if (c := _comparison(base, other, most_bytes)) is not None]


def grouped(
    found: Iterable[Comparison], key: Callable[[Setting], Key]
) -> dict[Key, list[Comparison]]:
    """Return comparisons by what their others have in common."""
    groups: dict[Key, list[Comparison]] = defaultdict(list)
    for comparison in found:
        groups[key(comparison.setting)].append(comparison)
    return groups


def points_differ(a: SizePoint, b: SizePoint) -> bool:
    """Whether the times of two points differ beyond their intervals and by more than 3 %."""
    first, second = _interval(a), _interval(b)
    return (
        first is not None and second is not None and _differ(_median(a), _median(b), first, second)
    )


def steps_differ(a: ScalingStep, b: ScalingStep) -> bool:
    """Whether two aggregates differ beyond their intervals and by more than 3 %."""
    return sums_differ([a], [b])


def sums_differ(a: Sequence[ScalingStep], b: Sequence[ScalingStep]) -> bool:
    """Whether sums of aggregates differ beyond their intervals and by more than 3 %."""
    ends = []
    for steps in (a, b):
        known = [s.interval_gbs for s in steps]
        intervals = [i for i in known if i is not None]
        if len(intervals) < len(known):
            return False
        ends.append((sum(i[0] for i in intervals), sum(i[1] for i in intervals)))
    return _differ(total_gbs(a), total_gbs(b), ends[0], ends[1])


def total_gbs(steps: Iterable[ScalingStep]) -> float:
    """Return the sum of aggregates, GB/s."""
    return sum(s.aggregate_gbs or 0.0 for s in steps)


def _comparison(base: Series, other: Series, most_bytes: int | None) -> Comparison | None:
    sizes = {p.bytes for p in base.measured} & {p.bytes for p in other.measured}
    if most_bytes is not None:
        sizes = {s for s in sizes if s <= most_bytes}
    if not sizes:
        return None
    a, b = base.at(max(sizes)), other.at(max(sizes))
    assert a is not None, "its size was taken from it"
    assert b is not None, "its size was taken from it"
    return Comparison(base, other, a, b, _median(b) / _median(a), points_differ(a, b))


def _differ(a: float, b: float, first: Interval, second: Interval) -> bool:
    disjoint = first[1] < second[0] or second[1] < first[0]
    return disjoint and abs(a - b) > LEAST * max(a, b)


def _median(point: SizePoint) -> float:
    return point.seconds[0] if point.seconds is not None else 0.0


def _interval(point: SizePoint) -> Interval | None:
    """The 95 % interval of the median; None with too few samples for one."""
    width = None if point.measured is None else point.measured.statistics.half_width
    if width is None:
        return None
    return _median(point) * (1 - width), _median(point) * (1 + width)


def finding(
    kind: str, bench: Benchmark, sentence: str, evidence: Iterable[str], effect: float
) -> Finding:
    """Return a finding of a micro-benchmark, which its verb measures again."""
    return Finding(
        kind, sentence, tuple(dict.fromkeys(evidence)), f"lanescope bench {bench}", effect=effect
    )


def of_worst(
    kind: str,
    bench: Benchmark,
    found: Sequence[Comparison],
    words: Callable[[Comparison], str],
    effect: Callable[[Comparison], float] = lambda top: top.loss,
    after: str = "",
) -> Iterator[Finding]:
    """Yield a finding on the comparison whose other is slowest, if one is slower for certain.

    Parameters
    ----------
    words
        Returns what it shows; in how many comparisons the other is slower follows, then `after`.
    effect
        Returns how large it is.
    """
    top = max((c for c in found if c.slower), key=lambda c: c.ratio, default=None)
    if top is None:
        return
    slower = sum(c.slower for c in found)
    pairs = "" if len(found) == 1 else f"; slower in {slower} of {len(found)} such pairs"
    yield finding(kind, bench, f"{words(top)}{pairs}{after}.", top.evidence, effect(top))


def unaffected(memories: Sequence[str]) -> str:
    """Return the kinds of memory that show no difference, as a clause; empty without any."""
    verb = "is" if len(memories) == 1 else "are"
    return f"; {enumeration(memories)} {verb} unaffected" if memories else ""
