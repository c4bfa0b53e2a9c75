"""What a change gains, by a model that is held against what was measured first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import hypot

from lanescope.errors import NotMeasuredError
from lanescope.findings.advice.advice import KERNELS, Candidate, Change, Step
from lanescope.findings.advice.changes import (
    REPEATED,
    REUSED,
    candidates,
    conditions,
    feeds_back,
    lines_of,
    pins_small_copies,
    present,
    small_copies,
    waited_once,
)
from lanescope.findings.advice.edited import Edited, base_seconds, edits_of
from lanescope.findings.advice.kernels import launch_of
from lanescope.findings.advice.lanes import IN, OUT
from lanescope.findings.advice.phase import Phase, RoundPredictor, WorkloadState
from lanescope.findings.advice.pinned import read_sooner_seconds
from lanescope.findings.advice.resent import NEEDLESS
from lanescope.findings.code import snippets
from lanescope.prediction.parameters import Direction, LinkParameters
from lanescope.prediction.predictor import STREAMED, Method
from lanescope.trace.codes import MemoryKind
from lanescope.units.estimate import Estimate
from lanescope.units.sizes import size_text
from lanescope.units.words import time_text

#: A model whose prediction of the phase as it is differs from the measured time by more does
#: not describe the phase.
MOST_ERROR = 0.25
#: A change that gains a smaller share of a round is not worth it; nor is one of more than where
#: memory comes from, of the other.
LEAST_GAIN = 0.01
_LEAST_GAIN_OF_CALLS = 0.03
#: The same of results that are read later, and where all that is pinned are small copies: it gains
#: the host's time alone, which differs from run to run by as much (`BETWEEN_RUNS`), and is longer
#: while it is traced.
_LEAST_GAIN_OF_HOST = 0.1
#: The same where there are fewer copies then, or none; and of pinning, besides what else is done.
_LEAST_GAIN_OF_SMALL_PINS = 0.05
#: Of what is gained where results stay on the GPU.
_NEARLY_AS_MUCH = 0.8
#: Rounds take so much longer or shorter in another run: this and `edited._REPLAY_ERROR` are what
#: benchmarks/advise/intervals.py finds in the gains that were measured.
BETWEEN_RUNS = 0.2
#: The same of what ran once: nothing tells how much it differs from time to time.
LEAST_GAIN_ONCE = 0.05
#: A change has to gain so much more of a round than one that asks one less of the program
#: (`ASKS`) to stand before it.
ASKING = 0.05
#: The driver takes so many times as long or as short for pinned memory a minute later, on one H100
#: (benchmarks/model/pinning.py).
_PIN_SPREAD = 1.45


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the model says of a phase as it is.

    Attributes
    ----------
    predicted
        Seconds of a round, without the host's pauses; None where it cannot tell.
    error
        Predicted over measured, less 1; None where it cannot tell.
    reason
        Why the model does not describe the phase, in a sentence; None where it does.
    """

    predicted: Estimate | None
    error: float | None
    reason: str | None


def calibrate(phase: Phase, predict: RoundPredictor) -> Calibration:
    """Predict a phase as it is, and compare that with what was measured."""
    state, measured = present(phase), phase.modelled_seconds.value
    if state is None:
        return Calibration(None, None, _unknown_memory(phase))
    if measured <= 0:
        return Calibration(None, None, "its copies and kernels took no time that was measured")
    try:
        predicted = predict(state)
    except NotMeasuredError as lacking:
        return Calibration(None, None, str(lacking).rstrip("."))
    error = predicted.value / measured - 1
    if abs(error) <= MOST_ERROR:
        return Calibration(predicted, error, None)
    return Calibration(
        predicted,
        error,
        f"as {state.method} a round is predicted to take {abs(error):.0%} "
        f"{'less' if error < 0 else 'longer'} than it took, more than the {MOST_ERROR:.0%} up to "
        "which a prediction of its changes is made",
    )


def _unknown_memory(phase: Phase) -> str:
    known = (MemoryKind.PINNED, MemoryKind.PAGEABLE)
    if all(copy.memory in known for copy in phase.copies):
        return "no model knows rounds of which half is pinned and half is pageable memory"
    kinds = ", ".join(sorted({copy.memory.label for copy in phase.copies}))
    return f"no model knows copies of this memory ({kinds}); copy pinned or pageable memory"


