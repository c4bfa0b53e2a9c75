"""When the bytes were counted that no traced copy explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lanescope.experiment.sizes import binary_text
from lanescope.watch.codes import FloatArray, IntArray
from lanescope.watch.intervals import union
from lanescope.watch.operations import Operations
from lanescope.watch.payload import payload_records
from lanescope.watch.rectangles import between, rectangles
from lanescope.watch.timeline import Counters
from lanescope.watch.wire import WireModel


@dataclass(frozen=True, slots=True)
class Unexplained:
    """Bytes of one direction that no copy or migration explains, by when they crossed the link.

    Attributes
    ----------
    before_first
        Before the GPU's first copy: what CUDA moves when a program starts.
    beside_kernels
        Later, while a kernel ran and no copy: kernels that read or write host memory in place,
        or managed memory whose migrations were not traced.
    """

    before_first: float
    beside_kernels: float


def unexplained(
    counters: Counters, model: WireModel, operations: Operations, explained: Operations, way: int
) -> Unexplained | None:
    """Return when the unexplained bytes crossed; None without a copy of this GPU.

    Records of counters count with an even rate, so that an edge of a kernel within a record is
    known to that record only.

    Parameters
    ----------
    operations
        All of this GPU.
    explained
        Those of them whose bytes went this way (0 h2d, 1 d2h).
    """
    moved = operations.rows(operations.moves)
    if not len(moved) or len(counters) < 2:
        return None
    rest = _rest(counters, model, operations, explained, way)
    first = int(np.clip(moved.start_ns.min(), counters.end_ns[0], counters.end_ns[-1]))
    start = between(counters.end_ns, rest, np.array([counters.end_ns[0], first]))
    edges = _kernels_alone(operations, moved, first)
    beside = between(counters.end_ns, rest, edges)[::2] if edges.size else np.zeros(1)
    return Unexplained(max(float(start.sum()), 0.0), max(float(beside.sum()), 0.0))


def _rest(
    counters: Counters, model: WireModel, operations: Operations, explained: Operations, way: int
) -> FloatArray:
    """Payload of each record without what operations explain; 0 where nothing is known."""
    ends = np.sort(operations.end_ns[operations.is_copy])
    payload = np.concatenate(
        [columns[:, way] for _, columns in payload_records(counters, model, None, ends)]
    )
    told = np.zeros(len(counters))
    if len(explained):
        span = (
            min(int(explained.start_ns.min()), int(counters.end_ns[0])),
            max(int(explained.end_ns.max()) + 1, int(counters.end_ns[-1])),
        )
        times, columns = rectangles([explained], span)
        told[1:] = between(times, columns[:, 0], counters.end_ns)
    rest: FloatArray = np.where(counters.known, payload - told, 0.0)
    return rest


def _kernels_alone(operations: Operations, moved: Operations, first: int) -> IntArray:
    """Begins and ends, in turn, of the times after `first` in which kernels ran and no copy."""
    kernels = operations.rows(operations.is_kernel & (operations.end_ns > first))
    if not len(kernels):
        return np.empty(0, np.int64)
    busy = union(np.maximum(kernels.start_ns, first), kernels.end_ns)
    copied = union(moved.start_ns, np.maximum(moved.end_ns, moved.start_ns))
    times = np.concatenate((*busy, *copied))
    steps = np.repeat([1, -1, 2, -2], [busy[0].size, busy[1].size, copied[0].size, copied[1].size])
    order = np.argsort(times, kind="stable")
    alone = np.cumsum(steps[order]) == 1
    changes = np.flatnonzero(np.diff(np.concatenate(([False], alone, [False])).astype(np.int8)))
    edges: IntArray = times[order][np.minimum(changes, times.size - 1)]
    return edges


def split_text(parts: Sequence[Unexplained]) -> str:
    """Return the split of all ways together in words; empty where it says nothing."""
    before = sum(part.before_first for part in parts)
    beside = sum(part.beside_kernels for part in parts)
    told = []
    if before > 0:
        told.append(f"{binary_text(round(before))} of them before the first copy (CUDA's start)")
    if beside > 0:
        told.append(
            f"{binary_text(round(beside))} while kernels ran and no copy (host memory that kernels "
            "use in place, or managed memory)"
        )
    return ", ".join(told)
