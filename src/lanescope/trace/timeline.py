"""What a watched program moved, when: counters and operations on one clock.

All times are whole nanoseconds since 1970, by the system's clock as it was when lanescope
started and by one that nobody sets from then on; never floats: a double
cannot hold today's time to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np

from lanescope.codec.fields import Bound
from lanescope.trace.codes import (
    PIDS,
    UNKNOWN_THREAD,
    BoolArray,
    DirectionCode,
    IntArray,
    MemoryKind,
    OperationCode,
    among,
)
from lanescope.trace.operations import COLUMNS, Operations
from lanescope.trace.probe import Probe
from lanescope.trace.side_tables import HostCopies, Managed, PythonLines
from lanescope.trace.stored_columns import PIECE, Rows, pieces_of

__all__ = [
    "NVLINK",
    "PCIE",
    "Counters",
    "DirectionCode",
    "MemoryKind",
    "OperationCode",
    "Operations",
    "Probe",
    "Process",
    "Timeline",
]
#: Which links counters are of.
PCIE, NVLINK = "pcie", "nvlink"
LINKS = (PCIE, NVLINK)
CountedLink = Annotated[str, Bound(" or ".join(LINKS), lambda value: value in LINKS)]
#: By what operations are timed: the GPU's clock, or the calls that asked for them.
GPU_CLOCK, CALL_TIMES = "gpu", "calls"
TimedBy = Annotated[str, Bound("gpu or calls", lambda value: value in (GPU_CLOCK, CALL_TIMES))]
_Pid = Annotated[int, Bound("a process id", lambda pid: PIDS[0] <= pid <= PIDS[1])]
#: Of several counters of one GPU the first of these is told: PM sampling has the finest
#: samples, and the driver's throughput is a mean over 20 ms.
PREFERRED = ("pm", "counters", "throughput")
#: Stands for what was asked for in no range.
NO_RANGE = "(in no range)"


@dataclass(frozen=True, slots=True, eq=False)
class Counters:
    """Bytes that crossed the link of one GPU, on the wire, interval by interval.

    Columns are arrays, or of long watches `lanescope.trace.stored_columns.StoredColumn`: work on
    them by `pieces`.

    Attributes
    ----------
    source
        What counted, such as ``pm`` or ``counters``.
    gpu
        The machine's number of the GPU.
    interval_ns
        From sample to sample; where a source had to sample more rarely after a while, from then
        on, so that records before are shorter.
    end_ns
        End of each record; it starts where the one before ends.
    rx_bytes, tx_bytes
        What the GPU received (from the host) and sent, protocol overhead and
        read requests included. Of NVLink: payload alone, over all of the GPU's links together.
    known
        False where nothing is known of a record's interval. The first record
        has no start and is never known.
    lost_samples
        Samples that the source knows to have lost.
    cpu_seconds
        Processor time that the sampler took; None when unknown.
    link
        One of `LINKS`.
    own
        True where the sampler itself used the link; None where it may have at any time.
    """

    source: str
    gpu: int
    interval_ns: int
    end_ns: IntArray
    rx_bytes: IntArray
    tx_bytes: IntArray
    known: BoolArray
    lost_samples: int = 0
    cpu_seconds: float | None = None
    link: str = PCIE
    own: BoolArray | None = None

    def __len__(self) -> int:
        return int(self.end_ns.size)

    @property
    def maybe_own(self) -> BoolArray:
        """Whether the sampler itself may have used the link, record by record."""
        return np.ones(len(self), np.bool_) if self.own is None else self.own

    @property
    def start_ns(self) -> IntArray:
        """Start of each record: the end of the one before; the first starts where it ends."""
        return np.concatenate((self.end_ns[:1], self.end_ns[:-1]))

    def pieces(self, most: int = PIECE) -> Iterator[tuple[slice, IntArray]]:
        """Yield consecutive records, so many at once, each time with their starts.

        The columns of the records are slices, such as ``counters.end_ns[part]``.
        """
        for part in pieces_of(len(self), most):
            if part.start:
                yield part, self.end_ns[part.start - 1 : part.stop - 1]
            else:
                ends = self.end_ns[part]
                yield part, np.concatenate((ends[:1], ends[:-1]))

    def rows(self, chosen: slice) -> Counters:
        """Return consecutive records; the first has lost its start and so is not known."""
        known = self.known[chosen].copy()
        known[:1] = False
        return replace(
            self,
            end_ns=self.end_ns[chosen],
            rx_bytes=self.rx_bytes[chosen],
            tx_bytes=self.tx_bytes[chosen],
            known=known,
            own=None if self.own is None else self.own[chosen],
        )


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the watched program.

    Attributes
    ----------
    command
        Its command line, or what is known of it.
    start_ns, end_ns
        Nanoseconds since 1970; the end is None when it was not seen.
    complete
        Whether its trace was ended in order; False when it was cut off.
    lost_records
        Trace records that were lost, as far as known.
    unfinished
        Operations that the GPU had not done when the process ended; they have no times.
    left_out
        Trace records that were left out for want of room on the disk.
    left_out_kernels, left_out_calls
        How many of those were kernels and calls; the others are copies and the like.
    timed_by
        ``gpu``: operations have the GPU's times. ``calls``: those of the calls, where the GPU's are
        not known.
    traced_until_ns
        From then on CUPTI's trace of the process is missing; None where nothing is known to be.
    calls_after
        Whether its copies from then on are there all the same, as it called for them.
    """

    pid: _Pid
    command: str
    start_ns: int
    end_ns: int | None = None
    complete: bool = True
    lost_records: int = 0
    unfinished: int = 0
    left_out: int = 0
    left_out_kernels: int = 0
    left_out_calls: int = 0
    timed_by: TimedBy = GPU_CLOCK
    traced_until_ns: int | None = None
    calls_after: bool = False

    @property
    def has_call_times(self) -> bool:
        """Whether some of its operations have the times of their calls alone."""
        return self.timed_by == CALL_TIMES or self.calls_after

    def has_times_of_calls(self, operations: Operations) -> BoolArray:
        """Return which operations, of any processes, are its own and have no others."""
        own: BoolArray = np.equal(operations.pid, self.pid) & self.has_call_times
        if self.timed_by == CALL_TIMES or self.traced_until_ns is None:
            return own
        return own & np.greater_equal(operations.call_start_ns, self.traced_until_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Ranges(Rows):
    """Ranges of all processes, one row each; columns of equal length.

    Attributes
    ----------
    pid, thread
        Who opened it, by the numbers of the operating system.
    start_ns, end_ns
        Nanoseconds since 1970; the end is 0 of one that was open when its trace ended.
    pushed
        Whether it was pushed, and so is its thread's alone; else it was started, and is the
        process's.
    name
        Index into `names`.
    names
        Each with its domain before it, as in ``domain:name``, unless that is the default one.
    """

    types: ClassVar[Mapping[str, type[np.generic]]] = {"pushed": np.bool_}
    coded: ClassVar[tuple[str, str]] = ("name", "names")

    pid: IntArray
    thread: IntArray
    start_ns: IntArray
    end_ns: IntArray
    pushed: BoolArray
    name: IntArray
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """All that is known of a watch.

    Attributes
    ----------
    start_ns, end_ns
        When the watch began and ended, nanoseconds since 1970.
    probes
        At most one for each GPU.
    ranges
        NVTX ranges of the processes.
    managed, host_copies
        What managed memory did, and what copies were passed; empty where that was not traced.
    impossible
        How many records were left out as their times cannot be.
    python_lines
        Which lines of Python copies came from; empty where that was not requested.
    damage
        Sentences on what is damaged and was left out.
    """

    start_ns: int
    end_ns: int
    counters: tuple[Counters, ...] = ()
    operations: Operations = field(default_factory=Operations.empty)
    processes: tuple[Process, ...] = ()
    probes: tuple[Probe, ...] = ()
    ranges: Ranges = field(default_factory=Ranges.empty)
    managed: Managed = field(default_factory=Managed.empty)
    host_copies: HostCopies = field(default_factory=HostCopies.empty)
    impossible: int = 0
    python_lines: PythonLines = field(default_factory=PythonLines.empty)
    damage: tuple[str, ...] = ()

    def over(self, link: str) -> tuple[Counters, ...]:
        """Return the counters of one kind of link, of `LINKS`."""
        return tuple(c for c in self.counters if c.link == link)

    @property
    def timed_operations(self) -> Operations:
        """The operations whose times are the GPU's own."""
        untimed = {p.pid for p in self.processes if p.timed_by == CALL_TIMES}
        partly = [p for p in self.processes if p.calls_after and p.pid not in untimed]
        if not untimed and not partly:
            return self.operations
        if not partly and self.operations.values("pid") <= untimed:
            return Operations.empty()

        def timed(rows: Operations) -> BoolArray:
            found = ~among(rows.pid, tuple(untimed))
            for process in partly:
                found &= ~process.has_times_of_calls(rows)
            return found

        return self.operations.where(timed, *COLUMNS)

    @property
    def has_call_times(self) -> bool:
        """Whether some operations have the times of their calls alone."""
        return any(process.has_call_times for process in self.processes)

    @property
    def untraced_spans_ns(self) -> IntArray:
        """When nothing tells what some process copied: begins and ends in turn, ascending.

        Its trace was missing, and its calls were not recorded.
        """
        spans = [
            (p.traced_until_ns, self.end_ns if p.end_ns is None else p.end_ns)
            for p in self.processes
            if p.traced_until_ns is not None and not p.calls_after
        ]
        joined: list[int] = []
        for begin, end in sorted((min(begin, end), end) for begin, end in spans):
            if joined and begin <= joined[-1]:
                joined[-1] = max(joined[-1], end)
            else:
                joined += (begin, end)
        return np.array(joined, np.int64)

    @property
    def seconds(self) -> float:
        """How long the watch lasted."""
        return (self.end_ns - self.start_ns) * 1e-9


def best_counters(timeline: Timeline, gpu: int, link: str = PCIE) -> Counters | None:
    """Return the counters of a GPU's link that are told: the preferred that know anything."""
    own = [c for c in timeline.over(link) if c.gpu == gpu]
    order = {source: i for i, source in enumerate(PREFERRED)}
    own.sort(key=lambda c: (not c.known.any(), order.get(c.source, len(order)), c.interval_ns))
    return own[0] if own else None


class OpenRanges:
    """Tells which range was open when; made once for all pieces of long watches."""

    def __init__(self, ranges: Ranges) -> None:
        pushed, started = ranges.pushed, ~ranges.pushed
        self._pushed = {
            (pid, thread): _Steps.of(
                ranges, pushed & (ranges.pid == pid) & (ranges.thread == thread)
            )
            for pid, thread in _distinct(ranges.pid[pushed], ranges.thread[pushed])
        }
        self._started = {
            pid: _Steps.of(ranges, started & (ranges.pid == pid))
            for pid in np.unique(ranges.pid[started]).tolist()
        }
        numbers = {name: number for number, name in enumerate(dict.fromkeys(ranges.names), 1)}
        code = np.array([numbers[name] for name in ranges.names], np.int64)
        #: Names, of which the first stands for no range.
        self.names = ["", *numbers]
        self._told = np.append(code[ranges.name], 0)  # a row of -1 finds the last

    def rows(self, operations: Operations) -> IntArray:
        """Return the row of the range that each operation was asked for in; -1: none is known.

        That is the range which the calling thread pushed last and had not popped when it made the
        call; else the one that any thread of the process started last and had not ended. Of what
        has no known call, such as a migration, only the latter is known, at its own start.
        """
        found = np.full(len(operations), -1, np.int64)
        if not self._pushed and not self._started:
            return found
        called = operations.call_start_ns > 0
        at_ns = np.where(called, operations.call_start_ns, operations.start_ns)
        by_thread = called & (operations.thread != UNKNOWN_THREAD)
        for (pid, thread), steps in self._pushed.items():
            mine = by_thread & (operations.pid == pid) & (operations.thread == thread)
            found[mine] = steps.open_at(at_ns[mine])
        for pid, steps in self._started.items():
            mine = (found < 0) & (operations.pid == pid)
            found[mine] = steps.open_at(at_ns[mine])
        return found

    def codes(self, operations: Operations) -> IntArray:
        """Return the number of each operation's range among `names`."""
        codes: IntArray = self._told[self.rows(operations)]
        return codes


def _distinct(pid: IntArray, thread: IntArray) -> Iterator[tuple[int, int]]:
    pairs = np.unique(np.stack((pid, thread), axis=1), axis=0)
    yield from (tuple(pair) for pair in pairs.tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Which row of the ranges begun last is open from each time on; -1: none is."""

    times: IntArray
    rows: IntArray

    @staticmethod
    def of(ranges: Ranges, chosen: BoolArray) -> _Steps:
        own = np.flatnonzero(chosen)
        times, inner = _steps(ranges.start_ns[own], ranges.end_ns[own])
        return _Steps(times, np.where(inner >= 0, own[inner], -1))

    def open_at(self, at_ns: IntArray) -> IntArray:
        place = np.searchsorted(self.times, at_ns, "right") - 1
        found: IntArray = np.where(place >= 0, self.rows[place], -1)
        return found


def _steps(start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Return times, and which interval begun last is open from each on; -1: none is.

    Ranges of several domains, and those that one thread starts and another ends, can cross.
    """
    closed = np.flatnonzero(end_ns > 0)
    times = np.concatenate((start_ns, end_ns[closed]))
    events = np.concatenate((np.arange(start_ns.size), ~closed))
    order = np.lexsort((events < 0, times))
    stack: list[int] = []
    ended: set[int] = set()
    inner: list[int] = []
    for event in events[order].tolist():
        if event >= 0:
            stack.append(event)
        else:
            ended.add(~event)
        while stack and stack[-1] in ended:
            ended.discard(stack.pop())
        inner.append(stack[-1] if stack else -1)
    return times[order], np.array(inner, np.int64)


def range_name(domain: str, name: str) -> str:
    """Return how a range is called, with its domain if that has a name."""
    name = name or "(unnamed)"
    return f"{domain}:{name}" if domain else name
