"""Operations of one process on one GPU, in the order in which its threads submitted them.

The watch itself holds a program up by reading what its copies carry: that time is found here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lanescope.trace.codes import (
    BoolArray,
    CodeArray,
    DirectionCode,
    IntArray,
    MemoryKind,
    OperationCode,
)
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import union
from lanescope.trace.side_tables import HostCopies

#: Begins and ends.
_Spans = tuple[IntArray, IntArray]
#: Of each process and GPU so many operations are looked at from the first on, and as many
#: before the last: 30 MB of columns. What lies between is only counted, in bytes.
MOST_OPERATIONS = 100_000
#: A process and a GPU.
_LaneOf = tuple[int, int]
#: Returns a number for each operation.
Numbers = Callable[[Operations], tuple[IntArray, IntArray]]
#: What an operation is to a phase.
IN, OUT, WORK = 0, 1, 2
#: To read fewer bytes takes no time that counts; nanoseconds for one where no calls tell: they took
#: 0.07 to 0.20 in the watches under benchmarks/results/h100-x1/advise.
_LEAST_READ, _READS_NS = 64 << 10, 0.1
#: Medians of fewer calls say nothing; of more sizes than this the rest is left as it is.
_FEWEST_READ, _MOST_ALIKE = 3, 256
#: A thread with less of the copied time has no rounds of its own.
_LEAST_SHARE = 0.05
#: Threads copy at the same time where more of the calls begin while another lasts.
_LEAST_AT_ONCE = 0.1


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


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Copies over the link of one GPU, and what it computed, by one process.

    Attributes
    ----------
    parts
        Operations without a hole between them; two parts where the middle is left out.
    bytes_seen, bytes_in_run
        That the copies of the parts moved, and those of the whole watch.
    """

    pid: int
    gpu: int
    parts: tuple[Operations, ...]
    bytes_seen: int
    bytes_in_run: int


@dataclass(slots=True)
class _Ends:
    """The first and the last rows of what is added."""

    most: int
    head: list[Operations] = field(default_factory=list)
    tail: list[Operations] = field(default_factory=list)
    moved: int = 0
    cut: bool = False

    def add(self, rows: Operations) -> None:
        self.moved += int(rows.bytes[is_over_link(rows)].sum())
        room = self.most - sum(map(len, self.head))
        if room > 0:
            self.head.append(rows.rows(slice(0, room)))
        if len(rows) > room:
            self.tail.append(rows.rows(slice(max(room, 0), len(rows))))
            self._trim()

    def _trim(self) -> None:
        over = sum(map(len, self.tail)) - self.most
        while over > 0:
            first = self.tail.pop(0)
            if len(first) > over:
                self.tail.insert(0, first.rows(slice(over, len(first))))
            over -= len(first)
            self.cut = True

    def parts(self) -> tuple[Operations, ...]:
        if not self.cut:
            return (Operations.concat([*self.head, *self.tail]),)
        return Operations.concat(self.head), Operations.concat(self.tail)


def is_over_link(operations: Operations) -> BoolArray:
    """Return where a copy goes between the host and a GPU."""
    directions = np.isin(operations.direction, (DirectionCode.H2D, DirectionCode.D2H))
    over: BoolArray = directions & operations.is_copy & (operations.bytes > 0)
    return over


def is_work(operations: Operations) -> BoolArray:
    """Return where a GPU worked without its link: kernels, memsets, copies within it."""
    inside = operations.is_copy & (operations.direction == DirectionCode.D2D)
    work: BoolArray = (
        np.isin(operations.what, (OperationCode.KERNEL, OperationCode.MEMSET)) | inside
    )
    return work


def samples(
    operations: Operations, most: int = MOST_OPERATIONS, reading: Reading | None = None
) -> tuple[Sample, ...]:
    """Return what each process had each GPU do, piece by piece of operations of any length.

    What it did while `reading` is left out of all times.
    """
    by_lane: dict[_LaneOf, _Ends] = {}
    idle = _idle(operations, reading) if reading is not None and reading.spans else {}
    for (pid, gpu), rows in _by_lane(operations):
        if (pid, gpu) in idle:
            rows = idle[pid, gpu].left_out(rows, pid)
        by_lane.setdefault((pid, gpu), _Ends(most)).add(rows)
    return tuple(_sample(pid, gpu, ends) for (pid, gpu), ends in sorted(by_lane.items()))


def _by_lane(operations: Operations) -> Iterator[tuple[_LaneOf, Operations]]:
    """Yield what each process had each GPU do, piece by piece."""
    for piece in operations.pieces():
        timed = piece.end_ns >= piece.start_ns
        chosen = (is_over_link(piece) | is_work(piece)) & timed & (piece.start_ns > 0)
        pairs = np.unique(np.stack((piece.pid[chosen], piece.device[chosen])), axis=1)
        for pid, gpu in pairs.T.tolist():
            yield (pid, gpu), piece.rows(chosen & (piece.pid == pid) & (piece.device == gpu))


def _idle(operations: Operations, reading: Reading) -> dict[_LaneOf, Reading]:
    """Return what each process read while each GPU did nothing of it, in any of the pieces."""
    found: dict[_LaneOf, Reading] = {}
    for (pid, gpu), rows in _by_lane(operations):
        found[pid, gpu] = found.get((pid, gpu), reading).of_idle(rows, pid)
    return found


def _sample(pid: int, gpu: int, ends: _Ends) -> Sample:
    parts = ends.parts()
    total = sum(int(part.bytes[is_over_link(part)].sum()) for part in parts)
    return Sample(pid, gpu, parts, total, ends.moved)


