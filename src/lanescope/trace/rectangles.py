"""Operations as intervals and as rates that are even from start to end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from lanescope._core import native
from lanescope.trace.codes import DirectionCode, FloatArray, IntArray
from lanescope.trace.operations import Operations
from lanescope.trace.stored_columns import pieces_of, search
from lanescope.trace.timeline import Counters

#: Intervals that are worked on at once.
_INTERVALS_CHUNK = 1 << 17


def covered_ns(start_ns: IntArray, end_ns: IntArray) -> int:
    """Return how much time some intervals cover, overlaps counted once, in nanoseconds.

    Stored columns are those of intervals ordered by start.
    """
    if isinstance(start_ns, np.ndarray):
        starts, ends = union(start_ns, end_ns)
        return int((ends - starts).sum())
    total, latest = 0, start_ns[:1]
    for part in pieces_of(len(start_ns), _INTERVALS_CHUNK):
        reached = np.maximum.accumulate(np.concatenate((latest, end_ns[part])))
        added = reached[1:] - np.maximum(start_ns[part], reached[:-1])
        total, latest = total + int(np.maximum(added, 0).sum()), reached[-1:]
    return total


def union(start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Return what intervals cover as intervals that do not touch, in order."""
    if not start_ns.size:
        return start_ns, end_ns
    order = np.argsort(start_ns, kind="stable")
    start, end = start_ns[order], np.maximum.accumulate(end_ns[order])
    first = np.concatenate(([True], start[1:] > end[:-1]))
    last = np.concatenate((np.flatnonzero(first)[1:] - 1, [start.size - 1]))
    return start[first], end[last]


#: Operations that are worked on at once.
_CHUNK = 1 << 18


def moved(operations: Operations, gpu: int, direction: DirectionCode) -> Operations:
    """Return what a GPU's link carried one way: times and bytes, ordered by start."""
    return operations.where(lambda o: o.direction == direction, "bytes", device=gpu)


