"""What is measured to learn what transfers cost, and to check it; graphs of those points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lanescope.codec.fields import PositiveInt
from lanescope.prediction.graphs import Task, TaskGraph, TaskKind, graph_for
from lanescope.prediction.parameters import Direction
from lanescope.prediction.workload import Method, Workload

LEAST_BYTES = 8
MOST_BYTES = 1 << 30
MOST_STREAMS = 256
#: Of a long transfer, where the bytes are what matters.
LONG_BYTES = 256 << 20
_DOUBLE = 8
_PAGEABLE_SIZES = tuple(1 << power for power in range(12, 29))
#: To memory whose pages the system has to give first.
_FRESH_SIZES = tuple(1 << power for power in range(12, 27, 2))
#: Of memory that is pinned.
_PIN_SIZES = tuple(1 << power for power in range(16, 29, 4))
#: Copies of pageable memory of so many bytes take other memory each time: a program seldom copies
#: what its cores have just read. Shorter ones it does.
UNCACHED_BYTES = 1 << 20
_MAPPED_BYTES = 256 << 20
_LAUNCHES = 64
#: Of many copies; of longer ones a further copy costs its bytes and the gap.
_LONGEST_PIECE = 64 << 20
#: Numbers of streams that the fit uses; those between are for the check.
_FITTED_STREAMS = (2, 8, 64, MOST_STREAMS)
_CHECKED_STREAMS = (1, 4, 16, 128, MOST_STREAMS)
#: Sizes by which the curves are measured: powers of two, from 4 KiB on with one between, and
#: more where small copies change from one way of moving them to another.
_SIZES = tuple(
    sorted(
        {8, 32, 128, 512}
        | {1 << power for power in range(10, 31)}
        | {3 << power for power in range(11, 26)}
        | {size << 10 for size in (10, 14, 20, 28)}
    )
)
#: Sizes that lie between those by which the curves are measured.
_CHECKED_SIZES = tuple(5 << power for power in range(1, 28, 2))
#: Arrays that a kernel reads and writes in place, of the same length.
_MAPPED_ARRAYS = (
    *((1, 0), (0, 1), (3, 1), (2, 1), (3, 2)),
    *((1, 1), (2, 3), (1, 2), (1, 3)),
)
#: Each way at once, times one or two: more than the caches of the host hold.
_BOTH_BYTES = 384 << 20
#: Arrays that are copied to the GPU while kernels write others, as programs have them.
_HYBRID_ARRAYS = ((1, 1), (2, 1), (1, 2), (2, 3))
#: Steps of computing for each double that such a kernel writes. On one of today's large GPUs they
#: take a tenth longer to twice as long as its writes.
_PACES = (5200, 6500, 9000)
#: Copied beside such a kernel: nothing, what ends before it does, and what ends after it.
_PACED_BYTES = (0, 128 << 20, MOST_BYTES)
#: Into how many parts transfers are cut that go both ways at once.
_DUPLEX_STREAMS = (1, 4, 32)
#: Of short parts that go both ways, so many; the shortest parts of the long transfers have more.
_SHORT_PARTS = tuple(16 << power for power in range(10, 19, 2))
_SHORT_STREAMS = 32
#: Parts of transfers both ways are long from there on.
LONG_PART = 8 << 20


class Kind(StrEnum):
    """What is run."""

    COPIES = "copies"
    """Copies of pinned memory in one direction, each on its own stream."""
    PAGEABLE = "pageable"
    """One copy of used pageable memory; from `UNCACHED_BYTES` on it is in no cache."""
    FRESH = "fresh"
    """One copy back to pageable memory that nobody has used, as new arrays are."""
    PIN = "pin"
    """To get so much pinned memory from the driver; no bytes are copied."""
    DUPLEX = "duplex"
    """One copy each way, at once."""
    EXPLICIT_MAPPED = "explicit-mapped"
    """A copy to the GPU while a kernel writes the host's memory."""
    PACED = "paced"
    """A kernel that writes the host's memory and computes longer than that takes, alone or beside
    a copy to the GPU."""
    MAPPED = "mapped"
    """A kernel that reads and writes the host's memory."""
    LAUNCHES = "launches"
    """Empty kernels on one stream."""
    EVENTS = "events"
    """Empty kernels on two streams in turn, each waiting for the one before."""


@dataclass(frozen=True, slots=True)
class Point:
    """One thing to be timed.

    Attributes
    ----------
    kind
        What is run.
    h2d_bytes, d2h_bytes
        That go each way in sum; of pieces all alike, but for the first ones, which have a byte
        more where they must.
    streams
        Into how many copies they are cut; of kernels how many there are.
    reads, writes
        Arrays of the same length that a kernel reads and writes: in place, but while copies go
        the other way it reads what was copied.
    work
        Steps of computing for each double that a kernel writes.
    held_out
        True where the time is only compared with what the others predict.
    """

    kind: Kind
    h2d_bytes: int = 0
    d2h_bytes: int = 0
    streams: PositiveInt = 1
    reads: int = 0
    writes: int = 0
    work: int = 0
    held_out: bool = False

    def __post_init__(self) -> None:
        both = self.h2d_bytes > 0, self.d2h_bytes > 0
        if self.kind in (Kind.COPIES, Kind.PAGEABLE, Kind.FRESH, Kind.PIN) and both[0] == both[1]:
            raise ValueError(f"{self.kind} go one way")
        if self.kind in (Kind.DUPLEX, Kind.EXPLICIT_MAPPED) and both != (True, True):
            raise ValueError(f"{self.kind} goes both ways")
        by_kernel = self.kind in (Kind.EXPLICIT_MAPPED, Kind.MAPPED, Kind.PACED)
        if by_kernel and not (self.reads or self.writes):
            raise ValueError(f"a kernel that is {self.kind} reads or writes")

    @property
    def direction(self) -> Direction:
        """Direction of a transfer that goes one way."""
        return Direction.H2D if self.h2d_bytes else Direction.D2H

    @property
    def bytes(self) -> int:
        """Bytes of both directions."""
        return self.h2d_bytes + self.d2h_bytes


