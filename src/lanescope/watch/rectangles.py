"""Operations as rates that are even from start to end, and as what covers time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from lanescope.watch.codes import Direction, FloatArray, IntArray
from lanescope.watch.operations import Operations
from lanescope.watch.stored import search
from lanescope.watch.timeline import Counters

#: Records, and operations, that are worked on at once.
_CHUNK = 1 << 18


def moved(operations: Operations, gpu: int, way: Direction) -> Operations:
    """Return what a GPU's link carried one way: times and bytes, ordered by start."""
    found = operations.where(lambda o: o.direction == way, "bytes", device=gpu)
    return in_order(found)


def in_order(operations: Operations) -> Operations:
    """Return rows ordered by their starts."""
    if np.all(operations.start_ns[1:] >= operations.start_ns[:-1]):
        return operations
    return operations.rows(np.argsort(operations.start_ns, kind="stable"))


def rectangle_pieces(
    ways: Sequence[Operations], span_ns: tuple[int, int]
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield what `rectangles` returns some operations at a time, the first record only once.

    Parameters
    ----------
    ways
        Each ordered by start.
    """
    for i, (times, columns) in enumerate(_parts(ways, span_ns)):
        keep = slice(1 if i else 0, None)
        yield times[keep], columns[keep]


def _parts(
    ways: Sequence[Operations], span_ns: tuple[int, int]
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield rectangles of parts of the time, each with the part's start."""
    latest = [np.maximum.accumulate(np.maximum(w.end_ns, w.start_ns + 1)) for w in ways]
    begins = min([span_ns[0], *(int(w.start_ns[0]) for w in ways if len(w))])
    ends = max([span_ns[1], *(int(end[-1]) for end in latest if end.size)])
    cuts = np.unique(np.concatenate([w.start_ns[_CHUNK::_CHUNK] for w in ways]))
    edges = [begins, *cuts[(cuts > begins) & (cuts < ends)].tolist(), ends]
    for part in pairwise(edges):
        inside = [_inside(w, end, part) for w, end in zip(ways, latest, strict=True)]
        inner = [edge for edge in span_ns if part[0] < edge < part[1]]
        yield rectangles(inside, part, inner)


def _inside(way: Operations, latest: IntArray, part: tuple[int, int]) -> Operations:
    """Return what of some operations lies between two times, as operations."""
    first = int(np.searchsorted(latest, part[0], "right"))
    rows = way.rows(slice(first, int(np.searchsorted(way.start_ns, part[1], "left"))))
    ends = np.maximum(rows.end_ns, rows.start_ns + 1)
    start, end = np.maximum(rows.start_ns, part[0]), np.minimum(ends, part[1])
    share: Any = np.maximum(end - start, 0) / (ends - rows.start_ns)
    cut = replace(rows, start_ns=start, end_ns=end, bytes=rows.bytes * share)
    return cut.rows(end > start)


def rectangles(
    ways: Sequence[Operations], span_ns: tuple[int, int], inner: Sequence[int] = ()
) -> tuple[IntArray, FloatArray]:
    """Return records between all starts and ends: bytes of each way, and known nanoseconds.

    The first record is the span's start. An operation that took no time takes 1 ns.

    Parameters
    ----------
    inner
        Times at which records end, too.
    """
    edges = [np.array([*span_ns, *inner])]
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
    total, ordered = 0.0, in_order(operations)
    begin_ns = int(ordered.start_ns[0])
    for times, columns in _parts([ordered], (begin_ns, begin_ns)):
        since, sums = (times - times[0]).astype(np.float64), np.cumsum(columns[:, 0])
        first = max(search(counters.end_ns, int(times[0]), "right") - 1, 0)
        last = min(search(counters.end_ns, int(times[-1]), "left") + 1, len(counters))
        for begin in range(first, last - 1, _CHUNK):
            part = slice(begin, min(begin + _CHUNK + 1, last))
            moved = np.diff(np.interp(counters.end_ns[part] - times[0], since, sums))
            total += float(moved[counters.known[part][1:]].sum())
    return total


def between(end_ns: IntArray, values: FloatArray | IntArray, edges: IntArray) -> FloatArray:
    """Return what falls between edges of values that are spread evenly over their records."""
    origin = int(end_ns[0])
    sums = np.cumsum(values, dtype=np.float64) - float(values[0])
    at = np.interp((edges - origin).astype(np.float64), (end_ns - origin).astype(np.float64), sums)
    return np.diff(at)