def rectangle_pieces(
    directions: Sequence[Operations], span_ns: tuple[int, int]
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield what `rectangles` returns some operations at a time, the first record only once.

    Parameters
    ----------
    directions
        Each ordered by start.
    """
    for i, (times, columns) in enumerate(_parts(directions, span_ns)):
        keep = slice(1 if i else 0, None)
        yield times[keep], columns[keep]


def _parts(
    directions: Sequence[Operations], span_ns: tuple[int, int]
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield rectangles of parts of the time, each with the part's start."""
    begins = min([span_ns[0], *(int(w.start_ns[0]) for w in directions if len(w))])
    ends = max([span_ns[1], *(int(_ends(p).max()) for w in directions for p in w.pieces())])
    for part, inside in running(directions, (begins, ends)):
        inner = [edge for edge in span_ns if part[0] < edge < part[1]]
        yield rectangles(inside, part, inner)


def running(
    directions: Sequence[Operations], span_ns: tuple[int, int]
) -> Iterator[tuple[tuple[int, int], tuple[Operations, ...]]]:
    """Yield parts of the time, each with what of some operations lies in it, as operations.

    Parameters
    ----------
    directions
        Each ordered by start.
    """
    begins, ends = span_ns
    starts = {
        int(direction.start_ns[row])
        for direction in directions
        for row in range(_CHUNK, len(direction), _CHUNK)
    }
    edges = [begins, *sorted(start for start in starts if begins < start < ends), ends]
    inside = [_running(direction, edges) for direction in directions]
    yield from zip(pairwise(edges), zip(*inside, strict=True), strict=True)


def _ends(direction: Operations) -> IntArray:
    """Return ends of operations; one that took no time takes 1 ns."""
    return np.maximum(direction.end_ns, direction.start_ns + 1)


def _running(direction: Operations, edges: Sequence[int]) -> Iterator[Operations]:
    """Yield what of some operations lies between each two edges, as operations.

    Those that go on are carried from part to part: one that lasts all the time does not make all
    that began after it be looked at again.
    """
    sized = direction.bytes.size > 0
    carried, done = np.empty((3, 0), np.int64), 0
    for begin, end in pairwise(edges):
        until = search(direction.start_ns, end, "left")
        new = direction.rows(slice(done, until))
        sizes = new.bytes if sized else np.zeros(len(new), np.int64)
        rows = np.concatenate((carried, np.stack((new.start_ns, _ends(new), sizes))), axis=1)
        start, stop, size = rows = rows[:, rows[1] > begin]
        first, last = np.maximum(start, begin), np.minimum(stop, end)
        share: Any = (last - first) / (stop - start)
        yield replace(Operations.empty(), start_ns=first, end_ns=last, bytes=size * share)
        carried, done = rows[:, stop > end], until


def rectangles(
    directions: Sequence[Operations], span_ns: tuple[int, int], inner: Sequence[int] = ()
) -> tuple[IntArray, FloatArray]:
    """Return records between all starts and ends: bytes of each way, and known nanoseconds.

    The first record is the span's start. An operation that took no time takes 1 ns.

    Parameters
    ----------
    inner
        Times at which records end, too.
    """
    edges = [np.array([*span_ns, *inner])]
    for direction in directions:
        edges += [direction.start_ns, np.maximum(direction.end_ns, direction.start_ns + 1)]
    times = np.sort(np.concatenate(edges))  # np.unique hashes: ten times slower on millions
    times = times[np.diff(times, prepend=times[0] - 1) > 0]
    lasted = np.diff(times, prepend=times[:1]).astype(np.float64)
    columns = [_spread(direction, times) for direction in directions]
    return times, np.stack((*columns, lasted), axis=1)


def _spread(direction: Operations, times: IntArray) -> FloatArray:
    """Bytes of some operations in each record, that end at `times`."""
    ends = np.maximum(direction.end_ns, direction.start_ns + 1)
    rates = direction.bytes / (ends - direction.start_ns)
    # depth tells exactly where nothing runs: sums of rates keep a rest there
    steps, depth = np.zeros(times.size + 1), np.zeros(times.size + 1, np.int64)
    for at, sign in ((direction.start_ns, 1), (ends, -1)):
        places = np.searchsorted(times, at) + 1
        np.add.at(steps, places, sign * rates)
        np.add.at(depth, places, sign)
    rate = np.where(np.cumsum(depth) > 0, np.cumsum(steps), 0.0)[:-1]
    spread: FloatArray = rate * np.diff(times, prepend=times[:1])
    return spread


class MovedBetween:
    """Bytes of some operations between times that are asked for in order, some at a time.

    Parameters
    ----------
    operations
        Ordered by start.
    span_ns
        Of the times that are asked for.
    """

    def __init__(self, operations: Operations, span_ns: tuple[int, int]) -> None:
        self._pieces = rectangle_pieces([operations], span_ns)
        self._times, columns = next(self._pieces)
        self._sums: FloatArray = np.cumsum(columns[:, 0])

    def take(self, edges: IntArray) -> FloatArray:
        """Return what was moved between each two edges, which grow from call to call."""
        return np.diff(self.until(edges))

    def until(self, edges: IntArray) -> FloatArray:
        """Return what was moved up to edges, which grow from call to call."""
        done = 0
        until: FloatArray = np.empty(edges.size)
        while True:
            reached = max(int(np.searchsorted(edges, self._times[-1], "right")), done)
            until[done:reached] = native.interpolate(edges[done:reached], self._times, self._sums)
            done = reached
            if done == edges.size or (more := next(self._pieces, None)) is None:
                until[done:] = self._sums[-1]
                return until
            times, columns = more
            self._times = np.concatenate((self._times[-1:], times))
            sums = self._sums[-1] + np.cumsum(columns[:, 0])
            self._sums = np.concatenate((self._sums[-1:], sums))


@dataclass(frozen=True, slots=True, eq=False)
class KnownTime:
    """When counters knew something.

    Attributes
    ----------
    edges_ns
        Begins and ends in turn, ascending, nanoseconds since 1970; the last end is the counters'.
    """

    edges_ns: IntArray

    def total(self, times: IntArray, sums: FloatArray) -> float:
        """Return how much of something that grows from time to time does so in known time."""
        first = int(np.searchsorted(self.edges_ns, times[0])) // 2 * 2
        last = (int(np.searchsorted(self.edges_ns, times[-1])) + 1) // 2 * 2
        inside = np.clip(self.edges_ns[first:last], times[0], times[-1])
        return float(np.diff(native.interpolate(inside, times, sums))[::2].sum())


class KnownMeter:
    """Finds when counters knew something while something else reads the records."""

    def __init__(self, counters: Counters) -> None:
        self._counters, self._read = counters, 0
        self._found = [counters.end_ns[:1]]

    def add(self, end_ns: IntArray, _: FloatArray | None = None) -> None:
        """Take records that follow those before."""
        begin, self._read = self._read, self._read + end_ns.size
        known = self._counters.known[begin : self._read]
        if known.all():
            return
        rows = np.flatnonzero(~known)
        before = self._counters.end_ns[max(begin - 1, 0) : max(begin, 1)]
        starts = np.concatenate((before, end_ns[:-1]))[rows]
        spans = np.stack((starts, end_ns[rows]), axis=1).ravel()
        apart = np.append(spans[1:-1:2] != spans[2::2], True)  # else one begins as one ends
        kept = np.ones(spans.size, np.bool_)
        kept[1::2], kept[2::2] = apart, apart[:-1]
        self._found.append(spans[kept])

    def found(self) -> KnownTime:
        """Return the known time of all records."""
        for part in pieces_of(len(self._counters)):
            if part.stop > self._read:
                self.add(self._counters.end_ns[max(part.start, self._read) : part.stop])
        return KnownTime(np.concatenate((*self._found, self._counters.end_ns[-1:])))


def bytes_in_known(operations: Operations, known: KnownTime) -> float:
    """Return the bytes of operations, ordered by start, in the time that counters know."""
    if not len(operations):
        return 0.0
    begin_ns = int(operations.start_ns[0])
    parts = _parts([operations], (begin_ns, begin_ns))
    return sum(known.total(times, np.cumsum(columns[:, 0])) for times, columns in parts)


def between(
    end_ns: IntArray, columns: Sequence[FloatArray | IntArray], edges: IntArray
) -> FloatArray:
    """Return what falls between edges of columns whose values are spread evenly over records.

    A row for each column.
    """
    sums = (np.cumsum(values, dtype=np.float64) - float(values[0]) for values in columns)
    return np.diff([native.interpolate(edges, end_ns, one) for one in sums])
