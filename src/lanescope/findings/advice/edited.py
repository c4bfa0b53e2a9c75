"""Which edits of a phase's schedule are tried, and what the replay says of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lanescope.errors import NotMeasuredError
from lanescope.findings.advice.advice import Step
from lanescope.findings.advice.changes import gathering
from lanescope.findings.advice.edits import EDITS, Edit, Lasts, is_staged
from lanescope.findings.advice.lanes import IN
from lanescope.findings.advice.phase import Phase
from lanescope.findings.advice.schedule import Schedule, Task, ends_after
from lanescope.prediction.parameters import Direction, LinkParameters
from lanescope.prediction.seconds import single_seconds
from lanescope.units.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Edited:
    """An edit and its replay; seconds are from round to round."""

    steps: tuple[Step, ...]
    remedy: str
    rounds: int
    before: float
    after: Estimate


#: Gains of programs that were changed as advised differ by so much of them from the prediction,
#: in 15 of 16 runs of benchmarks/advise/closed_loop.py.
_REPLAY_ERROR = 0.25
_TRIED = (
    (Step.PIN,),
    (Step.PREFETCH,),
    (Step.PIN, Step.PREFETCH),
    (Step.BATCH,),
    (Step.PIN, Step.BATCH),
    (Step.DEFER,),
)
_REMEDIES = {
    Step.PIN: "pin the memory",
    Step.PREFETCH: "copy the next round's data in while this round computes and comes back (two "
    "buffers, a stream for the copies)",
    Step.BATCH: "gather the small copies of a round into one",
    Step.DEFER: "leave the few bytes that each round reads back on the GPU, and read those of "
    "many rounds together",
}
_UNSTAGED = (
    "have the data in pinned memory from the beginning; now the host pauses before each copy as "
    "long as it takes to copy them there, which this takes for the reason"
)


def edits_of(phase: Phase, parameters: LinkParameters) -> Iterator[Edited]:
    """Yield the edits that change something, with what a round takes after each."""
    schedule = phase.schedule
    if schedule is None:
        return
    for steps in _TRIED:
        if not _is_alone(schedule, steps):
            continue
        ahead = Step.PREFETCH in steps
        try:
            before, after = round_seconds(schedule, edit_of(steps), parameters, ahead=ahead)
        except NotMeasuredError:
            continue
        yield Edited(steps, _remedy(steps, phase, schedule), schedule.rounds, before, after)


def edit_of(steps: tuple[Step, ...]) -> Edit:
    """Return all steps as one edit."""

    def edited(tasks: Sequence[Task], lasts: Lasts) -> list[Task]:
        for step in steps:
            tasks = EDITS[step](tasks, lasts)
        return list(tasks)

    return edited


def round_seconds(
    schedule: Schedule, edit: Edit, parameters: LinkParameters | None, *, ahead: bool
) -> tuple[float, Estimate]:
    """Return what a round takes before and after an edit, in seconds.

    The interval is that of the copies whose time is predicted, wider by what the replay without
    an edit is off from what was measured, and by `_REPLAY_ERROR` of the gain.

    Parameters
    ----------
    ahead
        Whether the edit fetches data ahead: the first round of the schedule has none before it.

    Raises
    ------
    NotMeasuredError
        If the parameters lack what the edit needs, or are None and it needs them.
    """
    before = ends_after(schedule.tasks)
    wider = abs(before - schedule.measured_ns)
    change = [
        ends_after(edit(schedule.tasks, predicted_lasts(parameters, end))) - before for end in _ENDS
    ]
    most = schedule.rounds / (schedule.rounds - int(ahead))
    scale = 1 / (schedule.rounds * 1e9)
    value, low, high = (before + one * most for one in change)
    wider += _REPLAY_ERROR * abs(before - value)
    after = Estimate(value, max(min(low, value) - wider, 0.0), max(high, value) + wider)
    return before * scale, after.map(lambda nanoseconds: nanoseconds * scale)


def _remedy(steps: tuple[Step, ...], phase: Phase, schedule: Schedule) -> str:
    staged = any(map(is_staged, schedule.tasks))
    words = _REMEDIES | ({Step.PIN: _UNSTAGED} if staged else {})
    words |= {Step.BATCH: gathering(phase) or _REMEDIES[Step.BATCH]}
    return ", ".join(words[step] for step in steps)


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

    def lasts(kind: int, size: int) -> float:
        if parameters is None:
            raise NotMeasuredError("this edit predicts copies of pinned memory: name --parameters")
        direction = Direction.H2D if kind == IN else Direction.D2H
        return end(single_seconds(parameters.copies(direction), size)) * 1e9

    return lasts


def _is_alone(schedule: Schedule, steps: tuple[Step, ...]) -> bool:
    """Whether each step changes something, also after the steps before it."""
    tasks = list(schedule.tasks)
    for step in steps:
        edited = EDITS[step](tasks, lambda kind, size: 0.0)
        into = sum(task.kind == IN for task in tasks)  # and something to hide it behind
        if edited == tasks or (step is Step.PREFETCH and into in (0, len(tasks))):
            return False
        tasks = edited
    return True