def changes_of(
    phase: Phase, calibration: Calibration, predict: RoundPredictor, parameters: LinkParameters
) -> tuple[Change, ...]:
    """Return what changes gain, those that are worth it first, the largest gain first.

    Without a calibration that holds there are those alone of which the replay of what was
    measured tells.
    """
    found = [_replayed(phase, edited) for edited in edits_of(phase, parameters)]
    if calibration.reason is None and calibration.error is not None:
        error, launching = calibration.error, _launching(phase, parameters)

        def after(state: WorkloadState) -> Estimate:
            return _after(phase, error, state, predict(state), launching)

        def middle_after(state: WorkloadState, seconds: float) -> float:
            return _after(phase, error, state, Estimate.exactly(seconds), launching).value

        predict_after = RoundPredictor(
            after,
            lambda state: middle_after(state, predict.value(state)),
            lambda state: middle_after(state, predict.least(state)),
        )
        in_place = any(Step.MAPPED in one.steps for one in found)  # the replay has it already
        found += [
            _judged(phase, error, candidate, state, after(state), launching)
            for candidate, state in candidates(phase, predict_after)
            if not (in_place and Step.MAPPED in candidate.steps)
        ]
    found = [with_pinning(one, phase, parameters) for one in found]
    return in_order(simplest(found, phase))


def with_pinning(change: Change, phase: Phase, parameters: LinkParameters) -> Change:
    """Return a change with what it takes to pin the buffers of a round, where that is known.

    What ran once gains that less; where it is not known, nobody knows what the run gains.

    Each copy of pageable memory, and what the host stages, is taken for a buffer of its own; many
    small ones of a direction for one, as they are pieces of one array or can lie together. Where
    the next round's data is fetched ahead those to the GPU are there twice.
    """
    if Step.PIN not in change.steps:
        return change
    once = phase.rounds_in_run == 1
    if parameters.pinning is None:
        return replace(change, gain_seconds=None) if once else change
    twice = Step.PREFETCH in change.steps
    spent = [
        (count * (1 + (twice and direction is Direction.H2D)), size)
        for direction, count, size in _pinned_buffers(phase, keeps=Step.KEEP in change.steps)
    ]
    each = [(count, parameters.pinning.at(size)) for count, size in spent]
    value, low, high = (
        sum(count * getattr(one, end) for count, one in each) for end in ("value", "low", "high")
    )
    if not value:
        return change
    known = Estimate(value, min(low, value / _PIN_SPREAD), max(high, value * _PIN_SPREAD))
    change = replace(change, pin_seconds=known)
    pays = _pays_after(change, phase, spent)
    conditions_ = tuple(pays if one in (REUSED, REPEATED) else one for one in change.conditions)
    change = replace(change, conditions=conditions_)
    if not once or change.gain_seconds is None:
        return change
    why = _ran_once(change) if (change.break_even_rounds or 2) > 1 else None
    gain = change.gain_seconds.map(lambda seconds: seconds - value)
    return replace(change, why=change.why or why, gain_seconds=gain)


def _pinned_buffers(phase: Phase, *, keeps: bool) -> Iterator[tuple[Direction, int, int]]:
    """Yield what is to be pinned of a round: a direction, how many buffers, bytes of each.

    Of sizes that differ it is the mean: so many make up all bytes, as medians do not.

    Parameters
    ----------
    keeps
        Whether copies are left out of what is on the GPU already.
    """
    small = small_copies(phase)
    tasks = () if phase.schedule is None else phase.schedule.tasks
    stays = [task for task in tasks if not (keeps and task.brings in NEEDLESS)]
    left_out = [task for task in tasks if keeps and task.brings in NEEDLESS]
    for kind in phase.copies:
        code = IN if kind.direction is Direction.H2D else OUT
        like = code, kind.memory, kind.asynchronous
        mine = [t.bytes for t in left_out if (t.kind, t.memory, t.queued) == like]
        rounds = 1 if phase.schedule is None else phase.schedule.rounds
        count, total = round(kind.count - len(mine) / rounds), kind.bytes - sum(mine) / rounds
        if kind.memory is not MemoryKind.PAGEABLE or count < 1 or total < 1:
            continue
        if kind.direction in small:
            yield kind.direction, 1, round(total)
        else:
            yield kind.direction, count, round(total / count)
    staged = [task.bytes for task in stays if task.staged]
    if phase.schedule is not None and staged:
        count = round(len(staged) / phase.schedule.rounds)
        yield Direction.H2D, count, round(sum(staged) / len(staged))


