"""Operations as lanes of the timeline: by GPU, kind and stream, merged where they are many.

The longest and the largest operations stay alone; the others of a lane are merged where they are
neighbours and in the same part of the time. NVTX ranges of a thread have as many lanes as they are
deep.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lanescope.report.format import count_text
from lanescope.report.html import BETWEEN_GPUS, FROM_GPU, TO_GPU, WITHIN_HOST
from lanescope.report.perfetto_tracks import lanes as side_by_side
from lanescope.trace.attribution import groups_of
from lanescope.trace.codes import BoolArray, DirectionCode, IntArray, MemoryKind, OperationCode
from lanescope.trace.operations import Operations
from lanescope.trace.timeline import Timeline

#: So many of the rows are the longest and the largest operations; merged runs are between them
#: and take about as many again.
_KEPT_SHARE = 0.25
#: Stands for a GPU's number where what is above the lanes is `HEADING`.
NO_GPU = -1
HEADING = "NVTX ranges"
#: Behind the numbers of what operations can be.
RANGE = len(OperationCode)
#: Of more ranges the longest are shown, and of threads those with the most of them.
MOST_RANGES = 50_000
_MOST_THREADS, _MOST_DEEP = 4, 4
_COLOUR = "#8d6aa8"


@dataclass(frozen=True, slots=True, eq=False)
class LaneRows:
    """Rows of lanes, ordered by lane and start.

    Attributes
    ----------
    lane
        Number of each row's lane.
    merged, busy_ns, pageable
        As in `lanescope.report.timeline_lanes.Lanes`.
    joinable
        The part of the time that a row may be merged in; -1 where it stays alone.
    """

    operations: Operations
    lane: IntArray
    merged: IntArray
    busy_ns: IntArray
    pageable: BoolArray
    joinable: IntArray

    def taken(self, places: IntArray) -> LaneRows:
        """Return some rows in another order."""
        columns = (getattr(self, field.name) for field in dataclasses.fields(self)[1:])
        return LaneRows(self.operations.rows(places), *(column[places] for column in columns))

    def in_order(self) -> LaneRows:
        """Return the rows by lane and start."""
        return self.taken(np.lexsort((self.operations.start_ns, self.lane)))

    def joined(self) -> LaneRows:
        """Return the rows with neighbours merged that may be."""
        if not len(self.operations):
            return self
        alike = (self.lane[1:] == self.lane[:-1]) & (self.joinable[1:] == self.joinable[:-1])
        first = np.append(True, ~alike | (self.joinable[1:] < 0))
        starts = np.flatnonzero(first)
        operations = dataclasses.replace(
            self.operations.rows(starts),
            end_ns=np.maximum.reduceat(self.operations.end_ns, starts),
            bytes=np.add.reduceat(self.operations.bytes, starts),
        )
        return LaneRows(
            operations,
            self.lane[starts],
            np.add.reduceat(self.merged, starts),
            np.add.reduceat(self.busy_ns, starts),
            np.logical_and.reduceat(self.pageable, starts),
            self.joinable[starts],
        )


def rows_of(
    operations: Operations, lane_of: Callable[[Operations], IntArray], most: int
) -> LaneRows:
    """Return operations as rows of lanes, at most about `most`."""
    if len(operations) <= most:
        every = Operations.concat(list(operations.pieces()))
        alone = np.full(len(every), -1, np.int64)
        return _rows(every, lane_of(every), alone).in_order()
    joining = _joining(operations, lane_of, most)
    parts = [joining(piece) for piece in operations.pieces()]
    columns = (
        np.concatenate([getattr(part, field.name) for part in parts])
        for field in dataclasses.fields(LaneRows)[1:]
    )
    return (
        LaneRows(Operations.concat([part.operations for part in parts]), *columns)
        .in_order()
        .joined()
    )


def _rows(piece: Operations, lane: IntArray, joinable: IntArray) -> LaneRows:
    pageable = piece.host_memory == MemoryKind.PAGEABLE
    ones = np.ones(len(piece), np.int64)
    return LaneRows(piece, lane, ones, piece.end_ns - piece.start_ns, pageable, joinable)


def _joining(
    operations: Operations, lane_of: Callable[[Operations], IntArray], most: int
) -> Callable[[Operations], LaneRows]:
    """Return what makes rows of a piece."""
    half = max(1, int(most * _KEPT_SHARE / 2))
    largest = [np.empty(0, np.int64)] * 2
    begin, end, lanes = np.iinfo(np.int64).max, 0, set()
    for piece in operations.pieces():
        largest = [_largest(*pair, half) for pair in zip(largest, _size(piece), strict=True)]
        begin, end = min(begin, int(piece.start_ns.min())), max(end, int(piece.end_ns.max()))
        lanes |= set(np.unique(lane_of(piece)).tolist())
    chosen = [_Largest(column) for column in largest]
    parts = max(1, int(most * _KEPT_SHARE) // len(lanes))

    def join(piece: Operations) -> LaneRows:
        sizes = zip(chosen, _size(piece), strict=True)
        lasting = np.logical_or.reduce([one.among(column) for one, column in sizes])
        part = (piece.start_ns - begin) * parts // max(1, end - begin + 1)
        return _rows(piece, lane_of(piece), np.where(lasting, -1, part)).in_order().joined()

    return join


class _Largest:
    """Tells which values are among the largest; of equal ones the first."""

    def __init__(self, largest: IntArray) -> None:
        self._least = int(largest.min())
        self._equal = int((largest == self._least).sum())

    def among(self, column: IntArray) -> BoolArray:
        """Return where the values are that belong to the largest; pieces come in order."""
        found: BoolArray = column > self._least
        equal = np.flatnonzero(column == self._least)[: self._equal]
        self._equal -= equal.size
        found[equal] = True
        return found


def _size(piece: Operations) -> tuple[IntArray, IntArray]:
    """How long operations took, and how much they moved."""
    return piece.end_ns - piece.start_ns, np.where(piece.moves, piece.bytes, 0)


def _largest(found: IntArray, more: IntArray, count: int) -> IntArray:
    """Return the largest values of two columns, so many of them."""
    both = np.concatenate((found, more))
    return both if both.size <= count else np.partition(both, both.size - count)[-count:]


#: With more streams of one kind on one GPU they share a lane.
_MOST_STREAMS = 6
#: Lanes from the top: copies over the rest over kernels.
_COPIES = (
    DirectionCode.H2D,
    DirectionCode.D2H,
    DirectionCode.P2P,
    DirectionCode.D2D,
    DirectionCode.H2H,
)
_MIGRATIONS, _MEMSETS, _KERNELS = 10, 20, 30
_COLOURS = {
    DirectionCode.H2D: TO_GPU,
    DirectionCode.D2H: FROM_GPU,
    DirectionCode.P2P: BETWEEN_GPUS,
    DirectionCode.D2D: "#3f93a3",
    DirectionCode.H2H: WITHIN_HOST,
}
#: The driver's own, so that they are not taken for the program's copies.
_MIGRATION_COLOURS = {**_COLOURS, DirectionCode.H2D: "#7fae3f", DirectionCode.D2H: "#b8577f"}
_MEMSET_COLOUR, KERNEL_COLOUR = "#a3855a", "#708090"


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

    def with_more(self, lanes: list[Lane], operations: Operations) -> Lanes:
        """Return these with further lanes, whose operations stand behind those that are here."""
        count = len(operations)
        return Lanes(
            [*self.lanes, *lanes],
            Operations.concat((self.operations, operations)),
            np.append(self.merged, np.ones(count, np.int64)),
            np.append(self.busy_ns, operations.end_ns - operations.start_ns),
            np.append(self.pageable, np.zeros(count, bool)),
            self.total,
        )


def lanes_of(operations: Operations, most: int) -> Lanes:
    """Return operations in lanes, at most about `most` rows."""
    streams = _Streams(operations)
    rows = rows_of(operations, streams.lane_of, most)
    starts = np.flatnonzero(np.diff(rows.lane, prepend=-1))
    counts = np.diff(np.append(starts, len(rows.operations)))
    lanes = []
    for first, count in zip(starts.tolist(), counts.tolist(), strict=True):
        gpu, group, shared = streams.shown_stream(int(rows.lane[first]))
        many = len(streams.pids[gpu]) > 1
        lanes.append(_lane(rows.operations, gpu, group, shared, first, count, with_pid=many))
    return Lanes(lanes, rows.operations, rows.merged, rows.busy_ns, rows.pageable, len(operations))


def _groups(operations: Operations) -> IntArray:
    """The kind of lane of each operation; numbers sort from the top down."""
    place = np.zeros(len(DirectionCode), np.int64)
    for position, direction in enumerate(_COPIES):
        place[direction] = position
    copy_place = place[operations.direction]
    what = operations.what
    groups: IntArray = np.select(
        [
            what == OperationCode.KERNEL,
            what == OperationCode.MEMSET,
            what == OperationCode.MIGRATION,
        ],
        [np.int64(_KERNELS), np.int64(_MEMSETS), copy_place + _MIGRATIONS],
        copy_place,
    )
    return groups


class _Streams:
    """Numbers of lanes: by GPU, kind from the top down, and stream.

    Where a GPU has many streams of a kind, all of these share a lane.
    """

    def __init__(self, operations: Operations) -> None:
        found: set[tuple[int, ...]] = set()
        for piece in operations.pieces():
            found |= set(map(tuple, groups_of(self._columns(piece))[0].tolist()))
        self.pids: dict[int, set[int]] = {}
        for gpu, _, pid, *_ in found:
            self.pids.setdefault(gpu, set()).add(pid)
        streams: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for key in sorted(found):
            streams.setdefault(key[:2], []).append(key[2:])
        self._streams: list[tuple[int, int, int | None]] = []
        self._lanes: dict[tuple[int, ...], int] = {}
        for (gpu, group), own in streams.items():
            shared = len(own) if len(own) > _MOST_STREAMS else None
            for stream in own:
                self._lanes[gpu, group, *stream] = len(self._streams)
                if shared is None:
                    self._streams.append((gpu, group, None))
            if shared is not None:
                self._streams.append((gpu, group, shared))

    def lane_of(self, operations: Operations) -> IntArray:
        """Return the lane of each operation."""
        if not len(operations):
            return np.empty(0, np.int64)
        keys, group = groups_of(self._columns(operations))
        lanes: IntArray = np.array([self._lanes[tuple(k)] for k in keys.tolist()], np.int64)[group]
        return lanes

    def shown_stream(self, lane: int) -> tuple[int, int, int | None]:
        """Return a lane's GPU, its group, and how many streams share it; None when one has it."""
        return self._streams[lane]

    @staticmethod
    def _columns(operations: Operations) -> tuple[IntArray, ...]:
        o = operations
        return o.device, _groups(o), o.pid, o.context, o.stream


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
        return "kernels", "kernel", KERNEL_COLOUR
    if group == _MEMSETS:
        return "memset", "memset", _MEMSET_COLOUR
    direction = _COPIES[group % _MIGRATIONS]
    if group >= _MIGRATIONS:
        return f"migration {direction.label}", "migration", _MIGRATION_COLOURS[direction]
    return direction.label, "copy", _COLOURS[direction]


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
