"""Intervals of time, and what they cover."""

from __future__ import annotations

import numpy as np

from lanescope.watch.codes import IntArray
from lanescope.watch.stored import pieces_of

#: Intervals that are worked on at once.
_CHUNK = 1 << 17


def covered_ns(start_ns: IntArray, end_ns: IntArray) -> int:
    """Return how much time some intervals cover, overlaps counted once, in nanoseconds.

    Stored columns are those of intervals ordered by start.
    """
    if isinstance(start_ns, np.ndarray):
        starts, ends = union(start_ns, end_ns)
        return int((ends - starts).sum())
    total, latest = 0, start_ns[:1]
    for part in pieces_of(len(start_ns), _CHUNK):
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
