"""The points of a fit, graphs of them, and the table that stores the times of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from lanescope.codec.fields import FieldError, Positive, PositiveInt, build
from lanescope.codec.files import fields_of
from lanescope.codec.parquet import read_rows
from lanescope.errors import command
from lanescope.prediction.graphs import Task, TaskGraph, TaskKind, graph_for
from lanescope.prediction.parameters import Direction
from lanescope.prediction.predictor import Method, Workload
from lanescope.results import FloatArray, median_interval
from lanescope.units.estimate import Estimate

if TYPE_CHECKING:
    import pyarrow as pa

    from lanescope.engine.core import TaskTimes

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
#: Of what a program has just used caches hold no more: copies of 64 MiB each way took as long as of
#: memory in no cache (benchmarks/model/README.md).
_MOST_CACHED = 16 << 20
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
#: The table's name in the folder of a fit.
SAMPLES = "transfers.parquet"
_TIMES = ("calls", "seconds", "held")
#: Rounds whose medians differ by no more agree.
SETTLED = 0.03
_ENOUGH = 2


class PointKind(StrEnum):
    """What is run."""

    COPIES = "copies"
    """Copies of pinned memory in one direction, each on its own stream."""
    PAGEABLE = "pageable"
    """One copy of used pageable memory; from `UNCACHED_BYTES` on it is in no cache."""
    CACHED = "cached"
    """The same of memory that the host's caches hold."""
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


_ONE_WAY = (
    *(PointKind.COPIES, PointKind.PIN),
    *(PointKind.PAGEABLE, PointKind.CACHED, PointKind.FRESH),
)


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

    kind: PointKind
    h2d_bytes: int = 0
    d2h_bytes: int = 0
    streams: PositiveInt = 1
    reads: int = 0
    writes: int = 0
    work: int = 0
    held_out: bool = False

    def __post_init__(self) -> None:
        both = self.h2d_bytes > 0, self.d2h_bytes > 0
        if self.kind in _ONE_WAY and both[0] == both[1]:
            raise ValueError(f"{self.kind} go one way")
        if self.kind in (PointKind.DUPLEX, PointKind.EXPLICIT_MAPPED) and both != (True, True):
            raise ValueError(f"{self.kind} goes both ways")
        by_kernel = self.kind in (PointKind.EXPLICIT_MAPPED, PointKind.MAPPED, PointKind.PACED)
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
            yield one_direction(direction, size, 1, PointKind.PAGEABLE)
            if UNCACHED_BYTES <= size <= _MOST_CACHED:
                yield one_direction(direction, size, 1, PointKind.CACHED)
    for size in _FRESH_SIZES:
        yield one_direction(Direction.D2H, size, 1, PointKind.FRESH)
    for size in _PIN_SIZES:
        yield one_direction(Direction.H2D, size, 1, PointKind.PIN)
    for streams in _DUPLEX_STREAMS:
        for down, up in ((1, 1), (2, 1), (1, 2)):
            yield Point(PointKind.DUPLEX, down * _BOTH_BYTES, up * _BOTH_BYTES, streams)
        for reads, writes in _HYBRID_ARRAYS:
            yield hybrid(reads, writes, LONG_BYTES, streams)
    for size in _SHORT_PARTS:
        both = size * _SHORT_STREAMS
        yield Point(PointKind.DUPLEX, both, both, _SHORT_STREAMS)
    for work in _PACES:
        for size in _PACED_BYTES:
            yield Point(PointKind.PACED, size, LONG_BYTES, writes=1, work=work)
    for reads, writes in _MAPPED_ARRAYS:
        yield mapped(reads, writes, _MAPPED_BYTES // 2)
    for count in (1, _LAUNCHES):
        yield Point(PointKind.LAUNCHES, streams=count)
    yield Point(PointKind.EVENTS, streams=_LAUNCHES)


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
    kind: PointKind = PointKind.COPIES,
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
    return Point(
        PointKind.MAPPED, reads * array_bytes, writes * array_bytes, reads=reads, writes=writes
    )


def hybrid(reads: int, writes: int, array_bytes: int, streams: int) -> Point:
    """Return copies of so many arrays to the GPU while kernels write others in place."""
    return Point(
        PointKind.EXPLICIT_MAPPED,
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
    mapped = point.kind is PointKind.EXPLICIT_MAPPED
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


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A point with its samples: seconds, of shape (runs,).

    Attributes
    ----------
    calls, seconds, held
        As `lanescope.engine.core.TaskTimes` has them.
    round
        In which round over all points, counted from 0.
    """

    point: Point
    calls: FloatArray
    seconds: FloatArray
    held: FloatArray | None = None
    round: int = 0

    @classmethod
    def of(cls, point: Point, times: TaskTimes, round_: int = 0) -> MeasuredPoint:
        """Join a point with what was measured of it."""
        return cls(point, times.calls, times.seconds, times.held, round_)

    @property
    def whole(self) -> Estimate:
        """Median of the time until the host had seen the end."""
        return median_of(self.seconds)


def median_of(seconds: FloatArray) -> Estimate:
    """Return the median with its 95 % interval; of fewer than six samples, their range."""
    low, high = median_interval(seconds)
    middle = float(np.median(seconds))
    return Estimate(middle, min(low, middle), max(high, middle))


def write_measured(measured: Sequence[MeasuredPoint], file: BinaryIO) -> None:
    """Write all samples: a row for each point, its samples as lists of seconds."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            **dataclasses.asdict(one.point),
            "round": one.round,
            **{name: getattr(one, name) for name in _TIMES},
        }
        for one in measured
    ]
    table = pa.Table.from_pylist(rows, schema=_schema())

    pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def read_measured(path: Path) -> tuple[MeasuredPoint, ...]:
    """Read what `write_measured` wrote.

    Raises
    ------
    InputError
        If the file is not such a table.
    """
    with fields_of(path, f"run {command('model fit')} again"):
        return tuple(_measured(row, number) for number, row in enumerate(read_rows(path)))


