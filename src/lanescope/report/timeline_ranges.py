"""NVTX ranges as lanes of the page: those of a thread in as many lanes as they are deep."""

from __future__ import annotations

import numpy as np

from lanescope.report.perfetto_tracks import lanes as side_by_side
from lanescope.report.timeline_lanes import Lane, Lanes
from lanescope.trace.codes import MemoryKind, What
from lanescope.trace.operations import Operations
from lanescope.trace.timeline import Timeline

#: Stands for a GPU's number where what is above the lanes is `HEADING`.
NO_GPU = -1
HEADING = "NVTX ranges"
#: Behind the numbers of what operations can be.
RANGE = len(What)
#: Of more ranges the longest are shown, and of threads those with the most of them.
MOST_RANGES = 50_000
_MOST_THREADS, _MOST_DEEP = 4, 4
_COLOUR = "#8d6aa8"


def with_ranges(lanes: Lanes, timeline: Timeline) -> Lanes:
    """Return lanes with those of ranges behind them."""
    ranges = timeline.ranges
    end_ns = np.where(ranges.end_ns > 0, ranges.end_ns, timeline.end_ns)
    lasted = end_ns - ranges.start_ns
    lasting = np.flatnonzero(lasted > 0)
    if lasting.size > MOST_RANGES:
        lasting = lasting[
            np.argpartition(lasted[lasting], lasting.size - MOST_RANGES)[-MOST_RANGES:]
        ]
    lasting = lasting[np.argsort(ranges.start_ns[lasting], kind="stable")]
    owner = np.where(ranges.pushed, ranges.thread, -1)[lasting]
    keys, which = np.unique(
        np.stack((ranges.pid[lasting], owner), axis=1), axis=0, return_inverse=True
    )
    which = which.reshape(-1)
    counts = np.bincount(which, minlength=len(keys))
    more: list[Lane] = []
    parts, first = [], len(lanes.operations)
    for number in np.sort(np.argsort(-counts, kind="stable")[:_MOST_THREADS]).tolist():
        pid, thread = keys[number].tolist()
        rows = lasting[which == number]
        depth = side_by_side(ranges.start_ns[rows], end_ns[rows])
        for level in range(min(int(depth.max()) + 1, _MOST_DEEP)):
            mine = rows[depth == level]
            label = f"ranges, {f'thread {thread}' if thread >= 0 else f'process {pid}'}"
            more.append(Lane(NO_GPU, label, "range", _COLOUR, first, mine.size))
            parts.append(mine)
            first += mine.size
    rows = np.concatenate(parts) if parts else lasting[:0]
    shown = Operations.of(
        ("", *ranges.names),
        pid=ranges.pid[rows],
        what=np.full(rows.size, RANGE),
        start_ns=ranges.start_ns[rows],
        end_ns=end_ns[rows],
        thread=ranges.thread[rows],
        name=ranges.name[rows] + 1,
        source_kind=np.full(rows.size, MemoryKind.UNKNOWN),
    )
    return lanes.with_more(more, shown)
