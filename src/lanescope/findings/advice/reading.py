"""How long the watch itself held a program up: by reading what its copies carried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lanescope.trace.codes import IntArray
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import union
from lanescope.trace.side_tables import HostCopies

#: Begins and ends.
_Spans = tuple[IntArray, IntArray]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """When threads of programs read what their copies carried.

    The thread that copies does so before its call returns, so that a copy of 4 MiB seems to take
    half a millisecond more than it does.

    Attributes
    ----------
    spans
        By process: begins and ends that do not touch, ascending.
    """

    spans: Mapping[int, tuple[IntArray, IntArray]] = field(default_factory=dict)

    @staticmethod
    def of(copies: HostCopies) -> Reading:
        """Return what a watch knows of it; nothing in those of versions that did not tell."""
        spans = {}
        for pid in np.unique(copies.pid[copies.read_ns > 0]).tolist():
            mine = (copies.pid == pid) & (copies.read_ns > 0)
            begin = copies.read_begin_ns[mine]
            spans[pid] = union(begin, begin + copies.read_ns[mine])
        return Reading(spans)

    @property
    def seconds(self) -> float:
        """In all, of all processes."""
        return 1e-9 * sum(int((end - begin).sum()) for begin, end in self.spans.values())

    def of_idle(self, rows: Operations, pid: int) -> Reading:
        """Return what a process read while the GPU did none of these operations."""
        if pid not in self.spans:
            return self
        idle = _outside(self.spans[pid], union(rows.start_ns, rows.end_ns))
        return Reading({**self.spans, pid: idle})

    def left_out(self, rows: Operations, pid: int) -> Operations:
        """Return operations of a process as if it had not read: what is behind comes sooner.

        Each takes as long as it did. They come sooner by all of `spans`, which is to be that of
        `of_idle`: where the GPU worked, what is behind would have waited for that.
        """
        if pid not in self.spans:
            return rows
        begin, end = self.spans[pid]
        start = _sooner(rows.start_ns, begin, end)
        called = rows.call_start_ns > 0
        return replace(
            rows,
            start_ns=start,
            end_ns=start + (rows.end_ns - rows.start_ns),
            call_start_ns=np.where(called, _sooner(rows.call_start_ns, begin, end), 0),
            call_end_ns=np.where(called, _sooner(rows.call_end_ns, begin, end), 0),
        )


def _outside(spans: _Spans, others: _Spans) -> _Spans:
    """Return the parts of spans that lie in none of the others; both ascend and do not touch."""
    begin, end = spans
    gap_begin = np.concatenate(([np.iinfo(np.int64).min], others[1]))
    gap_end = np.concatenate((others[0], [np.iinfo(np.int64).max]))
    first, behind = np.searchsorted(gap_end, begin, "right"), np.searchsorted(gap_begin, end)
    count = np.maximum(behind - first, 0)
    span = np.repeat(np.arange(begin.size), count)
    gap = first[span] + np.arange(span.size) - (np.cumsum(count) - count)[span]
    return np.maximum(begin[span], gap_begin[gap]), np.minimum(end[span], gap_end[gap])


def _sooner(at: IntArray, begin: IntArray, end: IntArray) -> IntArray:
    """Return times less what of the spans lies before each."""
    if not begin.size:
        return at
    before = np.searchsorted(begin, at, "right")
    whole = np.concatenate(([0], np.cumsum(end - begin)))
    last = np.maximum(before - 1, 0)
    within = np.where(before > 0, np.maximum(end[last] - at, 0), 0)
    found: IntArray = at - (whole[before] - within)
    return found
