"""What pinning costs once, and after how many rounds it is gained back."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from lanescope.findings.advice import in_language
from lanescope.findings.advice.advice import Step
from lanescope.findings.advice.judge import calibrate, changes_of
from lanescope.findings.advice.phase import predicting
from lanescope.findings.advice.phases import find_phases
from lanescope.findings.advice.resent import Contents
from lanescope.findings.code import CUDA, CUPY, PYTORCH
from lanescope.units.estimate import Estimate, TimeCurve
from tests.findings.advice.made_up import LINK, Simple
from tests.findings.advice.programs import PAGEABLE, PINNED, Program, looped
from tests.findings.advice.test_resent import Carrying

MB = 10**6
#: 1 ms and 0.25 ms a MB.
PINNING = replace(
    LINK,
    pinning=TimeCurve(
        (1 * MB, 1000 * MB),
        (Estimate(1.25e-3, 1e-3, 2e-3), Estimate(251e-3, 200e-3, 300e-3)),
    ),
)


def changes(parameters, *, rounds=20, size=100 * MB):
    return changes_in(looped(rounds, size, 2000.0, host=PAGEABLE), parameters)


def changes_in(program, parameters, language=CUDA):
    contents = program.contents() if isinstance(program, Carrying) else Contents.none()
    (found,) = find_phases(program.operations(), contents, kernels=True)
    phase = in_language(found, language)
    predict = predicting(Simple(), parameters)
    found = changes_of(phase, calibrate(phase, predict), predict, parameters)
    return phase, {change.steps: change for change in found}


def test_the_buffers_of_a_round_are_pinned_once():
    phase, found = changes(PINNING)
    pin = found[Step.PIN,]
    expected = sum(round(kind.count) for kind in phase.copies) * 26e-3
    assert pin.pin_seconds.value == pytest.approx(expected)
    assert pin.pin_seconds.high == pytest.approx(1.45 * expected)
    assert pin.pin_seconds.low < pin.pin_seconds.value < pin.pin_seconds.high
    gain = pin.round_gain_seconds.value
    after = pin.break_even_rounds
    assert (after - 1) * gain < expected <= after * gain
    assert f"gained back after {after} rounds; this run had 20" in pin.conditions[0]


def test_what_is_fetched_ahead_is_there_twice():
    phase, found = changes(PINNING)
    pin, both = found[Step.PIN,], found[Step.PIN, Step.PREFETCH]
    inward = sum(round(kind.count) for kind in phase.copies if kind.direction == "h2d")
    more = both.pin_seconds.value - pin.pin_seconds.value
    assert more == pytest.approx(inward * 26e-3)


def test_copies_that_are_left_out_need_no_pinned_memory():
    program = Program()
    carried = {}
    for number in range(20):
        for size, content in ((100 * MB, 1), (50 * MB, 100 + number)):
            program.copy(size, down=True, host=PAGEABLE, wait=True)
            carried[len(carried) + 1] = content
            program.kernel(500.0)
            carried[len(carried) + 1] = 0
        program.copy(50 * MB, down=False, host=PAGEABLE, wait=True)
        carried[len(carried) + 1] = 0
    keys = [(program.pid << 32) + number for number, content in carried.items() if content]
    numbers = [content for content in carried.values() if content]
    contents = Contents(*np.array((keys, numbers, [0] * len(keys)), np.int64))
    (phase,) = find_phases(program.operations(), contents, kernels=True)
    predict = predicting(Simple(), PINNING)
    found = {c.steps: c for c in changes_of(phase, calibrate(phase, predict), predict, PINNING)}
    pin, both = found[Step.PIN,], found[Step.KEEP, Step.PIN]
    assert pin.pin_seconds.value - both.pin_seconds.value == pytest.approx(26e-3, rel=1e-6)
    assert "2 buffers of a round (100 MB)" in " ".join(both.conditions)


def test_nothing_is_said_that_is_not_known():
    _, found = changes(LINK)
    pin = found[Step.PIN,]
    assert (pin.pin_seconds, pin.break_even_rounds) == (None, None)
    assert pin.conditions[0] == (
        "The same buffers are used again and again: pinning takes longer than copying."
    )


def test_changes_that_pin_nothing_have_no_such_cost():
    _, found = changes(PINNING)
    assert all(
        change.pin_seconds is None for steps, change in found.items() if Step.PIN not in steps
    )


def test_small_pieces_of_a_direction_lie_in_one_buffer():
    program = Program()
    for _ in range(20):
        for _ in range(100):
            program.copy(MB // 2, down=True, host=PAGEABLE, wait=True)
        program.kernel(100.0)
        program.copy(50 * MB, down=False, host=PAGEABLE, wait=True)
    _, found = changes_in(program, PINNING)
    assert found[Step.PIN,].pin_seconds.value == pytest.approx(2 * 13.5e-3, rel=0.01)
    assert "2 buffers of a round (100 MB)" in found[Step.PIN,].conditions[0]


def test_buffers_of_sizes_that_differ_are_as_large_as_their_sum():
    program = Program()
    for _ in range(20):
        for size in (MB // 100, MB // 100, 90 * MB):
            program.copy(size, down=True, host=PAGEABLE, wait=True)
        program.kernel(100.0)
    _, found = changes_in(program, PINNING)
    assert "3 buffers of a round (85.8 MiB)" in found[Step.PIN,].conditions[0]
    assert found[Step.PIN,].pin_seconds.value == pytest.approx(3e-3 + 90.02 * 0.25e-3, rel=0.01)


def test_what_the_host_stages_is_pinned_too():
    program = Program()
    for _ in range(20):
        program.host(5000.0)  # to copy 50 MB into a pinned buffer
        program.copy(50 * MB, down=True, host=PINNED)
        program.kernel(100.0)
        program.copy(100 * MB, down=False, host=PAGEABLE, wait=True)
    for language, seconds in ((CUPY, 13.5e-3 + 26e-3), (PYTORCH, 26e-3)):
        _, found = changes_in(program, PINNING, language)
        assert found[Step.PIN,].pin_seconds.value == pytest.approx(seconds, rel=0.01)


def test_many_queued_copies_back_are_waited_for_once():
    program = Program()
    for _ in range(20):
        program.kernel(1000.0)
        for _ in range(12):
            program.copy(2 * MB, down=False, host=PAGEABLE, wait=True)
            program.rows[-1]["asynchronous"] = True  # as cudaMemcpyAsync of pageable memory
        program.host(500.0)
    _, found = changes_in(program, PINNING)
    pin = found[Step.PIN,]
    assert pin.waits_once
    assert pin.remedy == "pin the host memory, and wait once for the 12 copies back of a round"
    assert "The host does not touch a buffer before it has waited for its copy." in pin.conditions
    _, waiting = changes(PINNING)
    assert not any(one.waits_once for one in waiting.values())


def test_pinned_chunks_are_waited_for_once_where_the_host_reads_them_all_at_the_end():
    """As PyTorch's `.cuda()` and `.cpu()`: asynchronous calls that pageable memory holds."""
    program = Program()
    for chunk in range(80):
        for down in (True, False):
            program.copy(2 * MB, down=down, host=PAGEABLE, wait=True)
            program.rows[-1]["asynchronous"] = True
            if down:
                program.kernel(500.0)
        program.host(60.0 if chunk % 8 < 7 else 2000.0)
    _, found = changes_in(program, PINNING)
    pin, both = found[Step.PIN,], found[Step.PIN, Step.ASYNC]
    assert both.worth
    assert not both.waits_once
    # on one stream the work hides the host's 60 µs, half of them as it reads from its cache, and
    # 6 to go on, but for each eighth round
    gained = both.round_gain_seconds.value - pin.round_gain_seconds.value
    assert gained * 1e6 == pytest.approx((60 / 2 + 6) * 7 / 8, rel=0.01)


