"""Which edits of a phase's schedule are tried, and what the replay says of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial

import numpy as np

from lanescope.errors import NotMeasuredError, argument
from lanescope.findings.advice.advice import Step
from lanescope.findings.advice.changes import (
    comes_back,
    gathering,
    in_place,
    looks_later,
    waited_once,
)
from lanescope.findings.advice.edits import EDITS, Edit, batch, defer, is_small_back, keep, no_time
from lanescope.findings.advice.lanes import IN, OUT, WORK
from lanescope.findings.advice.phase import Phase
from lanescope.findings.advice.pinned import Lasts, is_pageable
from lanescope.findings.advice.resent import AGAIN, Brings
from lanescope.findings.advice.schedule import (
    LEAST_ROUNDS,
    Placed,
    Schedule,
    ScheduledTask,
    ends_after,
    replayed,
)
from lanescope.findings.trace.copies import LOOKED_AT
from lanescope.prediction.costs import single_seconds
from lanescope.prediction.parameters import Direction, LinkParameters
from lanescope.units.estimate import Estimate
from lanescope.units.sizes import size_text
from lanescope.units.words import time_text


@dataclass(frozen=True, slots=True)
class Edited:
    """An edit and its replay; seconds are from round to round."""

    steps: tuple[Step, ...]
    remedy: str
    rounds: int
    before: float
    after: Estimate
    conditions: tuple[str, ...] = ()


#: Gains differ by so much of them from the prediction, besides what rounds differ from run to run
#: (`judge.BETWEEN_RUNS`).
_REPLAY_ERROR = 0.36
#: These gain from one round to the next.
ACROSS_ROUNDS = frozenset((Step.PREFETCH, Step.DEFER))
_TRIED = (
    (Step.PIN,),
    (Step.ASYNC,),
    (Step.PIN, Step.ASYNC),
    (Step.PREFETCH,),
    (Step.PIN, Step.PREFETCH),
    (Step.BATCH,),
    (Step.PIN, Step.BATCH),
    (Step.DEFER,),
    (Step.PIN, Step.DEFER),
    (Step.KEEP,),
    (Step.KEEP, Step.PIN),
    (Step.KEEP, Step.DEFER),
    (Step.MAPPED,),
    (Step.PIN, Step.MAPPED),
)
#: As `EDITS`, but copies back stay whose data need not be sent again.
KEEPS_SENDING: Mapping[str, Edit] = {**EDITS, "keep": partial(keep, back=False)}
_REMEDIES = {
    Step.PIN: "pin the host memory",
    Step.ASYNC: "copy asynchronously, and wait once for many copies: kernels wait for those that "
    "they need",
    Step.PREFETCH: "copy the next round's data in while this one computes and comes back (two "
    "buffers, a stream for the copies)",
    Step.BATCH: "gather the small copies of a round into one, from a pinned buffer",
    Step.DEFER: "leave the few bytes that each round reads back on the GPU, and read those of "
    "many rounds together",
    Step.KEEP: "keep on the GPU what is there already, in place of sending it again",
    Step.MAPPED: "let the kernels read and write mapped host memory, and copy nothing",
}
_LOOKING_LATER = (
    "look at a round's results while the GPU makes the next ones (two pinned buffers, copies that "
    "are waited for one round later)"
)
_UNSTAGED = (
    "keep the data in pinned memory from the beginning (now the host pauses before each copy for "
    "as long as copying the data there takes, which is taken for the reason)"
)


def edits_of(phase: Phase, parameters: LinkParameters) -> Iterator[Edited]:
    """Yield the edits that change something, with what a round takes after each."""
    schedule = phase.schedule
    if schedule is None:
        return
    for steps in _TRIED:
        if schedule.rounds < LEAST_ROUNDS and ACROSS_ROUNDS & set(steps):
            continue
        if not _is_alone(schedule, steps) or (steps == (Step.BATCH,) and _pins_all(schedule)):
            continue
        if steps[-1] is Step.ASYNC and phase.synchronous:
            continue  # the model tells of all calls that wait
        if Step.MAPPED in steps and not in_place(phase, steps):
            continue  # the model tells of more bytes
        if steps == (Step.PIN, Step.DEFER) and not looks_later(phase, steps):
            continue  # few bytes are left on the GPU, wherever they would come to
        try:
            before, after = round_seconds(schedule, edit_of(steps), parameters)
            if Step.KEEP in steps and comes_back(phase):  # perhaps the host needs what comes back
                _, least = round_seconds(schedule, edit_of(steps, KEEPS_SENDING), parameters)
                after = replace(after, high=max(after.high, least.high))
        except NotMeasuredError:
            continue
        needs = _but_for_one(schedule, parameters) if steps == (Step.DEFER,) else ()
        yield Edited(steps, _remedy(steps, phase, schedule), schedule.rounds, before, after, needs)


def _but_for_one(schedule: Schedule, parameters: LinkParameters | None) -> tuple[str, ...]:
    """Return what is gained where the host decides by the smallest of the results that it reads."""
    sizes = {task.bytes for task in schedule.tasks if is_small_back(task)}
    if len(sizes) < 2:
        return ()
    least = min(sizes)
    edit: Edit = partial(defer, but=least)
    if edit(schedule.tasks, no_time) == [*schedule.tasks]:
        return ()
    before, after = round_seconds(schedule, edit, parameters)
    gain = time_text(max(before - after.value, 0.0))
    return (
        f"Where the host decides by the {size_text(least)} alone, read that each time: to leave "
        f"the rest on the GPU gains {gain} of a round.",
    )


def base_seconds(phase: Phase) -> float:
    """Return what a round takes now: from round to round where there is a schedule."""
    schedule = phase.schedule
    if schedule is None:
        return phase.seconds.value
    return _unedited_ns(schedule) / schedule.rounds * 1e-9


@lru_cache(maxsize=16)
def _unedited_ns(schedule: Schedule) -> float:
    """Return what its replay takes as it is."""
    return ends_after(schedule.tasks)


def edit_of(steps: tuple[Step, ...], edits: Mapping[str, Edit] = EDITS) -> Edit:
    """Return all steps as one edit."""

    def edited(tasks: Sequence[ScheduledTask], lasts: Lasts) -> list[ScheduledTask]:
        for step in steps:
            tasks = edits[step](tasks, lasts)
        return list(tasks)

    return edited


def round_seconds(
    schedule: Schedule, edit: Edit, parameters: LinkParameters | None
) -> tuple[float, Estimate]:
    """Return what a round takes before and after an edit, in seconds.

    The interval is that of the copies whose time is predicted, wider by what the replay without
    an edit is off from what was measured, and by `_REPLAY_ERROR` of the gain; it ends at what
    the busiest stream works on what the edit leaves as it is, and at what the bytes of copies that
    are predicted take the link. Where data is fetched ahead the first round, which has none before
    it, does not count.

    Raises
    ------
    NotMeasuredError
        If the parameters lack what the edit needs, or are None and it needs them.
    """
    before = _unedited_ns(schedule)

    def after(lasts: Lasts) -> float:
        tasks = opposed(edit(schedule.tasks, lasts), parameters)
        placed = replayed(tasks)
        end = max((one.end for one in placed), default=0.0)
        if schedule.rounds < LEAST_ROUNDS or not any(task.ahead for task in tasks):
            return end
        first = max((one.end for one in placed if not one.task.round), default=0.0)
        each = (end - first) / (schedule.rounds - 1)
        return max(each * schedule.rounds, _busiest_ns(tasks), _host_ns(tasks))

    value, low, high = (after(predicted_lasts(parameters, end)) for end in _ENDS)
    least = min(_busiest_ns(edit(schedule.tasks, _least_lasts(parameters))), low, value)
    wider = abs(before - schedule.measured_ns) + _REPLAY_ERROR * abs(before - value)
    found = Estimate(value, max(min(low, value) - wider, least, 0.0), max(high, value) + wider)
    scale = 1 / (schedule.rounds * 1e9)
    return before * scale, found.map(lambda nanoseconds: nanoseconds * scale)


def opposed(
    tasks: Sequence[ScheduledTask], parameters: LinkParameters | None
) -> list[ScheduledTask]:
    """Return tasks whose copies take longer for as long as copies go the other way.

    For tasks of a schedule, whose rounds did not overlap as they were measured.
    """
    if parameters is None or parameters.duplex is None:
        return list(tasks)
    both = parameters.duplex
    slower = {
        IN: both.h2d_per_byte.value / parameters.h2d.per_byte.value,
        OUT: both.d2h_per_byte.value / parameters.d2h.per_byte.value,
    }
    placed = replayed(tasks)
    against = {IN: _worked_until(placed, OUT), OUT: _worked_until(placed, IN)}

    def longer(one: Placed) -> ScheduledTask:
        kind = one.task.kind
        if kind not in slower or slower[kind] <= 1:
            return one.task
        shared = against[kind](one.end) - against[kind](one.start)
        return replace(one.task, lasts=one.task.lasts + shared * (slower[kind] - 1))

    return [longer(one) for one in placed]


def _worked_until(placed: Sequence[Placed], kind: int) -> Callable[[float], float]:
    """Return what tells how long tasks of a kind, one after the other, had run at a moment."""
    mine = sorted((one.start, one.end) for one in placed if one.task.kind == kind)
    times = np.array([0.0, *(moment for one in mine for moment in one)])
    worked = np.cumsum([0.0, *(spent for a, b in mine for spent in (0.0, b - a))])
    return lambda moment: float(np.interp(moment, times, worked))


def _busiest_ns(tasks: Sequence[ScheduledTask]) -> float:
    """Return how long the busiest stream works on kernels, or all on copies of a direction."""
    spent: dict[tuple[int, int], float] = defaultdict(float)
    for task in tasks:
        spent[task.stream if task.kind == WORK else 0, task.kind] += task.lasts
    return max(spent.values(), default=0.0)


def _host_ns(tasks: Sequence[ScheduledTask]) -> float:
    """Return what the busiest thread takes for itself, as if it waited for nothing."""
    spent: dict[int, float] = defaultdict(float)
    for task in tasks:
        spent[task.thread] += task.gap + max(task.hold, 0.0)
    return max(spent.values(), default=0.0)


def _remedy(steps: tuple[Step, ...], phase: Phase, schedule: Schedule) -> str:
    is_staged = any(task.staged for task in schedule.tasks)
    words = _REMEDIES | ({Step.PIN: _UNSTAGED} if is_staged else {})
    words |= {Step.DEFER: _LOOKING_LATER} if looks_later(phase, steps) else {}
    words |= {Step.BATCH: gathering(phase) or _REMEDIES[Step.BATCH]}
    if Step.BATCH in steps and _pins_all(schedule):  # the buffer is all that has to be pinned
        steps = tuple(step for step in steps if step is not Step.PIN)
    if Step.KEEP in steps:
        words |= {Step.KEEP: f"{words[Step.KEEP]} ({_needless(phase, schedule)})"}
    once = waited_once(steps, phase)
    if once:
        words |= {
            Step.PIN: f"{words[Step.PIN]}, and wait once for the {once} copies back of a round"
        }
    return ", and ".join(words[step] for step in steps)


def _needless(phase: Phase, schedule: Schedule) -> str:
    """Return in words what copies of a round bring that is on the GPU already."""
    said = (
        (AGAIN, "that brings what was sent before", "that bring what was sent before"),
        (
            (Brings.RETURNED,),
            "that sends back what came from it",
            "that send back what came from it",
        ),
        ((Brings.SENT_BACK,), "back of such data", "back of such data"),
    )
    words = []
    for brings, one, several in said:
        mine = [task.bytes for task in schedule.tasks if task.brings in brings]
        if mine:
            count, each = len(mine) / schedule.rounds, sum(mine) / schedule.rounds
            copies = (
                f"1 copy {one}" if round(count) == 1 else f"{max(count, 1):.3g} copies {several}"
            )
            words.append(f"{copies}, {size_text(round(each))}")
    in_part = [task for task in schedule.tasks if task.brings == Brings.IN_PART]
    if in_part:
        fresh, whole = (
            size_text(round(sum(mine) / schedule.rounds))
            for mine in ([t.fresh for t in in_part], [t.bytes for t in in_part])
        )
        words.append(f"send {fresh} that changes of {whole}")
    stays = phase.resident
    by_turns = any(task.brings == Brings.BY_TURNS for task in schedule.tasks)
    turns = ""
    if stays is not None and by_turns:
        turns = f", by turns from {stays.arrays} arrays, {size_text(stays.bytes)} in all"
    return f"{'; '.join(words)} a round{turns}"


_ENDS: tuple[Callable[[Estimate], float], ...] = (
    lambda one: one.value,
    lambda one: one.low,
    lambda one: one.high,
)


def predicted_lasts(
    parameters: LinkParameters | None, end: Callable[[Estimate], float] = _ENDS[0]
) -> Lasts:
    """Return what predicts a copy of pinned memory; `end` takes a value of its interval.

    Without parameters it raises `NotMeasuredError` when it is called.
    """

    @cache  # there are few sizes
    def lasts(kind: int, size: int) -> float:
        if parameters is None:
            raise NotMeasuredError(
                f"this edit predicts copies of pinned memory: name {argument.parameters}"
            )
        direction = Direction.H2D if kind == IN else Direction.D2H
        return end(single_seconds(parameters.copies(direction), size)) * 1e9

    return lasts


def _least_lasts(parameters: LinkParameters | None) -> Lasts:
    """Return what the bytes of a copy of pinned memory take at least."""
    if parameters is None:
        return no_time
    known = parameters

    def lasts(kind: int, size: int) -> float:
        direction = Direction.H2D if kind == IN else Direction.D2H
        return size * known.copies(direction).per_byte.low * 1e9

    return lasts


def _pins_all(schedule: Schedule) -> bool:
    """Whether to gather small copies leaves no pageable memory: that is to pin and to gather."""
    pageable = [task for task in schedule.tasks if is_pageable(task)]
    left = batch(schedule.tasks, no_time)
    return bool(pageable) and not any(is_pageable(t) and t.bytes > LOOKED_AT for t in left)


def _is_alone(schedule: Schedule, steps: tuple[Step, ...]) -> bool:
    """Whether each step changes something, also after the steps before it."""
    tasks = list(schedule.tasks)
    for step in steps:
        edited = EDITS[step](tasks, no_time)
        into = sum(task.kind == IN for task in tasks)  # and something to hide it behind
        if edited == tasks or (step is Step.PREFETCH and into in (0, len(tasks))):
            return False
        tasks = edited
    return True
