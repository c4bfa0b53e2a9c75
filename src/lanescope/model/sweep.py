"""What a sweep over sizes tells: delay, plateau, saturation size.

Pure functions over stored results, so that an old run can be read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lanescope.experiment import Engine, Memory, Timing
from lanescope.measurement.result import CopyResult, FloatArray, Result, Source
from lanescope.measurement.statistics import summarise
from lanescope.model.linkfit import LinkFit, fit_link, saturation_bytes

#: Copies up to this size take the same time: their samples make up the delay.
DELAY_BYTES = 64

#: The plateau is the median over the largest sizes, this share of the largest.
_PLATEAU_SHARE = 1 / 8


@dataclass(frozen=True, slots=True)
class Series:
    """One curve of a sweep: a path, a kind of host memory, a way of timing.

    Attributes
    ----------
    path, title
        Such as ``h0 → g0`` and ``h0 → g0, pinned, gate``.
    sizes
        Bytes, ascending.
    seconds, low_seconds, high_seconds
        Median, 5th and 95th percentile of each size.
    gbs
        Bandwidth of the median of each size.
    limit_gbs
        Physical limit of the path, or None.
    delay_seconds, delay_low_seconds, delay_high_seconds
        Median and 5th to 95th percentile of the smallest copies together.
    plateau_gbs
        Median bandwidth of the largest sizes.
    peak_gbs, peak_bytes
        The best size: above the plateau where large copies get slower again.
    saturation_bytes
        Size from which on 95 % of the plateau is reached, or None.
    fit
        The postal model through all sizes.
    """

    path: str
    memory: Memory
    timing: Timing
    source: Source
    sizes: FloatArray
    seconds: FloatArray
    low_seconds: FloatArray
    high_seconds: FloatArray
    gbs: FloatArray
    limit_gbs: float | None
    delay_seconds: float
    delay_low_seconds: float
    delay_high_seconds: float
    plateau_gbs: float
    peak_gbs: float
    peak_bytes: float
    saturation_bytes: float | None
    fit: LinkFit

    @property
    def title(self) -> str:
        """The curve's name in a legend."""
        clock = "GPU events" if self.timing is Timing.GATE else "host clock"
        return f"{self.path}, {self.memory}, {clock}"


def sweep_series(results: Iterable[Result]) -> tuple[Series, ...]:
    """Group copies that ran alone by path, memory and timing into curves.

    Groups of fewer than two sizes are left out.
    """
    groups: dict[tuple[str, Memory, Timing, Source], list[CopyResult]] = defaultdict(list)
    for result in results:
        if result.experiment.has_latency:
            continue
        copy = result.experiment.copies[0]
        if len(result.copies) == 1 and copy.engine is Engine.CE and not copy.in_pieces:
            host = copy.source if copy.source.is_host else copy.destination
            key = (copy.path, host.memory, result.experiment.timing, result.source)
            groups[key].append(result.copies[0])
    return tuple(
        _series(*key, sorted(points, key=lambda p: p.copy.bytes))
        for key, points in groups.items()
        if len({p.copy.bytes for p in points}) > 1
    )


def _series(
    path: str, memory: Memory, timing: Timing, source: Source, points: list[CopyResult]
) -> Series:
    sizes = np.array([p.copy.bytes for p in points], dtype=np.float64)
    seconds = np.array([p.statistics.median_seconds for p in points])
    gbs = np.array([p.gbs for p in points], dtype=np.float64)
    limit = points[-1].limit_gbs
    small = [p.seconds for p in points if p.copy.bytes <= DELAY_BYTES] or [points[0].seconds]
    delay = summarise(np.concatenate(small))
    plateau = float(np.median(gbs[sizes >= sizes[-1] * _PLATEAU_SHARE]))
    best = int(np.argmax(gbs))
    return Series(
        path=path,
        memory=memory,
        timing=timing,
        source=source,
        sizes=sizes,
        seconds=seconds,
        low_seconds=np.array([p.statistics.p5_seconds for p in points]),
        high_seconds=np.array([p.statistics.p95_seconds for p in points]),
        gbs=gbs,
        limit_gbs=limit,
        delay_seconds=delay.median_seconds,
        delay_low_seconds=delay.p5_seconds,
        delay_high_seconds=delay.p95_seconds,
        plateau_gbs=plateau,
        peak_gbs=float(gbs[best]),
        peak_bytes=float(sizes[best]),
        saturation_bytes=saturation_bytes(sizes, gbs, plateau),
        fit=fit_link(sizes, seconds, limit),
    )
