"""Rates over aligned windows, from records of any length, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lanescope.trace.codes import FloatArray, IntArray
from lanescope.trace.wire import RESOLUTION, settle
from lanescope.units.sizes import bandwidths_gbs

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
        of the first window of each, a column for each with a row's share of one window, and how
        many windows it has.
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
        times = np.concatenate(([0], end_ns - start_ns))
        sums = np.vstack((np.zeros(3), np.cumsum(columns, axis=0)))
        first = (start_ns - self._origin) // self._window_ns
        if self._open != first:
            self.close()
        numbers, counts = self._runs(start_ns, times)
        # a run ends where the next one begins
        edges = np.append(numbers, numbers[-1] + 1) * self._window_ns + (self._origin - start_ns)
        rows = np.diff(self._at(edges, times, sums)) / counts
        rows[:, 0] += self._part
        self._open, self._part = int(numbers[-1]), rows[:, -1]
        if numbers.size > 1:
            self._closed(numbers[:-1], rows[:, :-1], counts[:-1])

    def _runs(self, start_ns: int, times: IntArray) -> tuple[IntArray, IntArray]:
        """Return the first window of each run, and how many it has; the last is one window."""
        edged = (times + (start_ns - self._origin)) // self._window_ns
        edged = edged[np.diff(edged, prepend=edged[0] - 1) > 0]
        between = np.diff(edged) - 1  # windows without an edge of a record
        numbers = np.sort(np.concatenate((edged, edged[:-1][between > 0] + 1)))
        return numbers, np.diff(numbers, append=numbers[-1] + 1)

    @staticmethod
    def _at(edges: IntArray, times: IntArray, sums: FloatArray) -> FloatArray:
        at = np.clip(edges, 0, times[-1]).astype(np.float64)
        return np.stack([np.interp(at, times, sums[:, i]) for i in range(3)])

    def close(self) -> None:
        """Close the last window as it is; nothing may be added after it."""
        if self._open is not None:
            self._closed(np.array([self._open]), self._part[:, None], np.array([1]))
        self._part = np.zeros(3)


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
        self._count(rows, times)
        if self._longer is not None:
            edges = self._origin + np.append(numbers, numbers[-1] + times[-1]) * self.window_ns
            self._longer.add(int(edges[0]), edges[1:], (rows * times).T)

    def _count(self, rows: FloatArray, times: IntArray) -> None:
        known = rows[2] >= LEAST_KNOWN * self.window_ns
        times = times[known]
        self.windows += int(times.sum())
        seconds = rows[2, known] * 1e-9
        down, up = settle(rows[0, known], rows[1, known], self._resolution)
        for payload, least, rates in zip((down, up), self._busy, self._rates, strict=True):
            gbs = bandwidths_gbs(payload, seconds)
            busy = gbs >= least
            rates.add(gbs[busy], times[busy])

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
