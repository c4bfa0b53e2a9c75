"""What threads and GPUs spent their time with: in calls that copy, computing, copying, idle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lanescope.trace.attribution import groups_of
from lanescope.trace.codes import BoolArray, DirectionCode, IntArray, MemoryKind, among
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import covered_ns, union
from lanescope.trace.timeline import Process, Timeline

#: Of so many processes, those that were in such calls for longest.
_MOST_PROCESSES = 3

#: Process, thread, direction and kind of host memory.
_Key = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Path:
    """Calls of a thread that copy one way, to or from one kind of host memory.

    Attributes
    ----------
    direction, memory
        Such as ``h2d`` and ``pageable``; the memory is None between GPUs.
    count, total_bytes, seconds
        The calls, what they copied, and the time in them.
    """

    direction: str
    memory: str | None
    count: int
    total_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class InCopies:
    """How long the thread of a process that copies most was in calls that copy.

    Attributes
    ----------
    share
        Of the watch.
    paths
        That with the most time first.
    """

    pid: int
    command: str
    thread: int
    seconds: float
    share: float
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class GpuTime:
    """What a GPU did from its first to its last copy over its link, or kernel, in seconds.

    Attributes
    ----------
    seconds
        From the start of the first to the end of the last.
    computing, copying, either
        With a kernel, with a copy, with one of them at least.
    kernels, copies
        How many there were.
    """

    gpu: int
    seconds: float
    computing: float
    copying: float
    either: float
    kernels: int
    copies: int

    @property
    def both(self) -> float:
        """Seconds with a kernel and a copy at the same time."""
        return self.computing + self.copying - self.either

    @property
    def only_copying(self) -> float:
        """Seconds with a copy and no kernel."""
        return self.either - self.computing


def in_copies(timeline: Timeline) -> tuple[InCopies, ...]:
    """Return the time in calls of each process's busiest thread, the longest first.

    A call that makes several copies, such as the launch of a graph, counts once.
    """
    if timeline.seconds <= 0:
        return ()
    found: dict[_Key, list[int]] = {}
    of_paths, of_threads = _Covered(), _Covered()
    for piece in timeline.operations.pieces():
        rows = piece.rows(_called(piece))
        if not len(rows):
            continue
        names = [
            column.astype(np.int64)
            for column in (rows.pid, rows.thread, rows.direction, rows.host_memory)
        ]
        _add(found, names, (np.ones(len(rows), np.int64), rows.bytes))
        of_paths.add(names, rows.call_start_ns, rows.call_end_ns)
        of_threads.add(names[:2], rows.call_start_ns, rows.call_end_ns)
    threads: dict[tuple[int, int], list[Path]] = {}
    for (pid, thread, direction, memory), (count, size) in found.items():
        kind = MemoryKind(memory).label if memory else None
        seconds = of_paths.seconds((pid, thread, direction, memory))
        path = Path(DirectionCode(direction).label, kind, count, size, seconds)
        threads.setdefault((pid, thread), []).append(path)
    return _busiest(threads, of_threads, timeline.processes, timeline.seconds)


class _Covered:
    """How long the calls of each key lasted; those that overlap count once.

    They come piece by piece, and overlap with those of the same piece and of the one before.
    """

    def __init__(self) -> None:
        self._ns: dict[tuple[int, ...], int] = {}
        self._before: dict[tuple[int, ...], tuple[IntArray, IntArray]] = {}

    def add(self, names: Sequence[IntArray], start_ns: IntArray, end_ns: IntArray) -> None:
        """Add the calls of a piece, whose keys are the rows of `names`."""
        keys, group = groups_of(names)
        order = np.argsort(group, kind="stable")
        cuts = np.cumsum(np.bincount(group, minlength=len(keys)))[:-1]
        now: dict[tuple[int, ...], tuple[IntArray, IntArray]] = {}
        for key, rows in zip(map(tuple, keys.tolist()), np.split(order, cuts), strict=True):
            now[key] = union(start_ns[rows], end_ns[rows])
            added = _lasted(now[key])
            if before := self._before.get(key):
                both = [np.concatenate(pair) for pair in zip(before, now[key], strict=True)]
                added = _lasted(union(*both)) - _lasted(before)
            self._ns[key] = self._ns.get(key, 0) + added
        self._before = now

    def seconds(self, key: tuple[int, ...]) -> float:
        """Return the time in all calls of a key."""
        return self._ns[key] * 1e-9


def _lasted(intervals: tuple[IntArray, IntArray]) -> int:
    start_ns, end_ns = intervals
    return int((end_ns - start_ns).sum())


def _busiest(
    threads: dict[tuple[int, int], list[Path]],
    covered: _Covered,
    processes: Sequence[Process],
    watched: float,
) -> tuple[InCopies, ...]:
    commands = {process.pid: process.command for process in processes}
    best: dict[int, InCopies] = {}
    for (pid, thread), paths in threads.items():
        seconds = covered.seconds((pid, thread))
        if pid in best and best[pid].seconds >= seconds:
            continue
        ordered = tuple(sorted(paths, key=lambda path: -path.seconds))
        command = commands.get(pid, "")
        best[pid] = InCopies(pid, command, thread, seconds, seconds / watched, ordered)
    return tuple(sorted(best.values(), key=lambda one: -one.seconds)[:_MOST_PROCESSES])


def _add(
    found: dict[_Key, list[int]], names: Sequence[IntArray], columns: Sequence[IntArray]
) -> None:
    keys, group = groups_of(names)
    sums = np.zeros((len(columns), len(keys)), np.int64)
    for row, column in zip(sums, columns, strict=True):
        np.add.at(row, group, column)
    for key, values in zip(keys.tolist(), sums.T.tolist(), strict=True):
        so_far = found.setdefault(tuple(key), [0] * len(columns))
        found[tuple(key)] = [a + b for a, b in zip(so_far, values, strict=True)]


def _called(o: Operations) -> BoolArray:
    called: BoolArray = o.is_copy & (o.call_start_ns > 0) & (o.call_end_ns > o.call_start_ns)
    return called


def gpu_times(timeline: Timeline) -> tuple[GpuTime, ...]:
    """Return what the GPUs did whose kernels were traced."""
    operations = timeline.timed_operations
    gpus = sorted(operations.values("device", lambda o: o.is_kernel))
    return tuple(_of_gpu(operations, gpu) for gpu in gpus)


def _crosses(o: Operations) -> BoolArray:
    """Copies over a GPU's link."""
    return o.is_copy & among(o.direction, (DirectionCode.H2D, DirectionCode.D2H))


def _of_gpu(operations: Operations, gpu: int) -> GpuTime:
    def covered(chosen: Callable[[Operations], BoolArray]) -> tuple[Operations, float]:
        found = operations.where(chosen, device=gpu)
        return found, covered_ns(found.start_ns, found.end_ns) * 1e-9

    kernels, computing = covered(lambda o: o.is_kernel)
    copies, copying = covered(_crosses)
    both, either = covered(lambda o: _crosses(o) | o.is_kernel)
    end = max(int(piece.end_ns.max()) for piece in both.pieces())
    seconds = (end - int(both.start_ns[0])) * 1e-9
    return GpuTime(gpu, seconds, computing, copying, either, len(kernels), len(copies))
