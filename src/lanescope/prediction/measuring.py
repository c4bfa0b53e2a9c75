"""Times the points of a fit on a GPU of this machine."""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lanescope._core import native
from lanescope.engine.core import (
    TaskTimes,
    copy_task,
    kernel_task,
    measure_graph,
    native_errors,
    near_cpu,
)
from lanescope.machine import Machine
from lanescope.prediction.graphs import TaskKind
from lanescope.prediction.parameters import Direction
from lanescope.prediction.points import (
    LONG_BYTES,
    MOST_BYTES,
    UNCACHED_BYTES,
    MeasuredPoint,
    Point,
    PointKind,
    is_settled,
    one_direction,
    pattern_of,
    pieces,
)
from lanescope.results import FloatArray

_DOUBLE = 8
_BLOCK = 1 << 20  # doubles
#: Over all points; with short ones, of which a moment's disturbance takes all samples of a round;
#: and with those on which these do not agree.
ROUNDS, _SHORT_ROUNDS, _MOST_ROUNDS = 2, 6, 12
_SHORT_SECONDS = 2e-3
#: Of pageable memory in one round.
_FEWEST_COPIES = 5
#: Of pinned memory in one round.
_PINNINGS = 3
#: After so long no further round takes place, and the one that goes on ends.
_ENOUGH_SECONDS = 42.0
#: Copied before the first point: the CPU writes the bytes of such copies itself, and one that was
#: idle is slow at first.
_WARMING = one_direction(Direction.H2D, 20 << 10, 1)
_WARMING_SECONDS = 1.0
_HELD = (PointKind.COPIES, PointKind.LAUNCHES, PointKind.EVENTS)


class TransferBench:
    """The memory and the streams by which points are timed.

    Raises
    ------
    NotMeasuredError
        If the GPU or the host has no room for five arrays of 1 GiB, or does not answer.
    """

    def __init__(self, machine: Machine, gpu: int) -> None:
        self._topology = native.Topology()
        self._gpu, self._cpus = gpu, near_cpu(machine, gpu)
        node = machine.gpu(gpu).node
        self._node = machine.nodes[0].index if node is None else node
        with native_errors():
            self._pinned = self._memory(gpu, [MOST_BYTES, *[LONG_BYTES] * 2], pageable=False)
            self._pageable = self._memory(gpu, [MOST_BYTES], pageable=True)
        self._at = 0

    def _memory(self, gpu: int, sizes: list[int], *, pageable: bool) -> native.TaskMemory:
        memory = native.TaskMemory(
            self._topology, gpu, sizes, sizes, pageable=pageable, cpus=self._cpus
        )
        for index in range(len(sizes)):
            _fill(memory.host_in(index))
        return memory

    def measure(self, point: Point, budget_seconds: float) -> TaskTimes:
        """Time a point for about so long.

        Raises
        ------
        NotMeasuredError
            If the GPU does not do it.
        """
        with native_errors():
            if point.kind is PointKind.PIN:
                return self._pin(point.bytes)
            if point.kind is PointKind.FRESH or (
                point.kind is PointKind.PAGEABLE and point.bytes >= UNCACHED_BYTES
            ):
                return self._measure_elsewhere(point, budget_seconds)
            return measure_graph(self._graph(point), budget_seconds, held=_is_held(point))

    def _measure_elsewhere(self, point: Point, budget_seconds: float) -> TaskTimes:
        """Time copies of pageable memory, each of other memory than the one before."""
        found: list[native.TaskTimes] = []
        end = time.monotonic() + budget_seconds
        while len(found) < _FEWEST_COPIES or time.monotonic() < end:
            begin = self._at if self._at + point.bytes <= MOST_BYTES else 0
            self._at = begin + point.bytes
            if point.kind is PointKind.FRESH:
                _give_back(self._pageable.host_out(0), begin, point.bytes)
            one = copy_task(point.h2d_bytes > 0, begin, point.bytes)
            graph = native.busy_graph(self._topology, self._pageable, [one], cpus=self._cpus)
            found.append(graph.run(1, warm=False)[0])
        calls = np.array([one.call_seconds for one in found])
        return TaskTimes(calls, np.array([one.seconds for one in found]), None)

    def _pin(self, size: int) -> TaskTimes:
        """Time how long the driver takes to give pinned memory; not to take it back."""
        place = native.PlaceSpec(native.Memory.pinned, self._node)
        probe = native.AllocationProbe(
            self._topology, place=place, bytes=size, device=self._gpu, cpus=self._cpus
        )
        seconds = np.array([allocated for allocated, _, _ in probe.run(_PINNINGS)])
        return TaskTimes(seconds, seconds, None)

    def warm_up(self) -> None:
        """Copy for a second, so that the CPU and the link are as they are in use."""
        began = time.monotonic()
        while time.monotonic() - began < _WARMING_SECONDS:
            self.measure(_WARMING, _WARMING_SECONDS)

    def _graph(self, point: Point) -> native.TaskGraph:
        tasks = list(_TASKS[point.kind](point))
        if point.kind in (PointKind.EXPLICIT_MAPPED, PointKind.PACED, PointKind.MAPPED):
            return native.moving_graph(
                self._topology,
                self._pinned,
                tasks,
                point.reads,
                point.writes,
                reads_copies=point.kind is PointKind.EXPLICIT_MAPPED,
                work=point.work,
                cpus=self._cpus,
            )
        pageable = point.kind in (PointKind.PAGEABLE, PointKind.CACHED)
        memory = self._pageable if pageable else self._pinned
        return native.busy_graph(self._topology, memory, tasks, cpus=self._cpus)


