"""What the operations of like rounds say of the program: its calls, its kernels, what they slow."""

from __future__ import annotations

import numpy as np

from lanescope.findings.advice.lanes import IN, OUT, WORK, Lane
from lanescope.trace.codes import IntArray
from lanescope.trace.rectangles import covered_ns, union

#: Kernels that overlap for less of their time than this ran one after the other.
_MOST_OVERLAP = 0.05
#: A longer time of the host between two calls is a pause.
_PAUSE_NS = 50_000
#: A median of fewer says nothing.
_FEWEST = 8
#: Copies of so many bytes overlap with kernels for more than one share of their time, and do not
#: with less than the other.
_LONG_COPY, _OVERLAPPED, _ALONE = 1 << 20, 0.4, 0.05


def part_seconds(lane: Lane, rounds: int, parts: int) -> float | None:
    """Return what the kernels of a part of a round take; None: none, or they overlap.

    Parameters
    ----------
    lane
        The operations of so many rounds, each of which is cut into so many parts.
    """
    work = lane.kind == WORK
    start, end = lane.start_ns[work], lane.end_ns[work]
    summed = int((end - start).sum())
    covered = covered_ns(*union(start, end))
    alone = covered >= (1 - _MOST_OVERLAP) * summed > 0
    return summed * 1e-9 / (rounds * parts) if alone else None


def call_gap_seconds(lane: Lane, number: IntArray) -> float | None:
    """Return the median of the host's times from one copy's call to the next; None of few.

    Parameters
    ----------
    number
        Of the round of each operation: what lies between rounds does not count.
    """
    known = (lane.kind <= OUT) & (lane.call_start_ns > 0)
    gaps = lane.call_start_ns[1:] - lane.call_end_ns[:-1]
    follow = known[1:] & known[:-1] & (number[1:] == number[:-1])
    near = gaps[follow & (gaps >= 0) & (gaps < _PAUSE_NS)]
    return float(np.median(near)) * 1e-9 if near.size >= _FEWEST else None


def slowed_by_kernels(lane: Lane) -> float | None:
    """Return how many times as long copies to the GPU take while kernels run; None of few."""
    work = lane.kind == WORK
    if not work.any():
        return None
    starts, ends = union(lane.start_ns[work], lane.end_ns[work])
    worked = np.concatenate(([0], np.cumsum(ends - starts)))

    def until(moment: IntArray) -> IntArray:
        """Return how long kernels had run in all before a moment."""
        place = np.searchsorted(starts, moment, "right")
        last = np.maximum(place - 1, 0)
        beyond = np.where(place > 0, np.maximum(ends[last] - moment, 0), 0)
        return np.asarray(worked[place] - beyond)

    copies = lane.rows((lane.kind == IN) & (lane.bytes >= _LONG_COPY))
    lasted = np.maximum(copies.end_ns - copies.start_ns, 1)
    share = (until(copies.end_ns) - until(copies.start_ns)) / lasted
    each = lasted / copies.bytes
    slow, free = each[share > _OVERLAPPED], each[share < _ALONE]
    if min(slow.size, free.size) < _FEWEST:
        return None
    return float(np.median(slow) / np.median(free))
