"""What pinned memory makes of a schedule in place of pageable memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from lanescope.findings.advice.lanes import IN, OUT
from lanescope.findings.advice.schedule import (
    PAUSE_NS,
    STAGED_BYTES,
    SUBMITS_NS,
    TOUCHES_NS,
    WAKES_NS,
    Schedule,
    ScheduledTask,
    is_staged,
)
from lanescope.trace.codes import MemoryKind

#: Nanoseconds of a copy of pinned memory, by its kind (`IN`, `OUT`) and bytes.
Lasts = Callable[[int, int], float]
#: So many rounds on streams of their own show that they take turns.
_LEAST_TURNS = 4
#: Results in pinned memory are read faster than those in pageable memory, by so many nanoseconds a
#: byte (benchmarks/model/result_reads.cu); of more than these bytes less stays in the cache, and of
#: as many as the others nothing.
_CACHED_NS, _CACHED_BYTES, _UNCACHED_BYTES = 0.044, 16 << 20, 64 << 20
#: Where large copies show that a library stages, these smaller ones are, too.
_STAGED_WITH = 64 << 10


def staged(tasks: Sequence[ScheduledTask]) -> frozenset[int]:
    """Return the places of copies whose data the library seems to copy into pinned memory first.

    The pause before such a copy is as long as that takes; none where most of the large ones have no
    such pause.
    """
    into = [
        place
        for place, task in enumerate(tasks)
        if task.kind == IN and task.memory is MemoryKind.PINNED and task.bytes >= _STAGED_WITH
    ]
    large = [at for at in into if tasks[at].bytes >= STAGED_BYTES]
    if 2 * sum(is_staged(tasks[at]) for at in large) <= len(large):
        return frozenset()
    return frozenset(at for at in into if is_staged(tasks[at], _STAGED_WITH))


def pin(tasks: Sequence[ScheduledTask], lasts: Lasts) -> list[ScheduledTask]:
    """Return tasks with pinned memory in place of pageable; what waits still does.

    Where the host stages the data itself, it no longer does. The host stays in no asynchronous call
    that copies to the GPU. For copies back it waits at once, but for those that `wait_once` finds,
    and where rounds take turns on streams: there before the stream's next round.
    """
    once = wait_once(tasks)
    tasks = [replace(task, gap=SUBMITS_NS) if task.staged else task for task in tasks]
    queued = {at for at, t in enumerate(tasks) if t.kind == IN and t.queued and is_pageable(t)}
    unblocked = once | queued
    tasks = [
        replace(task, blocks=False) if task.blocks and at in unblocked else task
        for at, task in enumerate(tasks)
    ]
    return [
        replace(
            task,
            memory=MemoryKind.PINNED,
            lag=0.0,
            lasts=lasts(task.kind, task.bytes),
            hold=WAKES_NS if task.blocks else SUBMITS_NS,
        )
        if is_pageable(task)
        else task
        for task in _waits_in_turns(_read_from_cache(tasks))
    ]


def _read_from_cache(tasks: Sequence[ScheduledTask]) -> list[ScheduledTask]:
    """Return tasks whose host reads results of pageable copies as it would those of pinned ones.

    The library stores results past the host's caches, while a GPU writes into the last level of
    them. So what the host does behind copies back takes less, by `_CACHED_NS` a byte for as much as
    stays in the cache, and by half of it at most.
    """
    found: list[ScheduledTask] = []
    all_unread: dict[int, int] = defaultdict(int)  # by thread
    for task in tasks:
        unread = all_unread[task.thread]
        if unread and task.gap >= TOUCHES_NS:
            left = 1 - max(unread - _CACHED_BYTES, 0) / (_UNCACHED_BYTES - _CACHED_BYTES)
            sooner = _CACHED_NS * min(unread, _CACHED_BYTES) * max(left, 0)
            task = replace(task, gap=task.gap - min(sooner, task.gap / 2))
            all_unread[task.thread] = 0
        if task.kind == OUT and is_pageable(task):
            all_unread[task.thread] += task.bytes
        found.append(task)
    return found


def read_sooner_seconds(schedule: Schedule) -> float:
    """Return how much less of a round the host takes for results that it reads of its cache."""
    tasks = schedule.tasks
    less = sum(one.gap - new.gap for one, new in zip(tasks, _read_from_cache(tasks), strict=True))
    return less * 1e-9 / schedule.rounds


def _waits_in_turns(tasks: Sequence[ScheduledTask]) -> list[ScheduledTask]:
    """Return tasks that wait for copies back when their stream is used again, if rounds take turns.

    Calls that are asynchronous, on another stream each round, are those of a program that has
    several rounds in flight; the host stays in them because of pageable memory alone.
    """
    streams: dict[int, set[int]] = defaultdict(set)
    for task in tasks:
        if _is_held_back(task):
            streams[task.round].add(task.stream)
    if not _take_turns(streams):
        return list(tasks)
    found: list[ScheduledTask] = []
    open_: dict[int, ScheduledTask] = {}  # by stream: the last copy back of a round before
    for place, task in enumerate(tasks):
        before = open_.get(task.stream)
        if before is not None and before.round < task.round:
            task = replace(task, awaits=(before.number,))
            del open_[task.stream]
        if _is_held_back(task):
            task = replace(task, blocks=False, number=-1 - place)  # no number of `prefetch`
            open_[task.stream] = task
        found.append(task)
    return found


def _take_turns(streams: Mapping[int, set[int]]) -> bool:
    """Whether rounds with one stream each have another one than the round before."""
    if len(streams) < _LEAST_TURNS or any(len(one) != 1 for one in streams.values()):
        return False
    return all(streams[one] != streams[other] for one, other in pairwise(sorted(streams)))


def wait_once(tasks: Sequence[ScheduledTask]) -> frozenset[int]:
    """Return the places of copies back that a wait for the one behind them covers, once pinned.

    Their calls are asynchronous, and the host stays in them because of the memory alone; it does
    nothing with the data before the next copy.
    """
    return frozenset(
        place
        for place, (one, behind) in enumerate(pairwise(tasks))
        if _is_held_back(one) and _is_held_back(behind)
        and (one.round, one.stream) == (behind.round, behind.stream)
        and not behind.waits and behind.gap < PAUSE_NS
    )  # fmt: skip


def _is_held_back(task: ScheduledTask) -> bool:
    """Whether the host stays in an asynchronous call that copies back for the memory alone."""
    return task.kind == OUT and task.queued and task.blocks and is_pageable(task)


def is_pageable(task: ScheduledTask) -> bool:
    """Whether it copies from or to pageable memory."""
    return task.kind <= OUT and task.memory is MemoryKind.PAGEABLE
