"""Rates over aligned windows, from records of any length, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lanescope._core import native
from lanescope.trace.codes import FloatArray, IntArray
from lanescope.trace.wire import RESOLUTION

#: Takes runs of equal windows that follow each other: see `WindowSplitter`.
Closed = Callable[[IntArray, FloatArray, IntArray], None]


class WindowSplitter:
    """Records as windows of one length, fed chunk by chunk.

    Records are split over the edges of windows in proportion to time. Windows that lie all in one
    record are equal, and are told as one run however many they are.

    Parameters
    ----------
    window_ns
        Length of a window.
    origin_ns
        Where windows start to be counted, nanoseconds since 1970.
    closed
        Called with runs of windows that nothing can be added to any more, in order: the number
        of the first window of each, a row for each of what one window holds, and how many windows
        it has.
    """

    def __init__(self, window_ns: int, origin_ns: int, closed: Closed) -> None:
        self._window_ns, self._origin, self._closed = window_ns, origin_ns, closed
        self._open: int | None = None
        self._part: FloatArray = np.zeros(3)

    def add(self, start_ns: int, end_ns: IntArray, columns: FloatArray) -> None:
        """Add consecutive records, the first of which began at `start_ns`.

        Parameters
        ----------
        columns
            A row for each record: payload bytes h2d and d2h, and known nanoseconds.
        """
        if not end_ns.size or end_ns[-1] <= start_ns:
            return
        numbers, counts, rows = native.split_into_windows(
            start_ns, end_ns, columns, self._window_ns, self._origin
        )
        if self._open != numbers[0]:
            self.close()
        rows[0] += self._part
        self._open, self._part = int(numbers[-1]), rows[-1].copy()
        if numbers.size > 1:
            self._closed(numbers[:-1], rows[:-1], counts[:-1])

    def close(self) -> None:
        """Close the last window as it is; nothing may be added after it."""
        if self._open is not None:
            self._closed(np.array([self._open]), self._part[None], np.array([1]))
        self._part = np.zeros(3)


#: Classes are 0.1 % wide, so that a quantile is right to half of that.
_STEP = float(np.log(1.001))
_LOWEST_GBS = 1e-6
_HIGHEST_GBS = 1e4
_CLASSES = int(np.ceil(np.log(_HIGHEST_GBS / _LOWEST_GBS) / _STEP)) + 1


class RateHistogram:
    """Counts of rates above zero, in GB/s; the lowest and highest are kept exactly.

    Attributes
    ----------
    counts
        Of each class; see `add_rates`.
    """

    def __init__(self) -> None:
        self.counts: IntArray = np.zeros(_CLASSES, np.int64)
        self._lowest = np.inf
        self._highest = 0.0

    @property
    def count(self) -> int:
        """How many rates were added."""
        return int(self.counts.sum())

    @property
    def highest_gbs(self) -> float | None:
        """The highest rate in GB/s; None without any."""
        return self._highest if self._highest > 0 else None

    def extend(self, lowest_gbs: float, highest_gbs: float) -> None:
        """Take in the lowest and the highest of rates that were counted."""
        self._lowest = min(self._lowest, lowest_gbs)
        self._highest = max(self._highest, highest_gbs)

    def quantile_gbs(self, share: float) -> float | None:
        """Return the smallest rate in GB/s that this share does not exceed; None without any.

        Right to 0.05 %.
        """
        if not self.count:
            return None
        rank = min(max(int(np.ceil(share * self.count)), 1), self.count)
        place = int(np.searchsorted(np.cumsum(self.counts), rank))
        middle = _LOWEST_GBS * float(np.exp((place + 0.5) * _STEP))
        return min(max(middle, self._lowest), self._highest)


def add_rates(
    directions: tuple[RateHistogram, RateHistogram],
    rows: FloatArray,
    times: IntArray,
    known_ns: float,
    busy_gbs: tuple[float, float],
    resolution: float,
) -> int:
    """Add the rates of known and busy windows to those of both directions (h2d, d2h).

    Parameters
    ----------
    rows, times
        A row of what each window holds, as of `WindowSplitter.add`, and how often there is such.
    known_ns
        So much of a window has to be known.
    busy_gbs, resolution
        As of `WindowSums`.

    Returns
    -------
    int
        How many windows are known.
    """
    counts = [one.counts for one in directions]
    known, *extremes = native.count_rates(
        rows, times, known_ns, busy_gbs, resolution, _LOWEST_GBS, _STEP, *counts
    )
    for one, found in zip(directions, extremes, strict=True):
        one.extend(*found)
    return int(known)


#: Windows whose rates are told: bursts, steps of a program, and what meters show.
WINDOWS_NS = (10_000, 1_000_000, 1_000_000_000)
#: Counters of NVLink are read every 10 ms.
NVLINK_WINDOWS_NS = (10_000, 1_000_000, 10_000_000, 1_000_000_000)
#: A window of which less is known says too little.
LEAST_KNOWN = 0.5


@dataclass(frozen=True, slots=True)
class WindowStatistics:
    """Payload rates of one direction over windows of one length.

    Attributes
    ----------
    window_ns
        Length of the windows.
    windows, busy_windows
        How many of them were known, and how many of those were busy.
    p50_gbs, p99_gbs, peak_gbs
        Of the busy windows, in GB/s: quantiles over all would tell of pauses and not of
        traffic. None where none was busy, or by `reason`.
    busy_share
        Busy windows among the known ones; None by `reason`.
    reason
        Why there are no rates, as a clause; None where there are.
    """

    window_ns: int
    windows: int = 0
    busy_windows: int = 0
    p50_gbs: float | None = None
    p99_gbs: float | None = None
    peak_gbs: float | None = None
    busy_share: float | None = None
    reason: str | None = None


class WindowSums:
    """Rates of both directions in all windows of one length, fed chunk by chunk.

    Windows whose length divides that of longer ones feed these, too.

    Parameters
    ----------
    window_ns
        Length of a window.
    origin_ns
        Where windows start to be counted, nanoseconds since 1970.
    busy_gbs
        For each direction, the rate from which a window is busy.
    resolution
        Traffic below this share of the other way's is none, as `settle` says.
    longer
        Sums of windows each of which is several of these, with the same origin.
    """

    def __init__(
        self,
        window_ns: int,
        origin_ns: int,
        busy_gbs: tuple[float, float],
        resolution: float = RESOLUTION,
        longer: WindowSums | None = None,
    ) -> None:
        self.window_ns = window_ns
        self.windows = 0
        self._busy, self._resolution = busy_gbs, resolution
        self._rates = (RateHistogram(), RateHistogram())
        self._splitter = WindowSplitter(window_ns, origin_ns, self._close)
        self._origin, self._longer = origin_ns, longer
        #: Adds consecutive records, as `WindowSplitter.add` says.
        self.add = self._splitter.add

    def _close(self, numbers: IntArray, rows: FloatArray, times: IntArray) -> None:
        known_ns = LEAST_KNOWN * self.window_ns
        bounds = known_ns, self._busy, self._resolution
        self.windows += add_rates(self._rates, rows, times, *bounds)
        if self._longer is not None:
            edges = self._origin + np.append(numbers, numbers[-1] + times[-1]) * self.window_ns
            whole = rows if times.max() == 1 else rows * times[:, None]
            self._longer.add(int(edges[0]), edges[1:], whole)

    def statistics(self) -> tuple[WindowStatistics, WindowStatistics]:
        """Return the rates of both directions (h2d, d2h); nothing may be added after it."""
        self._splitter.close()
        return (self._statistics(self._rates[0]), self._statistics(self._rates[1]))

    def _statistics(self, rates: RateHistogram) -> WindowStatistics:
        if not self.windows:
            reason = f"not half of any {window_text(self.window_ns)} is known"
            return WindowStatistics(self.window_ns, reason=reason)
        return WindowStatistics(
            self.window_ns,
            self.windows,
            rates.count,
            rates.quantile_gbs(0.50),
            rates.quantile_gbs(0.99),
            rates.highest_gbs,
            rates.count / self.windows,
        )


def window_text(nanoseconds: int) -> str:
    """Return a window's length.

    >>> [window_text(n) for n in WINDOWS_NS]
    ['10 µs', '1 ms', '1 s']
    """
    for scale, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if nanoseconds >= scale:
            return f"{nanoseconds / scale:g} {unit}"
    return f"{nanoseconds} ns"