@dataclass(frozen=True, slots=True, eq=False)
class OperationLane:
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
    name
        Of a kernel, as in `Operations`.
    thread
        A number of each thread where several copy at the same time; 0 everywhere where one does.
    content
        A number of what a copy carried, which others with the same bytes have, too; 0 where it
        was not read.
    same_bytes
        How many of a copy's bytes the one before it has brought, as in `HostCopies`.
    reading_ns
        What the watch took to read that, in the copy's call, where times are not without it
        already; estimated.
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
    name: IntArray
    thread: IntArray
    content: IntArray
    same_bytes: IntArray
    reading_ns: IntArray

    def __len__(self) -> int:
        return int(self.start_ns.size)

    def rows(self, chosen: slice | BoolArray | IntArray) -> OperationLane:
        """Return some rows, in the same order."""
        return OperationLane(*(getattr(self, name)[chosen] for name in OperationLane.__slots__))


def lanes(
    part: Operations, contents: Numbers, *, work: bool, knows_reading: bool = False
) -> tuple[OperationLane, ...]:
    """Return a lane for each thread that copies, by its streams.

    Submission is in the order of the correlation numbers, which rise from call to call within
    a process; where they are missing, in the order of time. Kernels have no known thread: they
    belong to that which copies on their stream, and where no thread does, to all alike if there
    is one lane, else to none.

    Parameters
    ----------
    contents
        Returns the number of what each operation carried, 0 where that is not known, and how
        many of its bytes were brought before.
    work
        False leaves out what is no copy: without kernels, memsets tell nothing.
    knows_reading
        Whether times are without what the watch took to read copies. Else that is estimated.
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
    lane = _lane(rows, over, stream, contents)
    if not threads.any():
        lane = replace(lane, thread=_at_the_same_time(rows, over, stream))
    if not knows_reading and lane.content.any():
        lane = replace(lane, reading_ns=_reading_ns(lane))
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


def _at_the_same_time(rows: Operations, over: BoolArray, stream: IntArray) -> IntArray:
    """Return the thread of each row where threads copy at once, as those made anew each round.

    A kernel is of the thread that copies next on its stream, or else did so last.
    """
    found = np.zeros(len(rows), np.int64)
    copies = np.flatnonzero(over & (rows.call_start_ns > 0))
    copies = copies[np.argsort(rows.call_start_ns[copies], kind="stable")]
    begun, thread = rows.call_start_ns[copies], rows.thread[copies]
    ended = np.maximum.accumulate(rows.call_end_ns[copies])
    at_once = (begun[1:] < ended[:-1]) & (thread[1:] != thread[:-1])
    if np.count_nonzero(at_once) <= _LEAST_AT_ONCE * copies.size:
        return found
    for one in np.unique(stream).tolist():
        mine = np.flatnonzero(stream == one)
        of_stream = mine[over[mine]]
        if of_stream.size:
            behind = np.searchsorted(of_stream, mine).clip(max=of_stream.size - 1)
            found[mine] = rows.thread[of_stream[behind]]
    return found


def _lane(rows: Operations, over: BoolArray, stream: IntArray, contents: Numbers) -> OperationLane:
    down = rows.direction == DirectionCode.H2D
    kind = np.where(over, np.where(down, IN, OUT), WORK).astype(np.int8)
    return OperationLane(
        kind,
        rows.start_ns,
        rows.end_ns,
        rows.bytes,
        rows.host_memory,
        rows.asynchronous,
        stream,
        rows.call_start_ns,
        rows.call_end_ns,
        rows.name,
        np.zeros(len(rows), np.int64),
        *contents(rows),
        np.zeros(len(rows), np.int64),
    )


def _reading_ns(lane: OperationLane) -> IntArray:
    """Return what the watch took to read what copies carried, which is in the time of their calls.

    It is known where calls of like copies that were not read took less time, and where pageable
    memory was copied to the GPU, as such a call else returns with its copy. Of others it is what a
    byte of these took. A copy that its call waits for had ended before.
    """
    lasted = lane.call_end_ns - lane.call_start_ns
    pageable = lane.memory == MemoryKind.PAGEABLE
    behind = np.where(~lane.asynchronous | pageable, lane.call_end_ns - lane.end_ns, lasted)
    looked_at = (lane.kind <= OUT) & (lane.call_start_ns > 0) & (lane.bytes >= _LEAST_READ)
    rows = np.flatnonzero(looked_at)
    read = lane.content[rows] > 0
    found = np.zeros(len(lane))
    unknown, rates = np.zeros(len(lane), np.bool_), []
    for mine in _alike(lane, rows):
        with_, without = rows[mine & read], rows[mine & ~read]
        if min(with_.size, without.size) >= _FEWEST_READ:
            longer = float(np.median(lasted[with_]) - np.median(lasted[without]))
        elif with_.size and lane.kind[with_[0]] == IN and pageable[with_[0]]:
            longer = float(np.median(behind[with_]))
        else:
            unknown[with_] = True
            continue
        if with_.size:
            found[with_] = max(longer, 0.0)
            rates.append(max(longer, 0.0) / int(lane.bytes[with_[0]]))
    found[unknown] = lane.bytes[unknown] * (float(np.median(rates)) if rates else _READS_NS)
    return np.minimum(np.maximum(behind, 0), found).astype(np.int64)


def _alike(lane: OperationLane, rows: IntArray) -> Iterator[BoolArray]:
    """Yield which of the rows are of one size, direction and memory."""
    columns = (lane.kind, lane.bytes, lane.memory, lane.asynchronous)
    keys = np.stack([column[rows].astype(np.int64) for column in columns], axis=1)
    kinds, inverse = np.unique(keys, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    for number in range(min(len(kinds), _MOST_ALIKE)):
        yield inverse == number
