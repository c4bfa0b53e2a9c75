"""Fit a transfer curve: how long a copy of each size takes.

The model is the postal model, ``t(s) = delay + s / plateau`` (Hockney 1982;
van Werkhoven et al. 2014, equation 1, with L + o as the delay and G as the
inverse plateau). Nothing is ever subtracted from a measured time: the bandwidth
of a size is ``s / t(s)``, which is below the plateau for every size, and the
plateau is bounded by the link's limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lanescope.units.bandwidth import bandwidth_gbs, bandwidths_gbs, transfer_seconds

FloatArray = npt.NDArray[np.float64]

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
