"""What processes and GPUs spent their time with: in calls that copy, computing, copying, idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lanescope.trace.attribution import Share
from lanescope.trace.codes import BoolArray, Direction, MemoryKind, among
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import covered_ns
from lanescope.trace.timeline import Timeline

#: Only of those that moved the most bytes.
_MOST_PROCESSES = 3


@dataclass(frozen=True, slots=True)
class InCopies:
    """How long a process was in calls that copy, over one path; calls at the same time count once.

    Attributes
    ----------
    direction, memory
        Such as ``h2d`` and ``pageable``; None for all paths together. The memory is also None
        between GPUs.
    count, total_bytes, seconds
        Calls, what they copied, and the time in them.
    share
        Of the watch.
    """

    pid: int
    direction: str | None
    memory: str | None
    count: int
    total_bytes: int
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class GpuTime:
    """What a GPU did from its first to its last operation, as far as copies and kernels tell.

    Attributes
    ----------
    seconds
        From the start of the first to the end of the last.
    computing, only_copying, idle
        Shares of it: with a kernel, with copies and no kernel, with neither.
    """

    gpu: int
    seconds: float
    computing: float
    only_copying: float
    idle: float


def in_copies(timeline: Timeline, processes: tuple[Share, ...]) -> tuple[InCopies, ...]:
    """Return the time in calls of the processes that moved most: in sum, then by path.

    Parameters
    ----------
    processes
        Shares by process, the largest first.
    """
    if timeline.seconds <= 0:
        return ()
    found: list[InCopies] = []
    for share in processes[:_MOST_PROCESSES]:
        pid = int(share.name.split()[0])
        found += _of_process(timeline.operations, pid, timeline.seconds)
    return tuple(found)


def _of_process(operations: Operations, pid: int, seconds: float) -> Iterator[InCopies]:
    whole = _spent(operations, pid, None, seconds)
    if whole is None:
        return
    yield whole
    paths = {
        (int(direction), int(memory))
        for piece in operations.pieces()
        for direction, memory in np.unique(
            np.stack((piece.direction, piece.host_memory))[:, _called(piece) & (piece.pid == pid)],
            axis=1,
        ).T
    }
    parts = (_spent(operations, pid, path, seconds) for path in sorted(paths))
    yield from sorted(filter(None, parts), key=lambda part: -part.seconds)


def _spent(
    operations: Operations, pid: int, path: tuple[int, int] | None, seconds: float
) -> InCopies | None:
    def chosen(o: Operations) -> BoolArray:
        own = _called(o)
        return own if path is None else own & (o.direction == path[0]) & (o.host_memory == path[1])

    columns = ("call_start_ns", "call_end_ns", "bytes")
    rows = operations.where(chosen, *columns, by="call_start_ns", pid=pid)
    if not len(rows):
        return None
    spent = covered_ns(rows.call_start_ns, rows.call_end_ns) * 1e-9
    direction, memory = (None, None) if path is None else (Direction(path[0]), MemoryKind(path[1]))
    return InCopies(
        pid,
        direction.label if direction else None,
        memory.label if memory else None,
        len(rows),
        rows.total("bytes"),
        spent,
        spent / seconds,
    )


def _called(o: Operations) -> BoolArray:
    called: BoolArray = o.is_copy & (o.call_start_ns > 0) & (o.call_end_ns > o.call_start_ns)
    return called


def gpu_times(timeline: Timeline) -> tuple[GpuTime, ...]:
    """Return what the GPUs did whose kernels were traced."""
    operations = timeline.timed_operations
    gpus = sorted(operations.values("device", lambda o: o.is_kernel))
    return tuple(_of_gpu(operations, gpu) for gpu in gpus)


def _of_gpu(operations: Operations, gpu: int) -> GpuTime:
    def copies(o: Operations) -> BoolArray:
        return o.is_copy & among(o.direction, (Direction.H2D, Direction.D2H))

    kernels = operations.where(lambda o: o.is_kernel, device=gpu)
    either = operations.where(lambda o: o.is_kernel | copies(o), device=gpu)
    ends = max(int(piece.end_ns.max()) for piece in either.pieces())
    span = max(ends - int(either.start_ns[0]), 1)
    computing, working = (covered_ns(o.start_ns, o.end_ns) for o in (kernels, either))
    return GpuTime(
        gpu,
        span * 1e-9,
        computing / span,
        (working - computing) / span,
        max(span - working, 0) / span,
    )
