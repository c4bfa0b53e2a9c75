"""How few SMs fill a path: what tried shapes of copy kernels tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from lanescope.experiment import Copy, Engine, Operation
from lanescope.experiment.notation import copies_text
from lanescope.measurement.result import CopyResult, Result, Source
from lanescope.units.bandwidth import bandwidth_gbs

#: Share of the plateau that counts as all of it.
FULL_SHARE = 0.98


@dataclass(frozen=True, slots=True)
class SmPoint:
    """The best shape with a number of SMs.

    Attributes
    ----------
    gbs
        Its bandwidth, GB/s.
    low_gbs, high_gbs
        At the 95th and the 5th percentile of the time.
    """

    sms: int
    gbs: float
    low_gbs: float
    high_gbs: float
    copy: Copy

    @property
    def command(self) -> str:
        """What `lanescope copy` takes to run it again."""
        return copies_text([self.copy])


@dataclass(frozen=True, slots=True)
class SmCurve:
    """Bandwidth of one path by number of SMs.

    Attributes
    ----------
    way
        Source, destination and the GPU that works.
    points
        By ascending number of SMs; of the shapes tried with each the best.
    plateau_gbs
        The best of all.
    fewest
        The first point with 98 % of the plateau.
    """

    way: tuple[str, str, str]
    points: tuple[SmPoint, ...]
    plateau_gbs: float
    fewest: SmPoint

    @property
    def title(self) -> str:
        """The path in words, such as ``g0 writes to g1``."""
        source, destination, executor = self.way
        if executor == source:
            return f"{source} writes to {destination}"
        return f"{destination} reads from {source}"


def sm_curves(results: Iterable[Result]) -> tuple[SmCurve, ...]:
    """Return a curve for each path of which copies on chosen numbers of SMs were measured."""
    found: dict[tuple[str, str, str], dict[int, list[CopyResult]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        if len(result.copies) != 1 or result.source is Source.PREDICTED:
            continue
        copy = result.copies[0].copy
        executor = copy.executing_gpu
        if copy.engine is Engine.SM and copy.operation is Operation.COPY and copy.sms and executor:
            way = (copy.source.part, copy.destination.part, executor)
            found[way][copy.sms].append(result.copies[0])
    return tuple(_curve(way, by_count) for way, by_count in found.items() if len(by_count) > 1)


def _curve(way: tuple[str, str, str], by_count: dict[int, list[CopyResult]]) -> SmCurve:
    points = tuple(_best(sms, copies) for sms, copies in sorted(by_count.items()))
    plateau = max(p.gbs for p in points)
    fewest = next(p for p in points if p.gbs >= FULL_SHARE * plateau)
    return SmCurve(way, points, plateau, fewest)


def _best(sms: int, copies: list[CopyResult]) -> SmPoint:
    best = max(copies, key=lambda c: c.gbs or 0.0)
    times = best.statistics
    ends = (times.median_seconds, times.p95_seconds, times.p5_seconds)
    median, low, high = (bandwidth_gbs(best.copy.counted_bytes, seconds) for seconds in ends)
    return SmPoint(sms, median, low, high, best.copy)
