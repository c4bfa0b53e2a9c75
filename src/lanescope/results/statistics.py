"""Statistics over raw samples: pure functions of plain numbers."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from lanescope.results.result import FloatArray, Statistics

#: With fewer samples no interval of order statistics covers the median with 95 %.
MIN_SAMPLES = 6
#: Of more samples the binomial distribution is not summed up.
_MOST_COUNTED = 2000


def summarise(seconds: FloatArray) -> Statistics:
    """Summarise the samples of one copy.

    Parameters
    ----------
    seconds
        One-dimensional, at least one sample, each above zero.

    Raises
    ------
    ValueError
        If there is no sample.
    """
    if seconds.size == 0:
        raise ValueError("no samples to summarise")
    p5, median, p95 = np.percentile(seconds, [5, 50, 95])
    return Statistics(
        n=int(seconds.size),
        median_seconds=float(median),
        min_seconds=float(seconds.min()),
        max_seconds=float(seconds.max()),
        p5_seconds=float(p5),
        p95_seconds=float(p95),
        half_width=half_width(seconds),
        mean_seconds=float(seconds.mean()),
        stdev_seconds=float(seconds.std(ddof=1)) if seconds.size > 1 else None,
    )


def half_width(seconds: FloatArray) -> float | None:
    """Return half of the 95 % confidence interval of the median, as a share of the median.

    The interval runs between two order statistics, found from the binomial
    distribution with p = 1/2, and so assumes no shape of the samples
    (Conover, Practical Nonparametric Statistics, section 3.2). None with fewer
    than `MIN_SAMPLES` samples.
    """
    n = int(seconds.size)
    if n < MIN_SAMPLES:
        return None
    ordered = np.sort(seconds)
    low = _lower_rank(n)
    width = float(ordered[n - 1 - low] - ordered[low])
    return width / 2 / float(np.median(ordered))


def median_interval(values: FloatArray) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median, between two order statistics.

    Of fewer than six values it is their whole range, which is less sure than that.
    """
    ordered = np.sort(values)
    low = max(_lower_rank(int(values.size)), 0)
    return float(ordered[low]), float(ordered[values.size - 1 - low])


def _lower_rank(n: int) -> int:
    """Largest rank r with P(Binomial(n, 1/2) <= r) of 2.5 % or less, counted from 0.

    Of many samples by the normal distribution: one rank off at most.
    """
    if n > _MOST_COUNTED:
        return math.floor(n / 2 - NormalDist().inv_cdf(0.975) * math.sqrt(n) / 2 - 0.5)
    tail, rank, combinations = 0, -1, 1  # comb(n, rank + 1)
    while 40 * (tail + combinations) <= 2**n:
        rank += 1
        tail += combinations
        combinations = combinations * (n - rank) // (rank + 1)
    return rank
