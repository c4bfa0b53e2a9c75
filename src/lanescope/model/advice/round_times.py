"""What the time of one round went to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.model.advice.lanes import IN, OUT, WORK, Lane
from lanescope.watch.codes import IntArray
from lanescope.watch.intervals import covered_ns, union

#: Kernels this close after each other are one stretch of work: a launch takes a few µs.
_LAUNCH_GAP_NS = 20_000
#: Shorter pauses are what calls and launches take, which the models have.
_PAUSE_NS = 50_000


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Nanoseconds of one round."""

    begin: int
    end: int
    h2d: int
    d2h: int
    work: int
    hidden: int
    idle: int
    host: int


def round_times(lane: Lane, after_ns: int, *, kernels: bool) -> RoundTimes:
    """Return what the time of a round went to.

    Parameters
    ----------
    lane
        The operations of the round alone.
    after_ns
        When the round before it had ended, 0 where there is none: it begins no earlier.
    kernels
        Whether kernels were traced. Where they were not, each pause may be one.
    """
    call = int(lane.call_start_ns[0])
    begin, end = int(lane.start_ns.min()), int(lane.end_ns.max())
    if call >= max(after_ns, 1) and call < begin:
        begin = call
    waited = (lane.kind <= OUT) & ~lane.asynchronous
    if waited.any():
        end = max(end, int(lane.call_end_ns[waited].max()))
    ways = [_intervals(lane, kind) for kind in (IN, OUT, WORK)]
    copied = union(*(np.concatenate(column) for column in zip(*ways[:2], strict=True)))
    work = _without_gaps(*ways[2], *copied)
    every = union(*(np.concatenate(column) for column in zip(copied, work, strict=True)))
    h2d, d2h, worked = (covered_ns(*one) for one in (*ways[:2], work))
    all_covered = int((every[1] - every[0]).sum())
    starts = np.concatenate(([begin], every[1]))
    ends = np.concatenate((every[0], [max(end, int(every[1][-1]))]))
    return RoundTimes(
        begin,
        int(ends[-1]),
        h2d,
        d2h,
        worked,
        h2d + d2h + worked - all_covered,
        int((ends - starts).sum()),
        _paused(lane, starts, ends, calls=kernels),
    )


def _intervals(lane: Lane, kind: int) -> tuple[IntArray, IntArray]:
    mine = lane.kind == kind
    return union(lane.start_ns[mine], lane.end_ns[mine])


def _without_gaps(
    start: IntArray, end: IntArray, copy_start: IntArray, copy_end: IntArray
) -> tuple[IntArray, IntArray]:
    """Close short gaps between kernels in which nothing is copied."""
    if start.size < 2:
        return start, end
    before = np.searchsorted(copy_end, end[:-1], "right")
    behind = np.searchsorted(copy_start, start[1:], "left")
    closed = (start[1:] - end[:-1] <= _LAUNCH_GAP_NS) & (before >= behind)
    return start[np.concatenate(([True], ~closed))], end[np.concatenate((~closed, [True]))]


def _paused(lane: Lane, starts: IntArray, ends: IntArray, *, calls: bool) -> int:
    """Return how much of pauses is long, and not spent in a call that copies."""
    long = ends - starts > _PAUSE_NS
    starts, ends = starts[long], ends[long]
    if not starts.size:
        return 0
    paused = int((ends - starts).sum())
    known = (lane.kind <= OUT) & (lane.call_start_ns > 0)
    if not calls or not known.any():
        return paused
    called = union(lane.call_start_ns[known], lane.call_end_ns[known])
    both = union(*(np.concatenate(column) for column in zip((starts, ends), called, strict=True)))
    inside = paused + covered_ns(*called) - int((both[1] - both[0]).sum())
    return max(paused - inside, 0)
