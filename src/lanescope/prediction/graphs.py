"""Graphs of tasks, and what a replay of one says: times, and the critical path to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from lanescope.calls import checked
from lanescope.errors import InputError, argument
from lanescope.prediction.parameters import Direction, HostBuffer
from lanescope.prediction.predictor import STREAMED, Method, Workload

#: More calls than a program hands over in a round, and than are replayed in a few seconds.
MOST_TASKS = 20_000
#: The task that decided when something could begin, and when that was in seconds; None for the
#: task: the host's call, or the very begin.
Cause = tuple[int | None, float]


class TaskKind(StrEnum):
    """What keeps which part of the machine busy."""

    H2D = "h2d"
    D2H = "d2h"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class Task:
    """One call of the host: a copy or a kernel.

    Attributes
    ----------
    kind
        A copy in one of the directions, or a kernel.
    stream
        Tasks of the same GPU and stream run one after the other, in the order of the graph.
    bytes
        That are copied; of a kernel 0.
    seconds
        That the kernel computes with its data in the GPU's memory, as its share of the GPU's
        whole throughput; of a copy 0.
    alone
        That it takes then with nothing else running: more than `seconds` where it does not fill the
        GPU. 0: `seconds`.
    steps
        Of a kernel on mapped memory, see `Workload.steps`.
    reads, writes
        Bytes of mapped host memory that the kernel reads and writes over the link.
    after
        Positions in the graph of tasks on other streams that must have ended before; each is
        an event and a wait for it.
    gpu
        Which GPU.
    memory
        The host's memory that is copied.
    first, count
        Which of the workload's parts it is about: from ``first`` on ``count`` of them.
    array
        Which of the arrays of its direction is copied.
    """

    kind: TaskKind
    stream: int = 0
    bytes: int = 0
    seconds: float = 0.0
    alone: float = 0.0
    steps: float | None = None
    reads: int = 0
    writes: int = 0
    after: tuple[int, ...] = ()
    gpu: int = 0
    memory: HostBuffer = HostBuffer.PINNED
    first: int = 0
    count: int = 1
    array: int = 0

    @property
    def pageable(self) -> bool:
        """Whether the host's memory is not pinned: the calling thread waits for the copy."""
        return self.memory is not HostBuffer.PINNED


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """Tasks in the order in which one host thread hands them over.

    A task waits for the one before it on its stream, and for those in `Task.after`, which
    stand before it in the graph.
    """

    tasks: tuple[Task, ...]

    def __post_init__(self) -> None:
        for place, task in enumerate(self.tasks):
            if any(not 0 <= before < place for before in task.after):
                raise ValueError(f"task {place} waits for one that does not stand before it")


class Order(StrEnum):
    """In which order the host hands over the parts of a round."""

    DEPTH = "depth-first"
    """All of one part, then all of the next."""
    BREADTH = "breadth-first"
    """All copies in, then all kernels, then all copies back."""


@checked
def graph_for(
    workload: Workload,
    method: Method,
    streams: int = 1,
    *,
    parts: int | None = None,
    order: Order = Order.DEPTH,
) -> TaskGraph:
    """Return the tasks of one round.

    Parameters
    ----------
    streams
        Of methods that have streams; the others take one.
    parts
        Units that `Task.first` and `Task.count` count in, such as the levels of a grid; bytes
        are in proportion. By default as many as the workload can be cut into, or else as
        there are streams.
    order
        Of independent parts. Parts that need one another are handed over breadth-first.

    Raises
    ------
    InputError
        If the workload is impossible, cannot be cut into so many parts, or takes more than
        `MOST_TASKS`.
    """
    _check(workload)
    _require_few(workload, streams if method in STREAMED else 1)
    if parts is not None and parts < 1:
        raise InputError(f"a workload is not cut into {parts} parts; give 1 or more")
    if method not in STREAMED:
        return _whole(workload, method, parts or workload.most_streams or 1)
    units = parts or workload.most_streams or streams
    most = min(units, workload.most_streams or units)
    if not 1 <= streams <= most:
        raise InputError(f"{streams} streams: this workload can be cut into 1 to {most} parts")
    make = _Parts(workload, _cut(units, streams), units, mapped=method is Method.HYBRID)
    if workload.needs_previous or workload.returns_later:
        order = Order.BREADTH
    return make.breadth_first() if order is Order.BREADTH else make.depth_first()


def on_gpus(graph: TaskGraph, gpus: Sequence[int]) -> TaskGraph:
    """Return the same tasks for each of these GPUs, handed over in turn by one thread."""
    tasks: list[Task] = []
    for task in graph.tasks:
        for place, gpu in enumerate(gpus):
            after = tuple(before * len(gpus) + place for before in task.after)
            tasks.append(replace(task, gpu=gpu, after=after))
    return TaskGraph(tuple(tasks))


