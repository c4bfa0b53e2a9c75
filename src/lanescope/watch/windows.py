"""Rates over aligned windows, from records of any length, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

from lanescope.units.bandwidth import bandwidths_gbs
from lanescope.watch.codes import FloatArray, IntArray
from lanescope.watch.histogram import RateHistogram
from lanescope.watch.splitter import WindowSplitter
from lanescope.watch.wire import RESOLUTION, settle

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
        self._busy, self._resolution = busy_gbs, resolution
        self._rates = (RateHistogram(), RateHistogram())
        self._splitter = WindowSplitter(window_ns, origin_ns, self._count)
        #: Adds consecutive records, as `WindowSplitter.add` says.
        self.add = self._splitter.add

    def _count(self, _: IntArray, rows: FloatArray, times: IntArray) -> None:
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