@dataclass(frozen=True, slots=True)
class _Times:
    """The samples of a stored row."""

    calls: tuple[float, ...]
    seconds: tuple[Positive, ...]
    held: tuple[float, ...] | None
    round: int = 0


def _measured(row: dict[str, Any], number: int) -> MeasuredPoint:
    own = {key: row.pop(key) for key in (*_TIMES, "round") if key in row}
    times = build(_Times, own, "rows", number)
    point = build(Point, row, "rows", number)
    count = len(times.seconds)
    held = count if times.held is None else len(times.held)
    if not count or (len(times.calls), held) != (count, count):
        raise FieldError("it has no times, or not as many of each kind", "seconds", "rows", number)
    return MeasuredPoint(
        point,
        np.array(times.calls, np.float64),
        np.array(times.seconds, np.float64),
        None if times.held is None else np.array(times.held, np.float64),
        times.round,
    )


def _schema() -> pa.Schema:
    import pyarrow as pa

    whole = {"h2d_bytes": pa.int64(), "d2h_bytes": pa.int64(), "streams": pa.int32()}
    arrays = {name: pa.int32() for name in ("reads", "writes", "work")}
    # Single precision keeps a ten-millionth of a time.
    times = {name: pa.list_(pa.float32()) for name in _TIMES}
    of_point = {"kind": pa.string(), **whole, **arrays, "held_out": pa.bool_()}
    return pa.schema({**of_point, "round": pa.int32(), **times})


def is_settled(rounds: Sequence[MeasuredPoint]) -> bool:
    """Whether two rounds of a point agree with the fastest."""
    return len(_agreeing(rounds)) >= _ENOUGH


def settle(measured: Iterable[MeasuredPoint]) -> tuple[MeasuredPoint, ...]:
    """Return one entry for each point, with the samples of the rounds that agree.

    A round counts if its median is within `SETTLED` of the fastest round's: whatever happens
    besides takes time, and none gives any.
    """
    return tuple(_joined(_agreeing(rounds)) for rounds in _by_point(measured).values())


def unsettled(measured: Iterable[MeasuredPoint]) -> tuple[Point, ...]:
    """Return the points of several rounds no two of which agree."""
    return tuple(
        point
        for point, rounds in _by_point(measured).items()
        if len(rounds) >= _ENOUGH and not is_settled(rounds)
    )


def disturbed(measured: Iterable[MeasuredPoint]) -> int:
    """Return how many rounds do not count, of all points together."""
    return sum(len(r) - len(_agreeing(r)) for r in _by_point(measured).values())


def _by_point(measured: Iterable[MeasuredPoint]) -> dict[Point, list[MeasuredPoint]]:
    found: dict[Point, list[MeasuredPoint]] = {}
    for one in measured:
        found.setdefault(one.point, []).append(one)
    return found


def _agreeing(rounds: Sequence[MeasuredPoint]) -> list[MeasuredPoint]:
    if rounds[0].point.kind is PointKind.PIN:  # depends on what the system has at hand: all count
        return list(rounds)
    medians = [float(np.median(one.seconds)) for one in rounds]
    most = min(medians) * (1 + SETTLED)
    return [one for one, median in zip(rounds, medians, strict=True) if median <= most]


def _joined(rounds: Sequence[MeasuredPoint]) -> MeasuredPoint:
    held = [one.held for one in rounds if one.held is not None]
    return MeasuredPoint(
        rounds[0].point,
        _all(one.calls for one in rounds),
        _all(one.seconds for one in rounds),
        _all(held) if held else None,
        rounds[0].round,
    )


def _all(parts: Iterable[FloatArray]) -> FloatArray:
    return np.concatenate(list(parts))
