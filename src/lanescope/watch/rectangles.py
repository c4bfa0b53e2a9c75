"""Operations as rates that are even from start to end, and as what covers time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lanescope.watch.codes import FloatArray, IntArray
from lanescope.watch.operations import Operations
from lanescope.watch.timeline import Counters

#: Records that are worked on at once.
_CHUNK = 1 << 18


def rectangles(ways: Sequence[Operations], span_ns: tuple[int, int]) -> tuple[IntArray, FloatArray]:
    """Return records between all starts and ends: bytes of each way, and known nanoseconds.

    The first record is the span's start. An operation that took no time takes 1 ns.
    """
    edges = [np.array(span_ns)]
    for way in ways:
        edges += [way.start_ns, np.maximum(way.end_ns, way.start_ns + 1)]
    times = np.sort(np.concatenate(edges))  # np.unique hashes: ten times slower on millions
    times = times[np.diff(times, prepend=times[0] - 1) > 0]
    lasted = np.diff(times, prepend=times[:1]).astype(np.float64)
    columns = [_spread(way, times) for way in ways]
    return times, np.stack((*columns, lasted), axis=1)


def _spread(way: Operations, times: IntArray) -> FloatArray:
    """Bytes of some operations in each record, that end at `times`."""
    ends = np.maximum(way.end_ns, way.start_ns + 1)
    rates = way.bytes / (ends - way.start_ns)
    # depth tells exactly where nothing runs: sums of rates keep a rest there
    steps, depth = np.zeros(times.size + 1), np.zeros(times.size + 1, np.int64)
    for at, sign in ((way.start_ns, 1), (ends, -1)):
        places = np.searchsorted(times, at) + 1
        np.add.at(steps, places, sign * rates)
        np.add.at(depth, places, sign)
    rate = np.where(np.cumsum(depth) > 0, np.cumsum(steps), 0.0)[:-1]
    spread: FloatArray = rate * np.diff(times, prepend=times[:1])
    return spread


def bytes_in_known(operations: Operations, counters: Counters) -> float:
    """Return the bytes of operations that fall into the time that counters know."""
    if not len(operations) or len(counters) < 2:
        return 0.0
    ends = np.sort(np.maximum(operations.end_ns, operations.start_ns + 1))
    span = (
        min(int(operations.start_ns.min()), int(counters.end_ns[0])),
        max(int(ends[-1]), int(counters.end_ns[-1])),
    )
    times, columns = rectangles([operations], span)
    since, sums = (times - times[0]).astype(np.float64), np.cumsum(columns[:, 0])
    total = 0.0
    for begin in range(0, len(counters) - 1, _CHUNK):
        part = slice(begin, begin + _CHUNK + 1)
        moved = np.diff(np.interp(counters.end_ns[part] - times[0], since, sums))
        total += float(moved[counters.known[part][1:]].sum())
    return total


def between(end_ns: IntArray, values: FloatArray | IntArray, edges: IntArray) -> FloatArray:
    """Return what falls between edges of values that are spread evenly over their records."""
    origin = int(end_ns[0])
    sums = np.cumsum(values, dtype=np.float64) - float(values[0])
    at = np.interp((edges - origin).astype(np.float64), (end_ns - origin).astype(np.float64), sums)
    return np.diff(at)