def _check(workload: Workload) -> None:
    if workload.h2d_arrays < 1 or workload.d2h_arrays < 1:
        raise InputError("the bytes of a direction lie in one array or more")
    if not 0 <= workload.returns_later <= workload.d2h_arrays:
        raise InputError("no more arrays can return later than there are arrays that go back")


def task_count(workload: Workload, streams: int) -> int:
    """Return how many copies and kernels a round in so many parts has at most."""
    return streams * (workload.h2d_arrays + workload.d2h_arrays + 1)


def _require_few(workload: Workload, streams: int) -> None:
    tasks = task_count(workload, streams)
    if tasks > MOST_TASKS:
        raise InputError(
            f"{tasks} copies and kernels in each round are too many to be replayed one by one; "
            f"give fewer arrays or streams, {MOST_TASKS} in all, or predict by the equations "
            f"({argument.predictor} equations)"
        )


def _cut(units: int, streams: int) -> list[tuple[int, int]]:
    """First unit and count of units of each part; the first parts have one more."""
    each, more = divmod(units, streams)
    cut, first = [], 0
    for part in range(streams):
        count = each + (part < more)
        cut.append((first, count))
        first += count
    return cut


def _slice(total: int, first: int, count: int, units: int) -> int:
    """Bytes of some units of a total; all of them together are the total."""
    return total * (first + count) // units - total * first // units


def _copies(
    workload: Workload, kind: TaskKind, part: tuple[int, int], units: int, stream: int = 0
) -> Iterator[Task]:
    """One copy for each array of a direction; none where another part has them all."""
    first, count = part
    to_gpu = kind is TaskKind.H2D
    total = workload.h2d_bytes if to_gpu else workload.d2h_bytes
    arrays = workload.h2d_arrays if to_gpu else workload.d2h_arrays
    if total == 0 or not count:
        return
    for array in range(arrays):
        size = _slice(_slice(total, array, 1, arrays), first, count, units)
        yield Task(kind, stream, size, first=first, count=count, array=array)


def _whole(workload: Workload, method: Method, units: int) -> TaskGraph:
    kernel = Task(TaskKind.KERNEL, seconds=workload.kernel_seconds, count=units)
    if method is Method.IMPLICIT:
        reads = round(workload.h2d_bytes * workload.mapped_reads)
        writes = round(workload.d2h_bytes * workload.mapped_writes)
        return TaskGraph((replace(kernel, reads=reads, writes=writes, steps=workload.steps),))
    tasks = (
        *_copies(workload, TaskKind.H2D, (0, units), units),
        *((kernel,) if workload.has_kernel else ()),
        *_copies(workload, TaskKind.D2H, (0, units), units),
    )
    if method is Method.PAGEABLE:
        tasks = tuple(
            task
            if task.kind is TaskKind.KERNEL
            else replace(task, memory=workload.pageable(Direction(task.kind.value)))
            for task in tasks
        )
    return TaskGraph(tasks)


