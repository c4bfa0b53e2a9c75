"""Copies and kernels with what they wait for: what a program hands to its GPUs.

The native core runs such a graph (`lanescope.backend.task_graph`), the replay predicts it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
        That the kernel computes with its data in the GPU's memory; of a copy 0.
    reads, writes
        Bytes of mapped host memory that the kernel reads and writes over the link.
    after
        Positions in the graph of tasks on other streams that must have ended before; each is
        an event and a wait for it.
    gpu
        Which GPU.
    pageable
        True for copies whose host memory is not pinned: the calling thread waits for them.
    first, count
        Which of the workload's parts it is about: from ``first`` on ``count`` of them.
    array
        Which of the arrays of its direction is copied.
    """

    kind: TaskKind
    stream: int = 0
    bytes: int = 0
    seconds: float = 0.0
    reads: int = 0
    writes: int = 0
    after: tuple[int, ...] = ()
    gpu: int = 0
    pageable: bool = False
    first: int = 0
    count: int = 1
    array: int = 0


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
