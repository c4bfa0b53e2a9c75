"""Intervals of time, and what they cover."""

from __future__ import annotations

import numpy as np

from lanescope.watch.codes import IntArray


def covered_ns(start_ns: IntArray, end_ns: IntArray) -> int:
    """Return how much time some intervals cover, overlaps counted once, in nanoseconds."""
    starts, ends = union(start_ns, end_ns)
    return int((ends - starts).sum())


def union(start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Return what intervals cover as intervals that do not touch, in order."""
    if not start_ns.size:
        return start_ns, end_ns
    order = np.argsort(start_ns, kind="stable")
    start, end = start_ns[order], np.maximum.accumulate(end_ns[order])
    first = np.concatenate(([True], start[1:] > end[:-1]))
    last = np.concatenate((np.flatnonzero(first)[1:] - 1, [start.size - 1]))
    return start[first], end[last]
