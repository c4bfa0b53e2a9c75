"""Times the points of a fit on a GPU of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lanescope._core import native
from lanescope.backend.task_graph import (
    TaskTimes,
    copy_task,
    kernel_task,
    measure_graph,
    native_errors,
    near_cpu,
)
from lanescope.machine import Machine
from lanescope.model.overlap.tasks import TaskKind
from lanescope.model.transfer.patterns import pattern_of
from lanescope.model.transfer.points import LONG_BYTES, MOST_BYTES, Kind, Point, pieces
from lanescope.model.transfer.samples import Measured
from lanescope.model.transfer.settling import is_settled

_DOUBLE = 8
#: Over all points; and over those on which these do not agree.
ROUNDS, _MOST_REPEATS = 2, 2
_HELD = (Kind.COPIES, Kind.LAUNCHES, Kind.EVENTS)


class TransferBench:
    """The memory and the streams by which points are timed.

    Raises
    ------
    NotMeasuredError
        If the GPU or the host has no room for two arrays of 1 GiB, or does not answer.
    """

    def __init__(self, machine: Machine, gpu: int) -> None:
        self._topology = native.Topology()
        self._cpus = near_cpu(machine, gpu)
        with native_errors():
            self._pinned = self._memory(gpu, [MOST_BYTES, *[LONG_BYTES] * 2], pageable=False)
            self._pageable = self._memory(gpu, [LONG_BYTES], pageable=True)

    def _memory(self, gpu: int, sizes: list[int], *, pageable: bool) -> native.TaskMemory:
        return native.TaskMemory(
            self._topology, gpu, sizes, sizes, pageable=pageable, cpus=self._cpus
        )

    def measure(self, point: Point, budget_seconds: float) -> TaskTimes:
        """Time a point for about so long.

        Raises
        ------
        NotMeasuredError
            If the GPU does not do it.
        """
        with native_errors():
            return measure_graph(self._graph(point), budget_seconds, held=_is_held(point))

    def _graph(self, point: Point) -> native.TaskGraph:
        tasks = list(_TASKS[point.kind](point))
        if point.kind in (Kind.EXPLICIT_MAPPED, Kind.MAPPED):
            return native.moving_graph(
                self._topology,
                self._pinned,
                tasks,
                point.reads,
                point.writes,
                reads_copies=point.kind is Kind.EXPLICIT_MAPPED,
                cpus=self._cpus,
            )
        memory = self._pageable if point.kind is Kind.PAGEABLE else self._pinned
        return native.busy_graph(self._topology, memory, tasks, cpus=self._cpus)


def measure_all(
    bench: TransferBench, points: Sequence[Point], budget_seconds: float
) -> Iterator[Measured]:
    """Time points in two rounds, for about so long each in all, the second one backwards.

    What others do to the host's memory meanwhile does not last, mostly: points whose rounds
    differ by more than `SETTLED` are timed up to twice more.
    """
    rounds: dict[Point, list[Measured]] = {point: [] for point in points}
    for round_ in range(ROUNDS):
        for point in points[:: 1 if round_ % 2 == 0 else -1]:
            one = Measured.of(point, bench.measure(point, budget_seconds / 2), round_)
            rounds[point].append(one)
            yield one
    for round_ in range(ROUNDS, ROUNDS + _MOST_REPEATS):
        for point, known in rounds.items():
            if not is_settled(known):
                one = Measured.of(point, bench.measure(point, budget_seconds / 2), round_)
                known.append(one)
                yield one


def _is_held(point: Point) -> bool:
    """Whether the device is timed alone, too: where calls may take longer than it does."""
    return point.streams > 1 and not point.held_out and point.kind in _HELD


def _one_way(point: Point) -> Iterator[native.TaskSpec]:
    for stream, (begin, size) in enumerate(pieces(point.bytes, point.streams)):
        yield copy_task(point.h2d_bytes > 0, begin, size, stream=stream)


def _both_ways(point: Point) -> Iterator[native.TaskSpec]:
    for task in pattern_of(point).tasks:
        if task.kind is TaskKind.KERNEL:
            begin = point.d2h_bytes * task.first // point.streams
            first, count = begin // _DOUBLE, task.writes // _DOUBLE
            yield kernel_task(first, count, stream=task.stream, after=task.after)
        else:
            down = task.kind is TaskKind.H2D
            total = point.h2d_bytes if down else point.d2h_bytes
            begin = total * task.first // point.streams
            yield copy_task(down, begin, task.bytes, stream=task.stream, after=task.after)


def _in_place(point: Point) -> Iterator[native.TaskSpec]:
    yield kernel_task(0, point.bytes // (point.reads + point.writes) // _DOUBLE)


def _launches(point: Point) -> Iterator[native.TaskSpec]:
    for _ in range(point.streams):
        yield kernel_task()


def _in_turns(point: Point) -> Iterator[native.TaskSpec]:
    for place in range(point.streams):
        yield kernel_task(stream=place % 2, after=[place - 1] if place else [])


_TASKS: dict[Kind, Callable[[Point], Iterator[native.TaskSpec]]] = {
    Kind.COPIES: _one_way,
    Kind.PAGEABLE: _one_way,
    Kind.DUPLEX: _both_ways,
    Kind.EXPLICIT_MAPPED: _both_ways,
    Kind.MAPPED: _in_place,
    Kind.LAUNCHES: _launches,
    Kind.EVENTS: _in_turns,
}
