"""Rates over aligned windows, from records of any length, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.measurement.bandwidth import bandwidths_gbs
from lanescope.watch.codes import FloatArray, IntArray
from lanescope.watch.histogram import RateHistogram
from lanescope.watch.wire import RESOLUTION, settle

#: Windows whose rates are told: bursts, steps of a program, and what meters show.
WINDOWS_NS = (10_000, 1_000_000, 1_000_000_000)
#: A window of which less is known says too little.
LEAST_KNOWN = 0.5
#: So many windows are worked on at once: 50 MB.
_BLOCK = 1 << 20


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
    """Bytes of both directions in each window of one length, fed chunk by chunk.

    Records are split over the edges of windows in proportion to time.

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
    """

    def __init__(
        self,
        window_ns: int,
        origin_ns: int,
        busy_gbs: tuple[float, float],
        resolution: float = RESOLUTION,
    ) -> None:
        self.window_ns = window_ns
        self.windows = 0
        self._origin, self._busy, self._resolution = origin_ns, busy_gbs, resolution
        self._rates = (RateHistogram(), RateHistogram())
        self._open = -1
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
        times = np.concatenate(([0.0], (end_ns - start_ns).astype(np.float64)))
        sums = np.vstack((np.zeros(3), np.cumsum(columns, axis=0)))
        first = (start_ns - self._origin) // self.window_ns
        last = (int(end_ns[-1]) - self._origin) // self.window_ns
        if self._open != first:
            self._close()
            self._open = first
        for begin in range(first, last + 1, _BLOCK):
            end = min(begin + _BLOCK, last + 1)
            edges = self._origin + np.arange(begin, end + 1) * self.window_ns - start_ns
            if end <= last and self._constant(times, sums, edges):
                continue
            at = np.clip(edges, 0, times[-1]).astype(np.float64)
            rows = np.diff(np.stack([np.interp(at, times, sums[:, i]) for i in range(3)]), axis=1)
            rows[:, 0] += self._part
            closed = rows if end <= last else rows[:, :-1]
            self._part = np.zeros(3) if end <= last else rows[:, -1]
            self._count(closed)
        self._open = last

    def _constant(self, times: FloatArray, sums: FloatArray, edges: IntArray) -> bool:
        """Count windows that lie all in one record at once; return False for others."""
        place = int(np.searchsorted(times, edges[0], "right"))
        inside = 0 < place < times.size and edges[0] >= times[place - 1]
        if not inside or edges[-1] > times[place] or self._part.any():
            return False
        share = self.window_ns / (times[place] - times[place - 1])
        self._count(((sums[place] - sums[place - 1]) * share)[:, None], edges.size - 1)
        return True

    def _close(self) -> None:
        self._count(self._part[:, None])
        self._part = np.zeros(3)

    def _count(self, rows: FloatArray, times: int = 1) -> None:
        known = rows[2] >= LEAST_KNOWN * self.window_ns
        self.windows += int(known.sum()) * times
        seconds = rows[2, known] * 1e-9
        down, up = settle(rows[0, known], rows[1, known], self._resolution)
        for payload, least, rates in zip((down, up), self._busy, self._rates, strict=True):
            gbs = bandwidths_gbs(payload, seconds)
            rates.add(gbs[gbs >= least], times)

    def statistics(self) -> tuple[WindowStatistics, WindowStatistics]:
        """Return the rates of both directions (h2d, d2h); nothing may be added after it."""
        self._close()
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
