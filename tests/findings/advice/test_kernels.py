"""What a round in parts takes at least: launches of the host, and kernels that become short."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lanescope.findings.advice.advice import ASKS, MANY_KERNELS, Step
from lanescope.findings.advice.changes import candidates
from lanescope.findings.advice.judge import calibrate, changes_of
from lanescope.findings.advice.kernels import (
    CUDA_LAUNCH,
    LIBRARY_LAUNCH,
    SHORTEST_SECONDS,
    Kernels,
    launch_of,
)
from lanescope.findings.advice.phase import RoundPredictor, best_streams, predicting
from lanescope.findings.advice.phases import find_phases
from lanescope.findings.code import CUDA, PYTORCH
from lanescope.prediction.predictor import Method
from lanescope.units.estimate import Estimate
from tests.findings.advice.made_up import LINK, Simple
from tests.findings.advice.programs import PAGEABLE, PINNED, Program

US, MB = 1e-6, 10**6
PREDICT = predicting(Simple(), LINK)


def kernels(*lasting, launch=None, rounds=1):
    seconds = np.array(lasting) * US
    source = None if launch is None else "measured"
    return Kernels(seconds, rounds, 2 * US, launch, source)


def stepping(count, lasts=30.0, *, pause=0.0, looks=0.0, memory=PAGEABLE, rounds=20):
    """Bytes in, so many kernels, 8 bytes back; the host pauses before each kernel."""
    program = Program()
    for _ in range(rounds):
        program.copy(20 * MB, down=True, host=memory, wait=True)
        for _ in range(count):
            program.host(pause)
            program.kernel(lasts)
        program.host(looks)
        program.copy(8, down=False, host=memory)
        program.wait()
        program.host(100.0)
    (phase,) = find_phases(program.operations(), kernels=True)
    return phase


def changed(phase):
    found = changes_of(phase, calibrate(phase, PREDICT), PREDICT, LINK)
    return {change.steps: change for change in found}


def launching(phase, each):
    """Return a phase whose launches take the host so long."""
    launch = Estimate.exactly(each)
    return replace(phase, kernels=replace(phase.kernels, launch=launch, source="measured"))


def in_streams(phase):
    """Return the change that cuts a round into parts."""
    return next(one for steps, one in changed(phase).items() if steps[-1] is Step.STREAMS)


@pytest.mark.parametrize(("times", "more"), [(1, 0.0), (2, 2.0), (4, 6.0), (10, 28.0)])
def test_no_kernel_of_a_part_takes_less_than_the_shortest(times, more):
    assert kernels(10, 1).added_seconds(times) == pytest.approx(more * US)


def test_what_is_added_is_of_one_round():
    assert kernels(10, 1, 10, 1, rounds=2).added_seconds(4) == pytest.approx(6 * US)


def test_launches_between_two_calls_are_measured_where_the_host_waits_for_none():
    found = stepping(10, 100.0, memory=PINNED).kernels
    assert found.launch.value == pytest.approx(3 * US, rel=0.01)
    assert found.source == "measured between calls of copies"


def test_launches_that_the_gpu_waits_for_are_measured():
    found = stepping(10, 1.0, pause=20.0, looks=200.0, memory=PINNED).kernels
    assert found.launch.value == pytest.approx(23 * US, rel=0.01)
    assert found.source == "measured where the GPU waited for launches"


def test_few_kernels_tell_nothing_of_launches():
    found = stepping(2, 100.0).kernels
    assert (found.launch, found.source) == (None, None)
    assert found.shortest_seconds == SHORTEST_SECONDS  # theirs are longer


def test_short_kernels_that_were_measured_are_the_shortest():
    assert stepping(10, 5.0).kernels.shortest_seconds == SHORTEST_SECONDS
    program = Program()
    for _ in range(10):
        program.copy(MB, down=True)
        for _ in range(10):
            program.kernel(1.5)  # launched while the copy lasts, so that they follow at once
        program.copy(MB, down=False)
        program.wait()
        program.host(100.0)
    (phase,) = find_phases(program.operations(), kernels=True)
    assert phase.kernels.shortest_seconds == pytest.approx(1.5 * US, rel=0.01)


def test_what_rounds_do_not_tell_is_of_the_parameters_or_assumed():
    known, unknown = kernels(10, launch=Estimate.exactly(7 * US)), kernels(10)
    assert launch_of(known, PYTORCH, LINK)[0].value == 7 * US
    assert launch_of(unknown, CUDA, LINK)[0] == LINK.launching.call
    assert launch_of(unknown, CUDA, replace(LINK, launching=None))[0] == CUDA_LAUNCH
    assert launch_of(unknown, PYTORCH, LINK) == (LIBRARY_LAUNCH, "assumed for PyTorch")


@pytest.mark.parametrize("count", [1, 5, 40, 100])
@pytest.mark.parametrize("each", [2 * US, 20 * US])
def test_a_round_in_parts_never_takes_less_than_its_launches_and_kernels(count, each):
    phase = stepping(count, 1200.0 / count)
    phase = launching(phase, each)
    for change in changed(phase).values():
        if change.method in (Method.STREAMS, Method.HYBRID):
            launches = count * change.streams
            assert change.seconds.value >= launches * each
            assert change.seconds.low >= launches * each
            assert change.seconds.value >= launches * phase.kernels.shortest_seconds
        if change.method is not None:
            assert change.seconds.value >= phase.workload.kernel_seconds


def test_of_many_kernels_fewer_parts_are_made():
    one, many = in_streams(stepping(1, 1200.0)), in_streams(stepping(40, 30.0))
    assert many.streams < one.streams
    assert "no less than" not in one.evidence[0]
    assert f"no less than {40 * many.streams} launches of 3.00 µs each" in many.evidence[0]


def test_rounds_that_overlap_each_other_launch_no_more_kernels():
    phase = replace(stepping(40, 30.0), schedule=None)
    found = changed(launching(phase, 50 * US))
    (ahead,) = (one for steps, one in found.items() if steps[-1] is Step.PREFETCH)
    assert ahead.streams > 1
    assert ahead.seconds.value == pytest.approx(40 * 50 * US)


def test_what_launches_are_assumed_to_take_counts_in_parts_alone():
    """A graph may launch all kernels of a round by one call."""
    phase = stepping(800, 2.0)
    unknown = replace(
        phase, language=PYTORCH, kernels=replace(phase.kernels, launch=None, source=None)
    )
    (steps,) = {s for s in changed(phase) if s[-1] is Step.MAPPED}
    known, assumed = changed(phase)[steps], changed(unknown)[steps]
    assert assumed.seconds.value <= known.seconds.value
    assert assumed.round_gain_seconds.value > 0.3 * phase.seconds.value


def test_many_launches_ask_more_of_who_cuts_them():
    phase = stepping(40, 30.0)

    def asks(launches):
        return {s: one.asks for s, one in changed(replace(phase, launches=launches)).items()}

    few, many = asks(MANY_KERNELS - 1), asks(MANY_KERNELS)
    assert few.keys() == many.keys()
    for steps, asked in few.items():
        cut = Step.STREAMS in steps or Step.HYBRID in steps
        assert asked == max(ASKS[step] for step in steps)
        assert many[steps] == asked + cut


@pytest.mark.parametrize("between", [0.0, 8.0])
def test_small_copies_are_gathered_by_the_host_in_streams_too(between):
    program = Program()
    for _ in range(20):
        for _ in range(200):
            program.copy(10_000, down=True, host=PAGEABLE, wait=True)
            program.host(between)
        program.kernel(1000.0)
        program.copy(MB, down=False, host=PAGEABLE, wait=True)
        program.host(100.0)
    (phase,) = find_phases(program.operations(), kernels=True)
    gathered = {candidate.steps: state.gathering for candidate, state in candidates(phase, PREDICT)}
    both = next(steps for steps in gathered if {Step.BATCH, Step.STREAMS} <= set(steps))
    views = 199 * between / 2  # of the time between two calls half is for the data
    assert gathered[both] == pytest.approx((200 * 0.2 + views) * US + 2 * MB * 0.2e-9)
    assert all(seconds == 0.0 for steps, seconds in gathered.items() if Step.BATCH not in steps)


class Counted(Simple):
    """Counts how often an interval is predicted, which takes the replay three times as long."""

    def __init__(self):
        self.intervals = []

    def value(self, *given):
        return Simple().predict(*given).seconds.value

    def least(self, *given):
        return self.value(*given)  # so that no other is looked at that is not the best

    def predict(self, *given):
        self.intervals.append(given)
        return Simple().predict(*given)


def test_intervals_are_predicted_once_and_only_for_what_is_shown():
    counted, phase = Counted(), stepping(8)
    predict = predicting(counted, LINK)
    found = changes_of(phase, calibrate(phase, predict), predict, LINK)
    assert found == changes_of(phase, calibrate(phase, PREDICT), PREDICT, LINK)
    assert any(change.streams > 1 for change in found)
    assert 1 <= len(counted.intervals) <= len(found) + 1


def test_streams_that_cannot_be_the_fastest_are_not_replayed():
    replayed = []

    def value(state):
        replayed.append(state)
        return 1.0 + abs(state - 8)

    predict = RoundPredictor(Estimate.exactly, value, lambda state: value_at_least(state))
    assert best_streams(predict, lambda streams: streams, None) == 8
    assert max(replayed) == 12  # 12 cannot be ruled out, those after it can


def value_at_least(state):
    return 1.0 if state < 16 else 1.0 + abs(state - 8)