def with_small_copies(size, kernel):
    program = Program()
    for _ in range(20):
        program.copy(size, down=True, host=PAGEABLE, wait=True)
        program.kernel(kernel)
        program.copy(size, down=False, host=PAGEABLE, wait=True)
        program.host(10.0)
    return program


def test_small_copies_are_pinned_for_more_than_large_ones():
    # by the replay each gains 2 to 3 % of a round
    small, large = (
        changes_in(with_small_copies(size, kernel), LINK)[1][Step.PIN,]
        for size, kernel in ((200_000, 700.0), (20 * MB, 120_000.0))
    )
    assert all(0.02 < change.effect < 0.03 for change in (small, large))
    assert large.worth
    assert re.search("gains 2.*less than 10% is not worth", small.why)
    _, found = changes_in(with_small_copies(200_000, 50.0), LINK)
    assert found[Step.PIN,].worth


def test_keeping_data_and_pinning_small_copies_has_to_gain_more():
    program = Carrying()
    for number in range(20):
        program.carry(50 * MB, 1, down=True, host=PAGEABLE)
        program.carry(200_000, 100 + number, down=True, host=PAGEABLE)
        program.kernel(1500.0)
        program.carry(200_000, 500 + number, down=False, host=PAGEABLE)
        program.host(10.0)
    (phase,) = find_phases(program.operations(), program.contents(), kernels=True)
    predict = predicting(Simple(), LINK)
    found = changes_of(phase, calibrate(phase, predict), predict, LINK)
    (both,) = (one for one in found if one.steps == (Step.KEEP, Step.PIN))
    assert both.why == "keep alone gains as much, within 5% of a round"
    assert found[0].steps == (Step.KEEP,)


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        pytest.param(lambda number: 1_000 + number, True, id="new"),
        pytest.param(lambda number: 1_000, False, id="the same"),
        pytest.param(lambda number: 1_000 + number % 4, False, id="by turns"),
        pytest.param(lambda number: None, False, id="not read"),
    ],
)
def test_what_the_host_may_decide_by_is_not_left_on_the_gpu(sent, answers):
    program = Carrying()
    for number in range(60):
        program.carry(512, sent(number), down=True)
        program.kernel(10.0)
        program.carry(256, 5_000 + number, down=False)
        program.host(3.0)
    _, found = changes_in(program, LINK)
    why = found[Step.DEFER,].why
    assert (why or "").startswith("what the host sends is little and new each time") == answers
    assert (why is None) == (not answers)
    assert "What a round sends to the GPU does not come" in " ".join(found[Step.DEFER,].conditions)


def test_much_new_data_does_not_come_of_what_the_host_reads():
    program = Carrying()
    for number in range(60):
        program.carry(200_000, 1_000 + number, down=True)
        program.kernel(10.0)
        program.carry(256, 5_000 + number, down=False)
        program.host(3.0)
    phase, found = changes_in(program, LINK)
    assert phase.new_bytes == 200_000
    assert not (found[Step.DEFER,].why or "").startswith("what the host sends")
