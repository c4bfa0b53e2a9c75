"""When the bytes were counted that no traced copy explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lanescope.units.sizes import binary_text
from lanescope.watch.codes import LATEST_NS, Direction, FloatArray, IntArray
from lanescope.watch.intervals import union
from lanescope.watch.operations import Operations
from lanescope.watch.rates import ends_of_copies
from lanescope.watch.rectangles import MovedBetween, between, moved, running
from lanescope.watch.timeline import Counters
from lanescope.watch.wire import WireModel, payload_records


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
    counters: Counters, model: WireModel, operations: Operations, way: int
) -> Unexplained | None:
    """Return when the unexplained bytes crossed; None without a copy of this GPU.

    Records of counters count with an even rate, so that an edge of a kernel within a record is
    known to that record only.

    Parameters
    ----------
    operations
        Of any GPUs.
    way
        0 h2d, 1 d2h.
    """
    gpu = counters.gpu
    moves = operations.where(lambda o: o.moves, device=gpu)
    if not len(moves) or len(counters) < 2:
        return None
    explained = moved(operations, gpu, (Direction.H2D, Direction.D2H)[way])
    begin = int(moves.start_ns[0])
    first = int(np.clip(begin, counters.end_ns[0], counters.end_ns[-1]))
    before = np.array([counters.end_ns[0], first])
    kernels = operations.where(lambda o: o.is_kernel & (o.end_ns > first), device=gpu)
    parts = _kernels_alone(kernels, moves, begin)
    until, alone = next(parts, (LATEST_NS, before[:0]))
    sums = np.zeros(2)
    ends = ends_of_copies(operations, gpu)
    for end_ns, rest in _rests(counters, model, ends, explained, way):
        sums[0] += _within(end_ns, rest, before)
        sums[1] += _within(end_ns, rest, alone)
        while until < end_ns[-1]:
            until, alone = next(parts, (LATEST_NS, before[:0]))
            sums[1] += _within(end_ns, rest, alone)
    return Unexplained(max(float(sums[0]), 0.0), max(float(sums[1]), 0.0))


def _within(end_ns: IntArray, values: FloatArray, edges: IntArray) -> float:
    """Return what falls between each first edge and the one after it; the first record is none."""
    first = int(np.searchsorted(edges, end_ns[0])) // 2 * 2
    last = (int(np.searchsorted(edges, end_ns[-1])) + 1) // 2 * 2
    if last <= first:
        return 0.0
    inside = np.clip(edges[first:last], end_ns[0], end_ns[-1])
    return float(between(end_ns, values, inside)[::2].sum())


def _rests(
    counters: Counters, model: WireModel, ends: IntArray, explained: Operations, way: int
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield ends of records, some at a time, and their payload without what operations explain.

    The first of each is the last of those before, so that all but it have a start. Where nothing
    is known, it is 0.
    """
    told = MovedBetween(explained, (int(counters.end_ns[0]), int(counters.end_ns[-1])))
    done, before = 0, counters.end_ns[:1]
    for end_ns, found in payload_records(counters, model, None, ends):
        edges = np.concatenate((before, end_ns))
        known = counters.known[done : done + end_ns.size]
        yield edges, np.append(0.0, np.where(known, found[:, way] - told.take(edges), 0.0))
        done, before = done + end_ns.size, end_ns[-1:]


def _kernels_alone(
    kernels: Operations, moves: Operations, begin: int
) -> Iterator[tuple[int, IntArray]]:
    """Yield parts of the time behind `begin`: each end, and when in it kernels ran and no copy.

    The latter are begins and ends in turn.
    """
    if not len(kernels):
        return
    last = max(int(piece.end_ns.max()) for piece in kernels.pieces())
    for (_, end), found in running((kernels, moves), (begin, max(last, begin + 1))):
        busy, copied = (union(one.start_ns, one.end_ns) for one in found)
        times = np.concatenate((*busy, *copied))
        sizes = [busy[0].size, busy[1].size, copied[0].size, copied[1].size]
        order = np.argsort(times, kind="stable")
        alone = np.cumsum(np.repeat([1, -1, 2, -2], sizes)[order]) == 1
        changes = np.flatnonzero(np.diff(np.concatenate(([False], alone, [False])).astype(np.int8)))
        yield end, times[order][np.minimum(changes, times.size - 1)]


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
