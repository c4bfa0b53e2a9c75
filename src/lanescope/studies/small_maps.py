"""What a map of small copies tells: the fastest method of each cell, and where it changes.

Pure functions over stored results, so that an old run can be read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from lanescope.experiment import Purpose
from lanescope.experiment.submission import Submission
from lanescope.measurement.result import CopyResult, Result

#: Methods after which the bytes are where they should be, so that one can stand for another.
COPYING = (Submission.SINGLE, Submission.BATCH, Submission.GRAPH, Submission.KERNEL)

#: A gain that is worth another method, as a share of the time.
RELEVANT = 0.03
#: How many times as long smaller pieces must take to be worth a sentence.
INVERTED = 1.1


@dataclass(frozen=True, slots=True)
class SmallCell:
    """So many pieces of such a size, moved one way by several methods.

    Attributes
    ----------
    pieces, piece_bytes
        How many, and bytes of one.
    by_method
        What was measured.
    """

    pieces: int
    piece_bytes: int
    by_method: Mapping[Submission, CopyResult]

    def fastest(self, methods: Sequence[Submission] = tuple(Submission)) -> Submission | None:
        """Return the method with the smallest median; None when none was measured."""
        known = [m for m in methods if m in self.by_method]
        return min(known, key=self.seconds, default=None)

    def seconds(self, method: Submission) -> float:
        """Return the median time of all pieces together, in seconds."""
        return self.by_method[method].statistics.median_seconds

    def is_faster(self, method: Submission, other: Submission) -> bool:
        """Whether a method is faster than another by more than both intervals of the median."""
        ours, theirs = (self.by_method[m].statistics for m in (method, other))
        if ours.half_width is None or theirs.half_width is None:
            return False
        slowest = ours.median_seconds * (1 + ours.half_width)
        return slowest < theirs.median_seconds * (1 - theirs.half_width)

    def ties(self, methods: Sequence[Submission] = tuple(Submission)) -> tuple[Submission, ...]:
        """Return the methods that may be as fast as the fastest, for all that is known."""
        best = self.fastest(methods)
        others = (m for m in methods if m in self.by_method and m is not best)
        return tuple(m for m in others if best is not None and not self.is_faster(best, m))

    def submit_share(self, method: Submission) -> float | None:
        """Return the share of the time until the last call returned; None when not timed."""
        submit = self.by_method[method].submit_seconds
        return None if submit is None else submit / self.seconds(method)


@dataclass(frozen=True, slots=True)
class SmallMap:
    """All cells of one path.

    Attributes
    ----------
    path
        Such as ``h0 → g0``.
    counts, sizes
        What was asked for, ascending.
    cells
        By count and size; cells that were left out or not measured are missing.
    """

    path: str
    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    cells: Mapping[tuple[int, int], SmallCell]

    @property
    def methods(self) -> tuple[Submission, ...]:
        """The methods that were measured in some cell."""
        return tuple(m for m in Submission if any(m in c.by_method for c in self.cells.values()))

    @property
    def copying(self) -> tuple[Submission, ...]:
        """Those of them that copy; all of them when none does."""
        return tuple(m for m in self.methods if m in COPYING) or self.methods


@dataclass(frozen=True, slots=True)
class Regime:
    """A method that is the fastest from a size or a count on.

    Attributes
    ----------
    method
        The method.
    first
        The first size in bytes, or count, at which it was measured to be.
    """

    method: Submission
    first: int


@dataclass(frozen=True, slots=True)
class Inversion:
    """A method by which a piece takes longer than a larger one.

    Attributes
    ----------
    method
        The method.
    smaller, larger
        Cells of as many pieces, of neighbouring sizes.
    """

    method: Submission
    smaller: SmallCell
    larger: SmallCell

    @property
    def factor(self) -> float:
        """How many times as long the smaller pieces take."""
        return self.smaller.seconds(self.method) / self.larger.seconds(self.method)


def small_maps(results: Iterable[Result]) -> tuple[SmallMap, ...]:
    """Return a map for each path of which cells were measured."""
    found: dict[str, dict[tuple[int, int], dict[Submission, CopyResult]]] = defaultdict(dict)
    for result in results:
        if result.experiment.purpose is Purpose.SMALL and result.copies:
            copy = result.copies[0].copy
            cell = found[copy.path].setdefault((copy.pieces, copy.bytes // copy.pieces), {})
            cell[copy.submission] = result.copies[0]
    return tuple(
        SmallMap(
            path=path,
            counts=tuple(sorted({count for count, _ in cells})),
            sizes=tuple(sorted({size for _, size in cells})),
            cells={key: SmallCell(*key, by_method) for key, by_method in cells.items()},
        )
        for path, cells in found.items()
    )


def regimes_by_size(
    small: SmallMap, count: int, methods: Sequence[Submission]
) -> tuple[Regime, ...]:
    """Return which method is the fastest from which size on, for a number of pieces."""
    return regimes([(s, small.cells.get((count, s))) for s in small.sizes], methods)


def regimes_by_count(
    small: SmallMap, size: int, methods: Sequence[Submission]
) -> tuple[Regime, ...]:
    """Return which method is the fastest from which count on, for a size of a piece."""
    return regimes([(n, small.cells.get((n, size))) for n in small.counts], methods)


def regimes(
    line: Sequence[tuple[int, SmallCell | None]], methods: Sequence[Submission]
) -> tuple[Regime, ...]:
    """Return the regimes along a line of cells, ascending.

    A method keeps its place until another is faster by more than the confidence
    intervals of both and by more than `RELEVANT`, so that noise makes no crossover and
    nobody is told to change for a percent.
    """
    found: list[Regime] = []
    for value, cell in line:
        best = cell.fastest(methods) if cell is not None else None
        if cell is None or best is None:
            continue
        holder = found[-1].method if found else None
        if holder is best:
            continue
        if holder is None or holder not in cell.by_method or _is_worth_it(cell, best, holder):
            found.append(Regime(best, value))
    return tuple(found)


def _is_worth_it(cell: SmallCell, best: Submission, holder: Submission) -> bool:
    gain = cell.seconds(holder) / cell.seconds(best) - 1
    return cell.is_faster(best, holder) and gain > RELEVANT


def inversions(small: SmallMap) -> tuple[Inversion, ...]:
    """Return for each copying method where smaller pieces take longer than larger ones.

    Only what is more than `INVERTED` longer counts: a step in how the driver moves the
    bytes, and not noise. Of several the one with the most pieces, and then the worst.
    """
    found = (
        [i for i in _neighbours(small, method) if i.factor > INVERTED] for method in small.copying
    )
    return tuple(max(some, key=lambda i: (i.smaller.pieces, i.factor)) for some in found if some)


def _neighbours(small: SmallMap, method: Submission) -> Iterator[Inversion]:
    for count in small.counts:
        for size, larger in pairwise(small.sizes):
            cells = [small.cells.get((count, s)) for s in (size, larger)]
            known = [c for c in cells if c is not None and method in c.by_method]
            if len(known) == 2:
                yield Inversion(method, *known)


def submit_shares(small: SmallMap) -> dict[Submission, float]:
    """Return the median over all cells of each method's share of time spent in its calls."""
    shares: dict[Submission, list[float]] = defaultdict(list)
    for cell in small.cells.values():
        for method in cell.by_method:
            share = cell.submit_share(method)
            if share is not None:
                shares[method].append(share)
    return {method: median(shares[method]) for method in Submission if shares[method]}


def largest_gain(small: SmallMap) -> tuple[SmallCell, Submission, float] | None:
    """Return where a copying method beats `single` the most, which one, and by what factor."""
    gains = [
        (cell, best, cell.seconds(Submission.SINGLE) / cell.seconds(best))
        for cell in small.cells.values()
        if Submission.SINGLE in cell.by_method
        and (best := cell.fastest(small.copying)) is not None
        and cell.is_faster(best, Submission.SINGLE)
    ]
    return max(gains, key=lambda gain: gain[2], default=None)