def plan() -> tuple[Point, ...]:
    """Return all that a fit measures, what it learns from before what it is checked by."""
    return (*_learnt_from(), *_checked_by())


def _learnt_from() -> Iterator[Point]:
    for direction in Direction:
        for streams in (1, *_FITTED_STREAMS):
            for size in _SIZES:
                if streams * size <= MOST_BYTES and (streams == 1 or size <= _LONGEST_PIECE):
                    yield one_direction(direction, streams * size, streams)
        for size in _PAGEABLE_SIZES:
            yield one_direction(direction, size, 1, Kind.PAGEABLE)
    for size in _FRESH_SIZES:
        yield one_direction(Direction.D2H, size, 1, Kind.FRESH)
    for size in _PIN_SIZES:
        yield one_direction(Direction.H2D, size, 1, Kind.PIN)
    for streams in _DUPLEX_STREAMS:
        for down, up in ((1, 1), (2, 1), (1, 2)):
            yield Point(Kind.DUPLEX, down * _BOTH_BYTES, up * _BOTH_BYTES, streams)
        for reads, writes in _HYBRID_ARRAYS:
            yield hybrid(reads, writes, LONG_BYTES, streams)
    for size in _SHORT_PARTS:
        both = size * _SHORT_STREAMS
        yield Point(Kind.DUPLEX, both, both, _SHORT_STREAMS)
    for work in _PACES:
        for size in _PACED_BYTES:
            yield Point(Kind.PACED, size, LONG_BYTES, writes=1, work=work)
    for reads, writes in _MAPPED_ARRAYS:
        yield mapped(reads, writes, _MAPPED_BYTES // 2)
    for count in (1, _LAUNCHES):
        yield Point(Kind.LAUNCHES, streams=count)
    yield Point(Kind.EVENTS, streams=_LAUNCHES)


def _checked_by() -> Iterator[Point]:
    learnt = set(_learnt_from())
    for direction in Direction:
        for size in _CHECKED_SIZES:
            for streams in _CHECKED_STREAMS:
                known = one_direction(direction, size, streams) in learnt
                if size // streams >= LEAST_BYTES and not known:
                    yield one_direction(direction, size, streams, held_out=True)


def one_direction(
    direction: Direction,
    size: int,
    streams: int,
    kind: Kind = Kind.COPIES,
    *,
    held_out: bool = False,
) -> Point:
    """Return a transfer in one direction."""
    down, up = (size, 0) if direction is Direction.H2D else (0, size)
    return Point(kind, down, up, streams, held_out=held_out)


def mapped(reads: int, writes: int, array_bytes: int) -> Point:
    """Return a kernel that reads and writes so many arrays of that size in place."""
    if array_bytes % _DOUBLE:
        raise ValueError("an array has whole doubles")
    return Point(Kind.MAPPED, reads * array_bytes, writes * array_bytes, reads=reads, writes=writes)


def hybrid(reads: int, writes: int, array_bytes: int, streams: int) -> Point:
    """Return copies of so many arrays to the GPU while kernels write others in place."""
    return Point(
        Kind.EXPLICIT_MAPPED,
        reads * array_bytes,
        writes * array_bytes,
        streams,
        reads=reads,
        writes=writes,
    )


def pieces(size: int, count: int) -> Sequence[tuple[int, int]]:
    """Return where the pieces of a transfer begin and how long they are, in bytes."""
    short, longer = divmod(size, count)
    sizes = [short + 1] * longer + [short] * (count - longer)
    begins = [0]
    for one in sizes:
        begins.append(begins[-1] + one)
    return list(zip(begins, sizes, strict=False))


def pattern_of(point: Point) -> TaskGraph:
    """Return the tasks of a point of both directions.

    One stream of each direction: long transfers that begin together. More: the bytes are cut
    into parts, and each goes there and back, by a copy or by a kernel that writes mapped memory,
    while others go the other way.
    """
    mapped = point.kind is Kind.EXPLICIT_MAPPED
    if point.streams > 1:
        workload = Workload(
            point.h2d_bytes,
            point.d2h_bytes,
            0.0,
            h2d_arrays=max(point.reads, 1),
            d2h_arrays=max(point.writes, 1),
        )
        return graph_for(workload, Method.HYBRID if mapped else Method.STREAMS, point.streams)
    back = Task(TaskKind.D2H, 1, bytes=point.d2h_bytes)
    if not mapped:
        return TaskGraph((Task(TaskKind.H2D, 0, bytes=point.h2d_bytes), back))
    arrays = max(point.reads, 1)
    one = point.h2d_bytes // arrays
    there = (Task(TaskKind.H2D, 0, bytes=one, array=array) for array in range(arrays))
    return TaskGraph((*there, Task(TaskKind.KERNEL, 1, writes=point.d2h_bytes)))
