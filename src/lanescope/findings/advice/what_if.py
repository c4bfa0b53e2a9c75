"""Measured rounds under edits that a user names: before, after, and the critical path of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from lanescope.errors import InputError, argument, command
from lanescope.findings.advice.edited import (
    ACROSS_ROUNDS,
    opposed,
    predicted_lasts,
    round_seconds,
)
from lanescope.findings.advice.edits import EDITS, Edit, batch, faster_copies, faster_kernels
from lanescope.findings.advice.lanes import IN, OUT, WORK
from lanescope.findings.advice.phase import Phase
from lanescope.findings.advice.pinned import Lasts
from lanescope.findings.advice.schedule import (
    LEAST_ROUNDS,
    Placed,
    Schedule,
    ScheduledTask,
    replayed,
)
from lanescope.prediction.parameters import LinkParameters
from lanescope.units.estimate import Estimate
from lanescope.units.values import Size, quoted

NAMES = (
    "pin, async, prefetch, batch, batch=SIZE, defer, keep, mapped, copies=FACTOR, kernels=FACTOR"
)
_MOST_TIMES = 1_000_000
_PREDICTING = ("pin", "batch", "defer")


@dataclass(frozen=True, slots=True)
class NamedEdit:
    """An edit as a user wrote it, such as ``batch=64KiB``."""

    text: str
    edit: Edit

    @property
    def predicts(self) -> bool:
        """Whether it makes copies of pinned memory, whose time link parameters predict."""
        return self.text.partition("=")[0] in _PREDICTING


class Activity(StrEnum):
    """What a part of the critical path is spent on."""

    HOST = "host"
    H2D = "copies h2d"
    KERNELS = "kernels"
    D2H = "copies d2h"
    LAG = "start latency"


_OF_KIND = {IN: Activity.H2D, OUT: Activity.D2H, WORK: Activity.KERNELS}


@dataclass(frozen=True, slots=True)
class CriticalSegment:
    """A part of the critical path, nanoseconds from the begin.

    Attributes
    ----------
    place
        Number of the task that runs, or before which the host or the GPU pauses.
    """

    activity: Activity
    begin: float
    end: float
    place: int


def parse_edits(text: str) -> tuple[NamedEdit, ...]:
    """Return edits, in the order in which they are made.

    Raises
    ------
    InputError
        If one is unknown, named twice, or its value cannot be used.

    >>> [one.text for one in parse_edits("pin, batch=64KiB")]
    ['pin', 'batch=64KiB']
    """
    words = [word.strip() for word in text.split(",")]
    if not any(words):
        raise InputError(f"{argument.what_if} names no edit; name one or several of {NAMES}")
    found = tuple(NamedEdit(word, _edit(word)) for word in words)
    names = [word.partition("=")[0] for word in words]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{argument.what_if} names {twice} more than once; name each edit once")
    return found


def _edit(word: str) -> Edit:
    name, equals, value = word.partition("=")
    if name in EDITS and not equals:
        return EDITS[name]
    if name == "batch":
        return partial(batch, most_bytes=Size(f"{argument.what_if}: batch").read(value))
    if name == "copies":
        return partial(faster_copies, times=_times(name, value))
    if name == "kernels":
        return partial(faster_kernels, times=_times(name, value))
    raise InputError(
        f"{argument.what_if}: {quoted(word)} is no edit; name one or several of {NAMES}"
    )


def _times(name: str, value: str) -> float:
    try:
        times = float(value.removesuffix("x"))
    except ValueError:
        times = 0.0
    if not 1 / _MOST_TIMES <= times <= _MOST_TIMES:
        raise InputError(
            f"{argument.what_if}: {name} takes how many times as fast they run, from "
            f"{1 / _MOST_TIMES:f} to {_MOST_TIMES}, such as {name}=2 or {name}=0.5, not "
            f"{quoted(value)}"
        )
    return times


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleReplay:
    """A schedule as it runs, and what bounds it."""

    placed: Sequence[Placed]
    path: Sequence[CriticalSegment]

    @property
    def nanoseconds(self) -> float:
        """From the first submission to the last end."""
        return self.path[-1].end if self.path else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class PhaseWhatIf:
    """What edits make of a phase.

    Attributes
    ----------
    rounds
        That were measured and replayed.
    seconds
        From round to round, as measured.
    after_seconds
        The same after the edits; predicted.
    no_effect
        Those of the edits that change nothing here.
    """

    phase: Phase
    rounds: int
    before: ScheduleReplay
    after: ScheduleReplay
    seconds: float
    after_seconds: Estimate
    no_effect: tuple[str, ...]

    @property
    def run_gain_seconds(self) -> float:
        """Of all rounds of the run."""
        return (self.seconds - self.after_seconds.value) * self.phase.rounds_in_run


def what_if(
    phases: Sequence[Phase], edits: Sequence[NamedEdit], parameters: LinkParameters | None
) -> tuple[PhaseWhatIf, ...]:
    """Return what edits make of each phase that has a schedule, the largest gain of a run first.

    Parameters
    ----------
    parameters
        May be None where no edit predicts copies; see `NamedEdit.predicts`.

    Raises
    ------
    InputError
        If no phase has one.
    NotMeasuredError
        If the parameters lack what an edit needs.
    """
    least = LEAST_ROUNDS if any(one.text in ACROSS_ROUNDS for one in edits) else 1
    found = [
        _of_phase(phase, phase.schedule, edits, parameters)
        for phase in phases
        if phase.schedule is not None and phase.schedule.rounds >= least
    ]
    if not found:
        several = "three rounds or more" if least > 1 else "rounds"
        raise InputError(
            f"no phase of this watch can be replayed: that takes {several} that follow each other, "
            "none of them cut into overlapping parts, and a trace of the kernels "
            f"({command('watch --kernels -- PROGRAM')})"
        )
    return tuple(sorted(found, key=lambda one: -one.run_gain_seconds))


def _of_phase(
    phase: Phase,
    schedule: Schedule,
    edits: Sequence[NamedEdit],
    parameters: LinkParameters | None,
) -> PhaseWhatIf:
    no_effect: list[str] = []

    def edited(tasks: Sequence[ScheduledTask], lasts: Lasts) -> list[ScheduledTask]:
        no_effect.clear()
        for one in edits:
            changed = one.edit(tasks, lasts)
            no_effect.extend([one.text] if list(tasks) == changed else [])
            tasks = changed
        return list(tasks)

    seconds, after = round_seconds(schedule, edited, parameters)
    tasks = opposed(edited(schedule.tasks, predicted_lasts(parameters)), parameters)
    return PhaseWhatIf(
        phase,
        schedule.rounds,
        _replay(schedule.tasks),
        _replay(tasks),
        seconds,
        after,
        tuple(no_effect),
    )


def _replay(tasks: Sequence[ScheduledTask]) -> ScheduleReplay:
    placed = replayed(tasks)
    return ScheduleReplay(placed, critical_path(placed))


def critical_path(placed: Sequence[Placed]) -> list[CriticalSegment]:
    """Return what the end of the last task depends on, in the order of time, without a gap.

    Each segment begins where what it waited for ends: the task before it on its stream or engine,
    the host's pause or call before its submission, or the task for which the host waited.
    """
    if not placed:
        return []
    segments: list[CriticalSegment] = []
    place: int | None = max(range(len(placed)), key=lambda number: placed[number].end)
    until = placed[place].end if place is not None else 0.0
    while place is not None:
        one = placed[place]
        for activity, begin in ((_OF_KIND[one.task.kind], one.start), (Activity.LAG, one.ready)):
            until = _add_segment(segments, activity, begin, until, place)
        if one.after is not None:
            place = one.after
            continue
        place, until = _through_host(placed, place, segments, until)
    return segments[::-1]


def _through_host(
    placed: Sequence[Placed], place: int, segments: list[CriticalSegment], until: float
) -> tuple[int | None, float]:
    """Go back through the host's calls to a task that it waited for; None at the begin."""
    first, thread = place, placed[place].task.thread
    other = placed[place].host_after
    while other is None and place > 0:
        place -= 1
        if placed[place].task.thread == thread:
            other = placed[place].host_after
    begin = 0.0 if other is None else min(placed[other].end, until)
    return other, _add_segment(segments, Activity.HOST, begin, until, first)


def _add_segment(
    segments: list[CriticalSegment], activity: Activity, begin: float, until: float, place: int
) -> float:
    """Add what lies before `until`, if anything does, and return where it begins."""
    if begin < until:
        segments.append(CriticalSegment(activity, begin, until, place))
    return min(begin, until)


def shares(path: Sequence[CriticalSegment]) -> dict[Activity, float]:
    """Return the share of the path that is spent on each; all of them."""
    total = sum(one.end - one.begin for one in path)
    spent = dict.fromkeys(Activity, 0.0)
    for one in path:
        spent[one.activity] += one.end - one.begin
    return {activity: value / total if total else 0.0 for activity, value in spent.items()}
