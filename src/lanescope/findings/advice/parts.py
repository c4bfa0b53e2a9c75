"""Copies of data of which only a part has changed: what they cost where that alone is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lanescope.findings.advice.lanes import IN
from lanescope.findings.advice.schedule import Task
from lanescope.trace.codes import MemoryKind

#: What a copy of a few bytes lasts at least.
_SHORTEST_NS = 2_000
#: To gather: nanoseconds for a byte (5 GB/s, one thread).
BYTE_NS = 0.2
#: Bytes a nanosecond (GB/s) that one thread of the host copies, from and to, and the least bytes
#: for which that is assumed.
STAGED_RATES, STAGED_BYTES = (2.0, 25.0), 1 << 20


def changed_part(task: Task) -> Task:
    """Return the copy of what has changed of a copy's data, which the host gathers."""
    share = task.fresh / task.bytes
    staged = task.staged or is_staged(task)
    in_call = task.memory is MemoryKind.PAGEABLE and not task.blocks
    return replace(
        task,
        bytes=task.fresh,
        lasts=max(task.lasts * share, min(task.lasts, _SHORTEST_NS)),
        gap=task.gap * (share if staged else 1) + BYTE_NS * task.fresh,
        hold=task.hold * (share if in_call else 1),
    )


def pays(tasks: Iterable[Task]) -> bool:
    """Whether to gather what has changed takes less than to copy the rest."""
    return sum(_taken(changed_part(task)) - _taken(task) for task in tasks) < 0


def _taken(task: Task) -> float:
    """Return what a copy takes; the host may stay in its call for as long."""
    return task.gap + max(task.lasts, task.hold)


def is_staged(task: Task, least: int = STAGED_BYTES) -> bool:
    """Whether the pause before a copy to the GPU is as long as copying its data on the host."""
    slowest, fastest = STAGED_RATES
    large = task.kind == IN and task.bytes >= least
    return large and slowest * task.gap <= task.bytes <= fastest * task.gap
