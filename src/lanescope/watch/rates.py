"""Payload, rates and busy shares of a link, from counters or from a trace alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.units.bandwidth import bandwidth_gbs
from lanescope.watch.codes import Direction, FloatArray, IntArray
from lanescope.watch.operations import Operations
from lanescope.watch.rectangles import moved, rectangle_pieces
from lanescope.watch.timeline import Counters
from lanescope.watch.windows import WINDOWS_NS, WindowStatistics, WindowSums, window_text
from lanescope.watch.wire import RESOLUTION, TRACED_RESOLUTION, WireModel, payload_records, settle

#: A link is busy from this share of its limit on: below are commands, completions and what
#: watching causes, 0.2 % on an H200. Where no limit is known, so many GB/s.
BUSY_SHARE_OF_LIMIT = 0.01
BUSY_GBS = 0.1


@dataclass(frozen=True, slots=True)
class Rates:
    """What one direction of a link carried.

    Attributes
    ----------
    payload_bytes
        In the known time; None where nothing is known.
    known_seconds, known_share
        Of how much of the watch that is.
    mean_gbs
        Over all known time, pauses included, in GB/s.
    busy_share
        Share of known windows with traffic above `busy_gbs`; None when unknown.
    busy_gbs, busy_window_ns
        What counts as traffic, and over how long.
    windows
        Rates over windows of 10 µs, 1 ms and 1 s; of NVLink over 10 ms, too.
    """

    payload_bytes: float | None
    known_seconds: float
    known_share: float | None
    mean_gbs: float | None
    busy_share: float | None
    busy_gbs: float
    busy_window_ns: int
    windows: tuple[WindowStatistics, ...]


class RateMeter:
    """Adds up payload of both directions, fed chunk by chunk.

    Parameters
    ----------
    span_ns
        Start and end of the watch, nanoseconds since 1970; windows start at the former.
    interval_ns
        How far apart samples are; 0 for a trace, which knows every copy.
    limits_gbs
        What the link can carry, h2d and d2h, in GB/s; None when unknown.
    resolution
        Traffic below this share of the other way's cannot be told from none; 0 for a trace.
    windows_ns
        Lengths of the windows whose rates are told, ascending.
    """

    def __init__(
        self,
        span_ns: tuple[int, int],
        interval_ns: int,
        limits_gbs: tuple[float | None, float | None] = (None, None),
        resolution: float = RESOLUTION,
        windows_ns: tuple[int, ...] = WINDOWS_NS,
    ) -> None:
        self._span, self._interval, self._resolution = span_ns, interval_ns, resolution
        down, up = (BUSY_GBS if x is None else BUSY_SHARE_OF_LIMIT * x for x in limits_gbs)
        self._busy = (down, up)
        self._windows = windows_ns
        self._finest = max(windows_ns[0], interval_ns)
        wanted = {w for w in windows_ns if w >= interval_ns} | {self._finest}
        self._sums = {w: WindowSums(w, span_ns[0], self._busy, resolution) for w in sorted(wanted)}
        self._total = np.zeros(3)
        self._end: int | None = None

    def add(self, end_ns: IntArray, columns: FloatArray) -> None:
        """Add records that follow those before; the very first has no start and is left out.

        Parameters
        ----------
        columns
            A row for each record: payload bytes h2d and d2h, and known nanoseconds.
        """
        if not end_ns.size:
            return
        if self._end is None:
            self._end, end_ns, columns = int(end_ns[0]), end_ns[1:], columns[1:]
        for sums in self._sums.values():
            sums.add(self._end, end_ns, columns)
        self._total += columns.sum(axis=0)
        self._end = int(end_ns[-1]) if end_ns.size else self._end

    def add_counters(
        self, counters: Counters, model: WireModel, operation_ends: IntArray | None = None
    ) -> None:
        """Add counters that follow those before.

        Parameters
        ----------
        operation_ends
            When traced copies of this GPU ended, ascending: each costs wire bytes
            that are no payload.
        """
        for end_ns, columns in payload_records(counters, model, self._end, operation_ends):
            self.add(end_ns, columns)

    def rates(self) -> tuple[Rates, Rates]:
        """Return what both directions carried; nothing may be added after it."""
        down, up = settle(self._total[0], self._total[1], self._resolution)
        found = {window: sums.statistics() for window, sums in self._sums.items()}
        return self._rates(float(down), 0, found), self._rates(float(up), 1, found)

    def _rates(
        self,
        payload: float,
        way: int,
        found: dict[int, tuple[WindowStatistics, WindowStatistics]],
    ) -> Rates:
        seconds, span = float(self._total[2]) * 1e-9, (self._span[1] - self._span[0]) * 1e-9
        reason = f"sampled every {window_text(self._interval)}"
        windows = [
            found[w][way] if w in found else WindowStatistics(w, reason=reason)
            for w in self._windows
        ]
        return Rates(
            payload if seconds else None,
            seconds,
            min(seconds / span, 1.0) if span > 0 else None,
            bandwidth_gbs(payload, seconds) if seconds else None,
            found[self._finest][way].busy_share,
            self._busy[way],
            self._finest,
            tuple(windows),
        )


def counter_rates(
    counters: Counters,
    model: WireModel,
    span_ns: tuple[int, int],
    limits_gbs: tuple[float | None, float | None] = (None, None),
    operations: Operations | None = None,
) -> tuple[Rates, Rates]:
    """Return what counters tell of both directions (h2d, d2h) of their GPU's link."""
    ends, resolution = None, RESOLUTION
    if operations is not None and len(operations):
        resolution = TRACED_RESOLUTION
        ends = ends_of_copies(operations, counters.gpu)
    meter = RateMeter(span_ns, counters.interval_ns, limits_gbs, resolution)
    meter.add_counters(counters, model, ends)
    return meter.rates()


def ends_of_copies(operations: Operations, gpu: int) -> IntArray:
    """Return when the copies of a GPU ended, in order."""
    return operations.where(lambda o: o.is_copy, by="end_ns", device=gpu).end_ns


def operation_rates(
    operations: Operations,
    gpu: int,
    span_ns: tuple[int, int],
    limits_gbs: tuple[float | None, float | None] = (None, None),
) -> tuple[Rates, Rates]:
    """Return what a trace tells of both directions (h2d, d2h) of a GPU's link.

    Each copy counts with an even rate from its start to its end.
    """
    meter = RateMeter(span_ns, 0, limits_gbs, resolution=0.0)
    ways = [moved(operations, gpu, way) for way in (Direction.H2D, Direction.D2H)]
    for end_ns, columns in rectangle_pieces(ways, span_ns):
        meter.add(end_ns, columns)
    return meter.rates()
