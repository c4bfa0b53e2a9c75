"""Operations as lanes: what one GPU did of one kind, by stream, in order of time."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from lanescope.report.format import count_text
from lanescope.report.palette import BETWEEN_GPUS, FROM_GPU, TO_GPU, WITHIN_HOST
from lanescope.watch.codes import BoolArray, Direction, IntArray, MemoryKind, What
from lanescope.watch.operations import Operations

#: With more streams of one kind on one GPU they share a lane.
_MOST_STREAMS = 6
#: Lanes from the top: copies over the rest over kernels.
_COPIES = (Direction.H2D, Direction.D2H, Direction.P2P, Direction.D2D, Direction.H2H)
_MIGRATIONS, _MEMSETS, _KERNELS = 10, 20, 30
_COLOURS = {
    Direction.H2D: TO_GPU,
    Direction.D2H: FROM_GPU,
    Direction.P2P: BETWEEN_GPUS,
    Direction.D2D: "#3f93a3",
    Direction.H2H: WITHIN_HOST,
}
#: The driver's own, so that they are not taken for the program's copies.
_MIGRATION_COLOURS = {**_COLOURS, Direction.H2D: "#7fae3f", Direction.D2H: "#b8577f"}
_MEMSET_COLOUR, _KERNEL_COLOUR = "#a3855a", "#708090"
#: Reduced, so many of the rows are the longest and the largest operations; merged runs are
#: between them and take about as many again.
_KEPT_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of rectangles.

    Attributes
    ----------
    first, count
        Which of the sorted operations stand in it.
    """

    gpu: int
    label: str
    kind: str
    colour: str
    first: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """Operations sorted by lane and start.

    Attributes
    ----------
    merged
        How many operations each row stands for: 1, or more for a merged run of short ones.
    busy_ns
        How long the GPU worked within each row; less than its length in merged runs.
    pageable
        Whether the host's end is pageable memory, of every operation that a row stands for.
    total
        How many operations there were.
    """

    lanes: list[Lane]
    operations: Operations
    merged: IntArray
    busy_ns: IntArray
    pageable: BoolArray
    total: int


def lanes_of(operations: Operations, most: int) -> Lanes:
    """Return operations in lanes, at most about `most` rows."""
    group = _groups(operations)
    stream, streams = _streams(operations, group)
    key = np.stack([operations.device, group, stream])
    order = np.lexsort((operations.start_ns, stream, group, operations.device))
    rows, key = operations.rows(order), key[:, order]
    changes = np.ones(len(rows), bool)
    changes[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    merged = np.ones(len(rows), np.int64)
    busy = rows.end_ns - rows.start_ns
    pageable = rows.host_memory == MemoryKind.PAGEABLE
    if len(rows) > most:
        kept = _reduced_starts(rows, changes, most)
        merged = np.diff(np.append(kept, len(rows)))
        busy, pageable = np.add.reduceat(busy, kept), np.logical_and.reduceat(pageable, kept)
        rows, changes, key = _merged(rows, kept), changes[kept], key[:, kept]
    starts = np.flatnonzero(changes)
    counts = np.diff(np.append(starts, len(rows)))
    many = np.unique(operations.pid).size > 1
    lanes = []
    for first, count in zip(starts.tolist(), counts.tolist(), strict=True):
        gpu, number, _ = (int(k) for k in key[:, first])
        shared = streams.get((gpu, number))
        lanes.append(_lane(rows, gpu, number, shared, first, count, with_pid=many))
    return Lanes(lanes, rows, merged, busy, pageable, len(operations))


def _groups(operations: Operations) -> IntArray:
    """The kind of lane of each operation; numbers sort from the top down."""
    place = np.zeros(len(Direction), np.int64)
    for position, direction in enumerate(_COPIES):
        place[direction] = position
    way = place[operations.direction]
    what = operations.what
    groups: IntArray = np.select(
        [what == What.KERNEL, what == What.MEMSET, what == What.MIGRATION],
        [np.int64(_KERNELS), np.int64(_MEMSETS), way + _MIGRATIONS],
        way,
    )
    return groups


def _streams(
    operations: Operations, group: IntArray
) -> tuple[IntArray, dict[tuple[int, int], int]]:
    """A number for each stream, and the count of streams where all share one lane (number 0)."""
    if not len(operations):
        return np.empty(0, np.int64), {}
    of_stream = np.stack([operations.pid, operations.context, operations.stream], axis=1)
    _, number = np.unique(of_stream, axis=0, return_inverse=True)
    number = number.reshape(-1)
    shared: dict[tuple[int, int], int] = {}
    for gpu in np.unique(operations.device).tolist():
        for kind in np.unique(group[operations.device == gpu]).tolist():
            mine = (operations.device == gpu) & (group == kind)
            count = np.unique(number[mine]).size
            if count > _MOST_STREAMS:
                shared[gpu, kind] = count
                number = np.where(mine, 0, number)
    return number, shared


def _lane(
    rows: Operations,
    gpu: int,
    group: int,
    shared: int | None,
    first: int,
    count: int,
    *,
    with_pid: bool,
) -> Lane:
    label, kind, colour = _kind(group)
    if shared is not None:
        label += f", {count_text(shared, 'stream')}"
    else:
        label += f", stream {int(rows.stream[first])}"
        if with_pid:
            label += f", pid {int(rows.pid[first])}"
    return Lane(gpu, label, kind, colour, first, count)


def _kind(group: int) -> tuple[str, str, str]:
    if group == _KERNELS:
        return "kernels", "kernel", _KERNEL_COLOUR
    if group == _MEMSETS:
        return "memset", "memset", _MEMSET_COLOUR
    direction = _COPIES[group % _MIGRATIONS]
    if group >= _MIGRATIONS:
        return f"migration {direction.label}", "migration", _MIGRATION_COLOURS[direction]
    return direction.label, "copy", _COLOURS[direction]


def _reduced_starts(rows: Operations, changes: BoolArray, most: int) -> IntArray:
    """First rows of the runs that are left: the longest and the largest stay alone.

    The others of a lane are merged where they are neighbours and in the same part of
    the time.
    """
    kept = np.zeros(len(rows), bool)
    half = max(1, int(most * _KEPT_SHARE / 2))
    for column in (rows.end_ns - rows.start_ns, np.where(rows.moves, rows.bytes, 0)):
        kept[np.argpartition(column, -half)[-half:]] = True
    lanes = int(changes.sum())
    begin, end = int(rows.start_ns.min()), int(rows.end_ns.max())
    parts = max(1, int(most * _KEPT_SHARE) // lanes)
    part = (rows.start_ns - begin) * parts // max(1, end - begin + 1)
    first = changes | kept
    first[1:] |= kept[:-1] | (part[1:] != part[:-1])
    starts: IntArray = np.flatnonzero(first)
    return starts


def _merged(rows: Operations, starts: IntArray) -> Operations:
    return dataclasses.replace(
        rows.rows(starts),
        end_ns=np.maximum.reduceat(rows.end_ns, starts),
        bytes=np.add.reduceat(rows.bytes, starts),
    )
