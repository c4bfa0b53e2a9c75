"""Rates counted into narrow classes, so that millions need little memory."""

from __future__ import annotations

import numpy as np

from lanescope.watch.codes import FloatArray, IntArray

#: Classes are 0.1 % wide, so that a quantile is right to half of that.
_STEP = float(np.log(1.001))
_LOWEST_GBS = 1e-6
_HIGHEST_GBS = 1e4
_CLASSES = int(np.ceil(np.log(_HIGHEST_GBS / _LOWEST_GBS) / _STEP)) + 1


class RateHistogram:
    """Counts of rates above zero, in GB/s; the lowest and highest are kept exactly."""

    def __init__(self) -> None:
        self._counts = np.zeros(_CLASSES, np.int64)
        self._lowest = np.inf
        self._highest = 0.0

    @property
    def count(self) -> int:
        """How many rates were added."""
        return int(self._counts.sum())

    @property
    def highest_gbs(self) -> float | None:
        """The highest rate in GB/s; None without any."""
        return self._highest if self._highest > 0 else None

    def add(self, gbs: FloatArray, times: IntArray | None = None) -> None:
        """Add rates above zero, each so many times; None is once."""
        if not gbs.size:
            return
        places = np.log(np.clip(gbs, _LOWEST_GBS, _HIGHEST_GBS) / _LOWEST_GBS) / _STEP
        np.add.at(self._counts, places.astype(np.int64), 1 if times is None else times)
        self._lowest = min(self._lowest, float(gbs.min()))
        self._highest = max(self._highest, float(gbs.max()))

    def quantile_gbs(self, share: float) -> float | None:
        """Return the smallest rate in GB/s that this share does not exceed; None without any.

        Right to 0.05 %.
        """
        if not self.count:
            return None
        rank = min(max(int(np.ceil(share * self.count)), 1), self.count)
        place = int(np.searchsorted(np.cumsum(self._counts), rank))
        middle = _LOWEST_GBS * float(np.exp((place + 0.5) * _STEP))
        return min(max(middle, self._lowest), self._highest)
