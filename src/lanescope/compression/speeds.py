"""GB/s from raw times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lanescope.measurement.statistics import median_interval
from lanescope.units.bandwidth import bandwidth_gbs
from lanescope.units.estimate import Estimate


def speed(size: int, seconds: Sequence[float]) -> Estimate:
    """Return GB/s of `size` bytes: by the median time, and its 95 % interval."""
    times = np.array(seconds)
    low, high = median_interval(times)
    parts = (float(np.median(times)), high, low)
    return Estimate(*(bandwidth_gbs(size, one) for one in parts))