def _ran_once(change: Change) -> str:
    takes = time_text(0.0 if change.pin_seconds is None else change.pin_seconds.value)
    gains = time_text(change.round_gain_seconds.value)
    return (
        f"to get its memory pinned takes about {takes} (predicted), and it gains {gains} each time "
        f"that the program does this; it pays from {change.break_even_rounds} times on"
    )


def _pays_after(change: Change, phase: Phase, spent: list[tuple[int, int]]) -> str:
    buffers = sum(count for count, _ in spent)
    size = size_text(sum(count * size for count, size in spent))
    many = "the buffer" if buffers == 1 else f"{buffers} buffers"
    takes = time_text(0.0 if change.pin_seconds is None else change.pin_seconds.value)
    after = change.break_even_rounds
    gained = "is not gained back"
    if after is not None:
        rounds = "1 round" if after == 1 else f"{after} rounds"
        gained = f"is gained back after {rounds}; this run had {phase.rounds_in_run}"
    return (
        f"The same buffers are used again and again: to get {many} of a round ({size}) pinned "
        f"takes about {takes} (predicted), which {gained}."
    )


def _worth(change: Change) -> float:
    """Return the share of a round that it gains; less for what asks more of the program."""
    return change.effect - ASKING * change.asks


def _replayed(phase: Phase, edited: Edited) -> Change:
    before, after = edited.before, edited.after
    # The middle of rounds is known by their median or, where they are of two kinds, by their mean.
    both = phase.seconds, phase.mean_seconds
    less = min(one.value - one.low for one in both)
    more = min(one.high - one.value for one in both)
    gain = gained(Estimate(before, before - less, before + more), after)
    rounds = "1 measured round" if edited.rounds == 1 else f"{edited.rounds} measured rounds"
    basis = f"replay of {rounds}, in which only the copies that change are predicted"
    needs = (*conditions(edited.steps, phase), *edited.conditions)
    candidate = Candidate(edited.steps, edited.remedy, needs)
    return _change(phase, candidate, (None, 1), after, gain, basis)


def simplest(changes: list[Change], phase: Phase) -> list[Change]:
    """Return changes, of which those are not worth it that gain hardly more than fewer steps."""
    return [_against(change, changes, phase) for change in changes]


def _against(change: Change, others: list[Change], phase: Phase) -> Change:
    # to fetch ahead is to copy asynchronously, too
    steps = {*change.steps, *((Step.ASYNC,) if Step.PREFETCH in change.steps else ())}
    fewer = [one for one in others if one.worth and one is not change and set(one.steps) < steps]
    best = max(fewer, key=lambda one: one.round_gain_seconds.value, default=None)
    if not change.worth or best is None:
        return change
    more = change.round_gain_seconds.value - best.round_gain_seconds.value
    pins_little = Step.PIN not in best.steps and pins_small_copies(steps, phase)
    least = _LEAST_GAIN_OF_SMALL_PINS if pins_little else LEAST_GAIN
    if more >= least * base_seconds(phase):
        return change
    return replace(change, why=f"{best.kind} alone gains as much, within {least:.0%} of a round")


def in_order(changes: list[Change]) -> tuple[Change, ...]:
    """Return changes by what they gain; those for which kernels are rewritten come after others.

    To leave results on the GPU asks that nothing depends on them: what does without that comes
    first if it gains `_NEARLY_AS_MUCH`.
    """

    def gain(change: Change) -> float:
        leaves = Step.DEFER in change.steps and Step.PIN not in change.steps
        return _worth(change) * (_NEARLY_AS_MUCH if leaves else 1)

    return tuple(
        sorted(changes, key=lambda c: (not c.worth, bool(KERNELS & set(c.steps)), -gain(c)))
    )


