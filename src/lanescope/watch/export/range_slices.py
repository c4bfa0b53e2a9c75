"""NVTX ranges as slices of a Perfetto trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lanescope.watch.export.tracks import lanes
from lanescope.watch.timeline import Timeline

if TYPE_CHECKING:
    from lanescope.watch.export.packets import Writer


def write_ranges(writer: Writer, process: int, timeline: Timeline, pid: int) -> None:
    """Write a track for the ranges of each thread, and one for those of the whole process.

    One that was open when its trace ended reaches to the end of the watch.

    Parameters
    ----------
    process
        Number of the process's track.
    """
    ranges = timeline.ranges
    owner = np.where(ranges.pushed, ranges.thread, -1)
    for thread in np.unique(owner[ranges.pid == pid]).tolist():
        rows = np.flatnonzero((ranges.pid == pid) & (owner == thread))
        rows = rows[np.argsort(ranges.start_ns[rows], kind="stable")]
        start = ranges.start_ns[rows]
        end = np.where(ranges.end_ns[rows] > 0, ranges.end_ns[rows], timeline.end_ns)
        end = np.maximum(start, end)
        name = "NVTX ranges" + (f" of thread {thread}" if thread >= 0 else " of the process")
        lane_of = lanes(start, end)
        # tracks of one name and parent are drawn as one with as many lines
        tracks = [writer.track(name, process).uuid for _ in range(int(lane_of.max()) + 1)]
        for row, begin, until, lane in zip(
            rows.tolist(), start.tolist(), end.tolist(), lane_of.tolist(), strict=True
        ):
            text = writer.text[ranges.names[ranges.name[row]]]
            writer.slice(tracks[lane], (begin, until), text)
