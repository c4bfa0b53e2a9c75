"""What a timeline becomes where tools draw tracks: points of counters, lanes of slices."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from lanescope.units.bandwidth import bandwidths_gbs
from lanescope.watch.codes import FloatArray, IntArray
from lanescope.watch.stored import PIECE
from lanescope.watch.timeline import Counters

#: A counter's track holds at most so many points; a screen has some thousand pixels.
MOST_POINTS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """A rate that holds from each point to the next.

    Attributes
    ----------
    at_ns
        When, nanoseconds since 1970.
    gbs
        The rate from then on, in GB/s.
    """

    at_ns: IntArray
    gbs: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class CounterTrack:
    """One direction of a counter.

    Attributes
    ----------
    mean
        Its rate. Where nothing is known it is 0: see `unknown_spans`.
    peak
        The fastest single record of each point of `mean`; None where a point is a record.
    records
        Records that stand behind each point.
    """

    mean: Points
    peak: Points | None
    records: int


def counter_track(counters: Counters, counted: IntArray, most: int = MOST_POINTS) -> CounterTrack:
    """Return a direction of a counter as points, each of equally many records.

    Parameters
    ----------
    counted
        Bytes of each record: the counter's `rx_bytes` or `tx_bytes`.
    most
        So many points at most, before those that repeat their rate are left out.
    """
    many = max(1, -(-len(counters) // most))
    found = [np.empty((3, 0))]
    begins = [np.empty(0, np.int64)]
    for part, start in counters.pieces(many * max(1, PIECE // many)):  # whole points
        first = np.arange(0, start.size, many)
        known = counters.known[part]
        seconds = np.where(known, (counters.end_ns[part] - start).astype(np.float64) * 1e-9, 0.0)
        moved = np.where(known, counted[part], 0).astype(np.float64)
        rates = np.nan_to_num(bandwidths_gbs(moved, seconds))
        sums = (np.add.reduceat(column, first) for column in (moved, seconds))
        found.append(np.stack((*sums, np.maximum.reduceat(rates, first))))
        begins.append(start[first])
    (moved, seconds, peak), start = np.concatenate(found, axis=1), np.concatenate(begins)
    end, mean = counters.end_ns[-1:], np.nan_to_num(bandwidths_gbs(moved, seconds))
    if many == 1:
        return CounterTrack(_points(start, mean, end), None, 1)
    return CounterTrack(_points(start, mean, end), _points(start, peak, end), many)


def unknown_spans(counters: Counters) -> list[tuple[int, int]]:
    """Return where nothing is known between a counter's first and last record, as start and end."""
    spans: list[tuple[int, int]] = []
    for part, start in counters.pieces():
        edges = np.diff(np.concatenate(([False], ~counters.known[part], [False])).astype(np.int8))
        begins = start[np.flatnonzero(edges == 1)]
        ends = counters.end_ns[part][np.flatnonzero(edges == -1) - 1]
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            if spans and spans[-1][1] == begin:  # goes on from the piece before
                spans[-1] = (spans[-1][0], end)
            elif end > begin:
                spans.append((begin, end))
    return spans


class FreeLanes:
    """Gives what comes in the order of its start the lowest lane that is free."""

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []  # when each lane is free again, as a heap
        self._free: list[int] = []

    def take(self, start: int, end: int, most: int) -> int | None:
        """Return a lane, which is taken from its start to its end; None with so many taken."""
        while self._busy and self._busy[0][0] <= start:
            heappush(self._free, heappop(self._busy)[1])
        if len(self._busy) >= most:
            return None
        lane = heappop(self._free) if self._free else len(self._busy)
        heappush(self._busy, (end, lane))
        return lane


def lanes(start_ns: IntArray, end_ns: IntArray) -> IntArray:
    """Return a lane for each row, so that rows of one lane do not overlap.

    Parameters
    ----------
    start_ns, end_ns
        Of rows in the order of their starts.
    """
    if np.all(start_ns[1:] >= np.maximum.accumulate(end_ns)[:-1]):
        return np.zeros(start_ns.size, np.int64)
    free, times = FreeLanes(), zip(start_ns.tolist(), end_ns.tolist(), strict=True)
    return np.array([free.take(start, end, start_ns.size) for start, end in times], np.int64)


def _points(at_ns: IntArray, gbs: FloatArray, end_ns: IntArray) -> Points:
    """Return points without those that repeat the rate before; the last record's end is 0."""
    at_ns, gbs = np.append(at_ns, end_ns[-1:]), np.append(gbs, np.zeros(min(1, end_ns.size)))
    kept = np.ones(gbs.size, bool)
    kept[1:] = gbs[1:] != gbs[:-1]
    return Points(at_ns[kept], gbs[kept])