@dataclass(frozen=True, slots=True)
class _Launching:
    """What the host takes for each kernel of a round that it launches, and whence that is."""

    seconds: Estimate
    source: str
    is_assumed: bool


def _launching(phase: Phase, parameters: LinkParameters) -> _Launching | None:
    if phase.kernels is None:
        return None
    seconds, source = launch_of(phase.kernels, phase.language, parameters)
    return _Launching(seconds, source, is_assumed=phase.kernels.launch is None)


def _launches(phase: Phase, state: WorkloadState) -> int:
    """Return how many kernels a round launches in a state: each part has all of them."""
    if state.method not in STREAMED or state.rounds > 1:
        return phase.launches
    return round(phase.launches * state.streams / phase.cut_in)


def _after(
    phase: Phase,
    error: float,
    state: WorkloadState,
    predicted: Estimate,
    launching: _Launching | None,
) -> Estimate:
    """Return what a round takes in a state, the host's pauses included, as far as known.

    No less than its kernels, of which one runs after the other, and than the host takes to launch
    them.
    """
    # What was measured over what was predicted of the phase as it is holds after it, too.
    scale, bound = 1 / (1 + error), abs(error)
    scaled = predicted.map(lambda seconds: seconds * scale)
    host = phase.host_seconds.value  # a change leaves it as it is
    works = host + state.workload.kernel_seconds / state.rounds
    found = Estimate(
        max(host + scaled.value, works),
        max(host + min(predicted.low, scaled.low, scaled.value * (1 - bound)), works),
        max(host + max(predicted.high, scaled.high, scaled.value * (1 + bound)), works),
    )
    if launching is None:
        return found
    count, each = _launches(phase, state), launching.seconds
    if launching.is_assumed and count <= phase.launches:
        return found  # the round had time for them, which may have come by a graph in one call
    return Estimate(
        max(found.value, count * each.value),
        max(found.low, count * each.low),
        max(found.high, count * each.high),
    )


def _judged(
    phase: Phase,
    error: float,
    candidate: Candidate,
    state: WorkloadState,
    after: Estimate,
    launching: _Launching | None,
) -> Change:
    basis = (
        f"the model of {state.method}"
        + (f" in {state.streams} streams" if state.streams > 1 else "")
        + f", times {1 / (1 + error):.3g}, by which the round measured differs from that predicted"
    )
    if state.streams > 1 and state.method in STREAMED and state.rounds == 1:
        basis += _of_launches(phase, state, launching)
    share, sooner = 1.0, 0.0
    if phase.schedule is not None:
        share = phase.schedule.unread_share
        sooner = read_sooner_seconds(phase.schedule) if Step.PIN in candidate.steps else 0.0
    gain = gained(phase.seconds, after).map(lambda seconds: seconds * share + sooner)
    between = base_seconds(phase) - phase.seconds.value * share  # from round to round, as it is
    after = after.map(lambda seconds: max(seconds * share + between - sooner, 0.0))
    return _change(phase, candidate, (state.method, state.streams), after, gain, basis)


def _of_launches(phase: Phase, state: WorkloadState, launching: _Launching | None) -> str:
    """Return in words what the launches of a round in parts were taken for; nothing of few."""
    count = _launches(phase, state)
    if launching is None or count < phase.launches * 2 or phase.launches < 2:
        return ""
    each = time_text(launching.seconds.value)
    return f", and no less than {count} launches of {each} each ({launching.source})"


