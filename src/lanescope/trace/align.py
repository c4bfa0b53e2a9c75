"""How far the clocks of counters and trace are apart, from copies that ran alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lanescope.trace.codes import Direction, FloatArray, IntArray, among
from lanescope.trace.operations import KINDS, Operations
from lanescope.trace.stored_columns import search
from lanescope.trace.timeline import PCIE, Counters

#: A burst needs whole samples between its edges to know how full a sample is.
LEAST_SAMPLES = 5
#: Around a copy nothing else may move, for so many samples.
GUARD_SAMPLES = 10
#: Samples above this share of a burst's fullest are part of it.
PART_SHARE = 0.03
LEAST_COPIES = 10
MOST_COPIES = 1000


@dataclass(frozen=True, slots=True)
class EdgeDelay:
    """How long a link's bursts are behind the copies of one direction: medians.

    Attributes
    ----------
    begin_ns, end_ns
        From the begin of a copy to that of its burst, and from the end to the end. A copy to
        the GPU begins with requests to the host's memory, whose answers take their time.
    """

    direction: str
    begin_ns: float
    end_ns: float


@dataclass(frozen=True, slots=True)
class Alignment:
    """Where bursts of counters lie beside traced copies.

    Attributes
    ----------
    offset_ns
        Add to times of the counters to get those of the trace. The median over all
        edges, so that what a copy waits for its first bytes is halved.
    residual_p99_ns
        99 % of all edges lie within so much of the copies' after that and after `delays`.
    copies
        So many copies were used.
    delays
        Of each direction with copies enough.
    """

    offset_ns: float
    residual_p99_ns: float
    copies: int
    delays: tuple[EdgeDelay, ...] = ()


def align(counters: Counters, operations: Operations) -> Alignment | None:
    """Compare the edges of bursts with those of copies; None with fewer than ten to compare.

    Only counters of PCIe can be: what crosses NVLink is no copy of the host.
    """
    if counters.link != PCIE:
        return None
    own = operations.where(lambda o: o.moves, *KINDS, device=counters.gpu)
    if not len(own) or len(counters) < 2:
        return None
    copies = alone(own, counters.interval_ns)
    edges = [edge for piece in copies for edge in _edges(counters, piece)]
    if len(edges) < LEAST_COPIES:
        return None
    found, directions = (
        np.array([edge for edge, _ in edges]),
        np.array([direction for _, direction in edges]),
    )
    # starts are late and ends early by what packets take: neither is the clock
    offset = -float(np.median(found.mean(axis=1)))
    found += offset
    delays = []
    for direction in (Direction.H2D, Direction.D2H):
        mine = directions == direction
        if mine.sum() >= LEAST_COPIES:
            begin, end = np.median(found[mine], axis=0)
            delays.append(EdgeDelay(direction.label, float(begin), float(end)))
            found[mine] -= (begin, end)
    residual = float(np.quantile(np.abs(found), 0.99))
    return Alignment(offset, residual, len(edges), tuple(delays))


def alone(own: Operations, interval_ns: int) -> Iterator[Operations]:
    """Yield long copies over the link with nothing else near them, of operations by start.

    Of more than `MOST_COPIES`, each so-manieth.
    """
    count = sum(rows.size for _, rows in _alone(own, interval_ns))
    every, done = max(1, -(-count // MOST_COPIES)), 0
    for piece, rows in _alone(own, interval_ns):
        yield piece.rows(rows[-done % every :: every])
        done += rows.size


def _alone(own: Operations, interval_ns: int) -> Iterator[tuple[Operations, IntArray]]:
    """Yield pieces, and which of their rows are such copies."""
    guard, far = GUARD_SAMPLES * interval_ns, np.iinfo(np.int64).max // 2
    latest, done = np.array([-far]), 0
    for piece in own.pieces():
        start, end = piece.start_ns, piece.end_ns
        done += len(piece)
        reached = np.maximum.accumulate(np.concatenate((latest, end)))
        after = np.concatenate((start[1:], own.start_ns[done : done + 1], [far]))[: len(piece)]
        long = end - start >= LEAST_SAMPLES * interval_ns
        direction = among(piece.direction, (Direction.H2D, Direction.D2H))
        free = (start - reached[:-1] > guard) & (after - end > guard)
        yield piece, np.flatnonzero(long & direction & free)
        latest = reached[-1:]


def _edges(
    counters: Counters, copies: Operations
) -> Iterator[tuple[tuple[float, float], Direction]]:
    """Yield (burst start - copy start, burst end - copy end) in nanoseconds, and the direction."""
    guard = GUARD_SAMPLES * counters.interval_ns // 2
    for start, end, direction in zip(copies.start_ns, copies.end_ns, copies.direction, strict=True):
        first = search(counters.end_ns, int(start) - guard, "right")
        last = min(search(counters.end_ns, int(end) + guard, "left") + 1, len(counters))
        part = slice(first, last)
        if last - first < LEAST_SAMPLES or not counters.known[part].all():
            continue
        wire = counters.rx_bytes if direction == Direction.H2D else counters.tx_bytes
        ends = counters.end_ns[part]
        starts = np.concatenate((counters.end_ns[max(first - 1, 0) : max(first, 1)], ends[:-1]))
        lasted = (ends - starts).astype(np.float64)
        burst = _burst(starts - start, lasted, wire[part].astype(np.float64))
        if burst is not None:
            yield (burst[0], burst[1] - float(end - start)), Direction(direction)


def _burst(
    start_ns: IntArray, lasted_ns: FloatArray, wire: FloatArray
) -> tuple[float, float] | None:
    """Return start and end of a burst; samples that it fills in part tell where in them it is."""
    part = np.flatnonzero(wire > PART_SHARE * wire.max())
    if part.size < LEAST_SAMPLES or wire.max() <= 0:
        return None
    first, last = int(part[0]), int(part[-1])
    if first == 0 or last == wire.size - 1:
        return None  # other traffic around the copy: no edges
    full = float(np.median(wire[part[1:-1]] / lasted_ns[part[1:-1]]))
    filled = np.minimum(wire / (full * lasted_ns), 1.0) * lasted_ns
    begin = float(start_ns[first]) + float(lasted_ns[first] - filled[first])
    return begin, float(start_ns[last]) + float(filled[last])
