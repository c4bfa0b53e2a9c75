"""What a sweep over sizes gives: delay, plateau, saturation size, and the fitted curve.

The model is the postal model, ``t(s) = delay + s / plateau`` (Hockney 1982;
van Werkhoven et al. 2014, equation 1, with L + o as the delay and G as the
inverse plateau). Nothing is ever subtracted from a measured time: the bandwidth
of a size is ``s / t(s)``, which is below the plateau for every size, and the
plateau is bounded by the link's limit.

Pure functions over stored results, so that an old run can be read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lanescope.copies import Engine, Memory, Timing
from lanescope.results.result import CopyResult, FloatArray, Result, Source, summarise
from lanescope.units.sizes import bandwidth_gbs, bandwidths_gbs, transfer_seconds

#: Share of the plateau that counts as saturated.
SATURATION = 0.95


@dataclass(frozen=True, slots=True)
class LinkFit:
    """Parameters of ``t(s) = delay + s / plateau``.

    Attributes
    ----------
    delay_seconds
        Time of a copy of no bytes.
    plateau_gbs
        Bandwidth of an endless copy, GB/s.
    worst_residual
        Largest distance of a measured time from the fitted one, as a share of
        the measured time: how far the straight line is from the truth.
    """

    delay_seconds: float
    plateau_gbs: float
    worst_residual: float

    def seconds(self, sizes: FloatArray) -> FloatArray:
        """Return the fitted time for each size in bytes."""
        return self.delay_seconds + transfer_seconds(sizes, self.plateau_gbs)

    def gbs(self, sizes: FloatArray) -> FloatArray:
        """Return the fitted bandwidth for each size in bytes, in GB/s."""
        return bandwidths_gbs(sizes, self.seconds(sizes))


def fit_link(sizes: FloatArray, seconds: FloatArray, limit_gbs: float | None) -> LinkFit:
    """Fit delay and plateau to the median times of a sweep.

    Weighted so that each size counts by its relative error: unweighted, the
    largest size would decide alone and the delay would be noise. The delay is
    held at 0 or more and the plateau at the link's limit or less.

    Parameters
    ----------
    sizes, seconds
        Arrays of one length, two or more different sizes; bytes and seconds.
    limit_gbs
        Physical limit of the path, or None when unknown.

    Raises
    ------
    ValueError
        If there are fewer than two different sizes, or a time is not positive.
    """
    from scipy.optimize import lsq_linear

    if len(np.unique(sizes)) < 2:
        raise ValueError("a transfer curve needs two or more different sizes")
    if not np.all(seconds > 0):
        raise ValueError("a transfer curve needs times above zero")
    least_slope = 0.0 if limit_gbs is None else transfer_seconds(1.0, limit_gbs)
    # Columns of about the same size, or the solver's tolerance hides the slope.
    scale = np.array([seconds.min(), seconds.max() / sizes.max()])
    matrix = np.column_stack([1 / seconds, sizes / seconds]) * scale
    bounds = (np.array([0.0, least_slope]) / scale, np.array([np.inf, np.inf]))
    solution = lsq_linear(matrix, np.ones_like(seconds), bounds=bounds, method="bvls")
    delay, slope = solution.x * scale
    slope = max(slope, least_slope, np.finfo(float).tiny)
    fitted = delay + slope * sizes
    worst = float(np.max(np.abs(fitted - seconds) / seconds))
    return LinkFit(float(delay), bandwidth_gbs(1.0, float(slope)), worst)


def saturation_bytes(sizes: FloatArray, gbs: FloatArray, plateau_gbs: float) -> float | None:
    """Return the size from which on 95 % of the plateau is reached, in bytes.

    Interpolated in the logarithm of the size between the last measured point
    below and the one above it; None when the largest size is still below, the
    smallest size when all are above.
    """
    order = np.argsort(sizes)
    sizes, share = sizes[order], gbs[order] / plateau_gbs
    below = np.flatnonzero(share < SATURATION)
    if below.size == 0:
        return float(sizes[0])
    last = int(below[-1])
    if last == len(sizes) - 1:
        return None
    part = (SATURATION - share[last]) / (share[last + 1] - share[last])
    logs = np.log2(sizes[[last, last + 1]])
    return float(2 ** (logs[0] + part * (logs[1] - logs[0])))


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