def _change(
    phase: Phase,
    candidate: Candidate,
    becomes: tuple[Method | None, int],
    after: Estimate,
    gain: Estimate,
    basis: str,
) -> Change:
    """Return a candidate as a finding; `after` and `gain` are of a round, `becomes` its method.

    What it is worth is judged by the interval of `gain`, as rounds were in this run.
    """
    before, of_this_run = base_seconds(phase), gain
    if Step.PLACE not in candidate.steps:  # whose gain is a bound already
        gain = in_another_run(gain, phase)
    gain = replace(gain, high=min(gain.high, max(gain.value, before)))  # no more than there is
    change = Change(
        kind="+".join(candidate.steps),
        sentence=f"Process {phase.pid} on g{phase.gpu}, phase {phase.number}: a round takes "
        f"{time_text(before)}, and is predicted to take {time_text(max(after.value, 0.0))}",
        evidence=(basis,),
        confirm="lanescope advise -- PROGRAM",
        remedy=candidate.remedy,
        parts=(f"g{phase.gpu}",),
        effect=gain.value / before if before else 0.0,
        gain_seconds=gain.map(lambda seconds: seconds * phase.rounds_in_run),
        conditions=candidate.conditions,
        steps=candidate.steps,
        method=becomes[0],
        streams=becomes[1],
        seconds=after,
        round_gain_seconds=gain,
        why=None,
        code=snippets(lines_of(candidate.steps, phase), phase.language),
        kernels=phase.launches,
        waits_once=waited_once(candidate.steps, phase) > 0,
    )
    why = why_not(of_this_run, before, _least_gain(change, phase), once=phase.rounds == 1)
    if why is None and feeds_back(candidate.steps, phase):
        share = gain.value / before
        why = (
            "what the host sends is little and new each time, and may come of what it has read "
            f"just before; if it does not, this gains {share:.0%}"
        )
    return replace(change, why=why)


def _least_gain(change: Change, phase: Phase) -> float:
    """Return the share of a round that a change has to gain to be worth it."""
    steps = set(change.steps)
    if Step.DEFER in steps and Step.KEEP not in steps:
        return _LEAST_GAIN_OF_HOST
    if pins_small_copies(steps, phase):
        fewer = {Step.BATCH, Step.MAPPED} & steps
        return _LEAST_GAIN_OF_SMALL_PINS if fewer else _LEAST_GAIN_OF_HOST
    return _LEAST_GAIN_OF_CALLS if change.asks else LEAST_GAIN


def in_another_run(gain: Estimate, phase: Phase) -> Estimate:
    """Return a gain of a round with what rounds differ from run to run.

    Of what ran once the host's pauses, such as those of its start, are no part of that.
    """
    once = phase.rounds == 1
    differs = BETWEEN_RUNS * (phase.modelled_seconds.value if once else base_seconds(phase))
    low, high = (hypot(end - gain.value, differs) for end in (gain.low, gain.high))
    return Estimate(gain.value, gain.value - low, gain.value + high)


def gained(before: Estimate, after: Estimate) -> Estimate:
    """Return what is gained, with the least and the most that both intervals allow."""
    return Estimate(before.value - after.value, before.low - after.high, before.high - after.low)


def why_not(gain: Estimate, before: float, least: float, *, once: bool) -> str | None:
    """Return why a gain is not worth a change, which has to gain a share of a round at least."""
    if gain.value < 0:
        return "it would take longer"
    share = gain.value / before if before else 0.0
    least = max(least, LEAST_GAIN_ONCE if once else 0.0)
    if share < least:
        of_what = " of what ran once" if once else ""
        return f"it gains {share:.1%}, and less than {least:.0%}{of_what} is not worth a change"
    return f"its gain of {share:.0%} is within the error" if gain.low <= 0 else None


def placed(
    phase: Phase,
    direction: Direction,
    seconds: float,
    remedy: str,
    conditions: tuple[str, ...],
    basis: str,
) -> Change:
    """Return what nearer memory gains of a round, by rates that were measured.

    No more than copies of the direction take now, and less by what is hidden: what runs
    meanwhile may be what the round waits for.
    """
    now = phase.h2d_seconds if direction is Direction.H2D else phase.d2h_seconds
    most = min(seconds, now.value)
    gain = Estimate(most, max(most - phase.hidden_seconds.value, 0.0), most)
    before = base_seconds(phase)
    after = Estimate(max(before - gain.value, 0.0), max(before - gain.high, 0.0), before - gain.low)
    candidate = Candidate((Step.PLACE,), remedy, conditions)
    return _change(phase, candidate, (phase.method, phase.parts), after, gain, basis)