@dataclass
class _Parts:
    """Makes the tasks of a round that is cut into parts, part i on stream i."""

    workload: Workload
    cut: list[tuple[int, int]]
    units: int
    mapped: bool
    tasks: list[Task] = field(default_factory=list)
    last_copy: dict[int, int] = field(default_factory=dict)
    kernel: dict[int, int] = field(default_factory=dict)

    def depth_first(self) -> TaskGraph:
        for part in range(len(self.cut)):
            self._copy_in(part)
            self._compute(part)
            self._copy_back(part)
        return TaskGraph(tuple(self.tasks))

    def breadth_first(self) -> TaskGraph:
        for step in (self._copy_in, self._compute, self._copy_back):
            for part in range(len(self.cut)):
                step(part)
        return TaskGraph(tuple(self.tasks))

    def _copy_in(self, part: int) -> None:
        # A GPU takes copies of different streams in an order of its own (so an H200 did). Where a
        # part needs the one before, waiting for that one's copies keeps them in order.
        after: tuple[int, ...] = ()
        if self.workload.needs_previous and part - 1 in self.last_copy:
            after = (self.last_copy[part - 1],)
        copied = self._copied(part, self.workload.h2d_copies(len(self.cut)), whole=0)
        for task in _copies(self.workload, TaskKind.H2D, copied, self.units, part):
            self.last_copy[part] = len(self.tasks)
            self.tasks.append(replace(task, after=after) if after else task)
            after = ()

    def _compute(self, part: int) -> None:
        if not (self.workload.has_kernel or self.mapped or self.workload.returns_later):
            return
        first, count = self.cut[part]
        writes = 0
        if self.mapped:
            total = round(self.workload.d2h_bytes * self.workload.mapped_writes)
            writes = _slice(total, first, count, self.units)
        self.kernel[part] = len(self.tasks)
        share = count / self.units
        alone = self.workload.part_seconds(share)
        seconds = min(self.workload.kernel_seconds * share, alone)
        self.tasks.append(
            Task(
                TaskKind.KERNEL,
                part,
                seconds=seconds,
                alone=alone,
                writes=writes,
                first=first,
                count=count,
                after=self._input(part),
            )
        )

    def _copied(self, part: int, copies: int, whole: int) -> tuple[int, int]:
        """Return the units that are copied with a part; all of them with `whole` if uncut."""
        if copies == len(self.cut):
            return self.cut[part]
        return (0, self.units) if part == whole else (0, 0)

    def _input(self, part: int) -> tuple[int, ...]:
        """Return the copy on another part's stream that a kernel waits for."""
        uncut = self.workload.h2d_bytes and self.workload.h2d_copies(len(self.cut)) == 1
        return (self.last_copy[0],) if uncut and part else ()

    def _copy_back(self, part: int) -> None:
        if self.mapped:
            return
        last = len(self.cut) - 1
        copied = self._copied(part, self.workload.d2h_copies(len(self.cut)), whole=last)
        copies = list(_copies(self.workload, TaskKind.D2H, copied, self.units, part))
        later = self.workload.returns_later
        # What is complete goes first: on one stream it would wait behind what is not.
        self.tasks += copies[later:]
        after = (self.kernel[part + 1],) if later and part + 1 < len(self.cut) else ()
        self.tasks += [replace(task, after=after) if after else task for task in copies[:later]]


@dataclass(frozen=True, slots=True)
class CriticalStep:
    """A piece of the critical path.

    Attributes
    ----------
    task
        Position in the graph of the task that the time goes to; None for the host's calls.
    what
        ``h2d``, ``d2h``, ``kernel`` or ``calls``; of a kernel that moves mapped memory what of it
        ended last.
    begin, end
        In seconds from the first call. The steps follow each other without a gap.
    """

    task: int | None
    what: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Replayed:
    """One round, replayed. All times in seconds from the first call.

    Attributes
    ----------
    graph
        What was replayed.
    seconds
        Until the host has made all calls and seen the end of all tasks.
    called
        When the call of each task returned, or for pageable copies, was made.
    begin, end
        When the server of each task began with it, and when it was done.
    seen
        When the host could see the end.
    busy
        Seconds by server: ``calls``, and for each GPU such as ``g0 h2d``, ``g0 d2h``, ``g0 copy``
        (one engine for both), ``g0 kernel``.
    critical
        What the time went to, from the first call to the end.
    """

    graph: TaskGraph
    seconds: float
    called: tuple[float, ...]
    begin: tuple[float, ...]
    end: tuple[float, ...]
    seen: tuple[float, ...]
    busy: Mapping[str, float]
    critical: tuple[CriticalStep, ...]

    def critical_seconds(self) -> dict[str, float]:
        """Return the seconds of the critical path by what they go to."""
        spent = dict.fromkeys(("h2d", "d2h", "kernel", "calls"), 0.0)
        for step in self.critical:
            spent[step.what] += step.end - step.begin
        return spent

    @property
    def busiest(self) -> str:
        """What most of the critical path goes to."""
        spent = self.critical_seconds()
        return max(spent, key=spent.__getitem__)


def critical_path(
    seconds: float,
    last: int | None,
    resumed: Cause,
    because: Sequence[Cause],
    called_since: Sequence[Cause],
    what: Callable[[int], str],
) -> tuple[CriticalStep, ...]:
    """Walk back from the end, from each step to what let it begin.

    Parameters
    ----------
    seconds
        When all ended.
    last
        The task whose end the host saw then; None: its own calls took longer.
    resumed
        Since when the host has made its last calls, and the pageable copy that let it.
    because
        For each task what let it begin.
    called_since
        For each task since when the host made calls without being held, and what had held it.
    what
        Tells of each task what it is, see `CriticalStep`.
    """
    steps: list[CriticalStep] = []

    def note(task: int | None, kind: str, begin: float, end: float) -> None:
        if end > begin:
            steps.append(CriticalStep(task, kind, begin, end))

    until, task = seconds, last
    if task is None:
        task, since = resumed
        note(None, "calls", since, until)
        until = since
    while task is not None:
        cause, since = because[task]
        note(task, what(task), since, until)
        until = since
        if cause is None:
            cause, since = called_since[task]
            note(None, "calls", since, until)
            until = since
        task = cause
    return tuple(steps[::-1])