def _give_back(values: FloatArray, begin: int, size: int) -> None:
    """Give pages back to the system, so that whoever uses them next gets new ones."""
    libc = ctypes.CDLL(None, use_errno=True)
    first = values.ctypes.data + begin
    aligned = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
    libc.madvise(ctypes.c_void_p(aligned), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


def _fill(values: FloatArray) -> None:
    """Fill an array with numbers as programs have them, of which no two neighbours agree."""
    some = np.random.default_rng(0).standard_normal(_BLOCK)
    for begin in range(0, len(values), _BLOCK):
        values[begin : begin + _BLOCK] = some[: len(values) - begin]


# The fit samples graphs of copies and kernels, whose calls and engine times count beside their
# own: no `Experiment` is one of them, and so `backend.sampling` does not measure them. Its stop
# rule would not do either: one point's samples, taken in a row, agree with each other while
# something disturbs all of them. So points are timed in rounds, and rounds are compared.
def measure_all(
    bench: TransferBench, points: Sequence[Point], budget_seconds: float
) -> Iterator[MeasuredPoint]:
    """Time points in rounds, each for about so long in all.

    What others do to the host's cores and memory comes and goes by seconds. So each round has its
    own order, the same in every fit, short transfers are timed in more rounds, and points whose
    rounds differ by more than `SETTLED` in some more, as far as `_ENOUGH_SECONDS` go.
    """
    began = time.monotonic()
    bench.warm_up()
    rounds: dict[Point, list[MeasuredPoint]] = {point: [] for point in points}

    for round_ in range(_MOST_ROUNDS):
        some = [point for point, known in rounds.items() if _is_due(known, round_)]
        for place in np.random.default_rng(round_).permutation(len(some)):
            if round_ >= ROUNDS and time.monotonic() - began > _ENOUGH_SECONDS:
                return
            point = some[place]
            one = MeasuredPoint.of(
                point, bench.measure(point, budget_seconds / _SHORT_ROUNDS), round_
            )
            rounds[point].append(one)
            yield one


def _is_due(known: Sequence[MeasuredPoint], round_: int) -> bool:
    """Whether a point is timed in a round, by its times in those before."""
    if round_ < ROUNDS:
        return True
    if known[0].point.kind is PointKind.PIN:  # takes long, and is not needed to some percent
        return False
    if round_ < _SHORT_ROUNDS:
        return known[0].whole.value < _SHORT_SECONDS
    return not is_settled(known)


def _is_held(point: Point) -> bool:
    """Whether the device is timed alone, too: where calls may take longer than it does."""
    return point.streams > 1 and not point.held_out and point.kind in _HELD


def _one_direction(point: Point) -> Iterator[native.TaskSpec]:
    for stream, (begin, size) in enumerate(pieces(point.bytes, point.streams)):
        yield copy_task(point.h2d_bytes > 0, begin, size, stream=stream)


def _both_directions(point: Point) -> Iterator[native.TaskSpec]:
    for task in pattern_of(point).tasks:
        if task.kind is TaskKind.KERNEL:
            each = task.writes // max(point.writes, 1)
            yield kernel_task(
                task.first * each // _DOUBLE, each // _DOUBLE, stream=task.stream, after=task.after
            )
        else:
            yield copy_task(
                task.kind is TaskKind.H2D,
                task.first * task.bytes,
                task.bytes,
                stream=task.stream,
                array=task.array,
                after=task.after,
            )


def _paced(point: Point) -> Iterator[native.TaskSpec]:
    if point.h2d_bytes:
        yield copy_task(True, 0, point.h2d_bytes)
    yield kernel_task(0, point.d2h_bytes // _DOUBLE, stream=1)


def _in_place(point: Point) -> Iterator[native.TaskSpec]:
    yield kernel_task(0, point.bytes // (point.reads + point.writes) // _DOUBLE)


def _launches(point: Point) -> Iterator[native.TaskSpec]:
    for _ in range(point.streams):
        yield kernel_task()


def _in_turns(point: Point) -> Iterator[native.TaskSpec]:
    for place in range(point.streams):
        yield kernel_task(stream=place % 2, after=[place - 1] if place else [])


_TASKS: dict[PointKind, Callable[[Point], Iterator[native.TaskSpec]]] = {
    PointKind.COPIES: _one_direction,
    PointKind.PAGEABLE: _one_direction,
    PointKind.CACHED: _one_direction,
    PointKind.FRESH: _one_direction,
    PointKind.DUPLEX: _both_directions,
    PointKind.EXPLICIT_MAPPED: _both_directions,
    PointKind.PACED: _paced,
    PointKind.MAPPED: _in_place,
    PointKind.LAUNCHES: _launches,
    PointKind.EVENTS: _in_turns,
}
