"""Operations of one process on one GPU, in the order in which its threads submitted them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.model.advice.sample import is_over_link
from lanescope.watch.codes import BoolArray, CodeArray, Direction, IntArray
from lanescope.watch.operations import Operations

#: What an operation is to a phase.
IN, OUT, WORK = 0, 1, 2
#: A thread with less of the copied time has no rounds of its own.
_LEAST_SHARE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """Operations that were submitted one after the other; columns of equal length.

    Attributes
    ----------
    kind
        `IN` (to the GPU), `OUT` (from it) or `WORK` (kernels and what else it did).
    memory
        `MemoryKind` of the host's end; UNKNOWN of work.
    stream
        A number for each stream of each context.
    call_start_ns, call_end_ns
        0 where not known.
    """

    kind: CodeArray
    start_ns: IntArray
    end_ns: IntArray
    bytes: IntArray
    memory: CodeArray
    asynchronous: BoolArray
    stream: IntArray
    call_start_ns: IntArray
    call_end_ns: IntArray

    def __len__(self) -> int:
        return int(self.start_ns.size)

    def rows(self, chosen: slice | BoolArray) -> Lane:
        """Return some rows, in the same order."""
        return Lane(*(getattr(self, name)[chosen] for name in Lane.__slots__))


def lanes(part: Operations, *, work: bool) -> tuple[Lane, ...]:
    """Return a lane for each thread that copies, by its streams.

    Submission is in the order of the correlation numbers, which rise from call to call within
    a process; where they are missing, in the order of time. Kernels have no known thread: they
    belong to that which copies on their stream, and where no thread does, to all alike if there
    is one lane, else to none.

    Parameters
    ----------
    work
        False leaves out what is no copy: without kernels, memsets tell nothing.
    """
    over = is_over_link(part)
    rows = part if work else part.rows(over)
    over = over if work else over[over]
    if not over.any():
        return ()
    numbered = bool((rows.correlation > 0).all())
    order = np.lexsort((rows.start_ns, rows.correlation if numbered else rows.start_ns))
    rows, over = rows.rows(order), over[order]
    stream = (rows.context << 32) + rows.stream
    threads = _threads(rows, over, stream)
    lane = _lane(rows, over, stream)
    found = np.unique(threads[over])
    return tuple(lane.rows(threads == thread) for thread in found) if found.size > 1 else (lane,)


def _threads(rows: Operations, over: BoolArray, stream: IntArray) -> IntArray:
    """Return the thread whose rounds each row belongs to; -2 where that is not known."""
    seconds = rows.seconds
    total = float(seconds[over].sum())
    found, inverse = np.unique(rows.thread[over], return_inverse=True)
    shares = np.bincount(inverse, seconds[over]) / max(total, 1e-12)
    mains = found[shares >= _LEAST_SHARE]
    if mains.size < 2:
        return np.zeros(len(rows), np.int64)
    threads = np.full(len(rows), -2, np.int64)
    for one in np.unique(stream[over]).tolist():
        of, counts = np.unique(rows.thread[over & (stream == one)], return_counts=True)
        threads[stream == one] = of[np.argmax(counts)]
    return threads


def _lane(rows: Operations, over: BoolArray, stream: IntArray) -> Lane:
    down = rows.direction == Direction.H2D
    kind = np.where(over, np.where(down, IN, OUT), WORK).astype(np.int8)
    return Lane(
        kind,
        rows.start_ns,
        rows.end_ns,
        rows.bytes,
        rows.host_memory,
        rows.asynchronous,
        stream,
        rows.call_start_ns,
        rows.call_end_ns,
    )
