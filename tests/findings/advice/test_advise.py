"""What is advised of programs of which it is known what would make them faster."""

import re
from dataclasses import replace

import pytest

from lanescope.errors import InputError
from lanescope.findings.advice import advise
from lanescope.findings.advice.advice import KERNELS, Step
from lanescope.findings.advice.edits import copies_before_kernels
from lanescope.findings.advice.judge import BETWEEN_RUNS
from lanescope.prediction.predictor import Method, predictor_named
from lanescope.store.folder import State
from lanescope.studies.advise import Advised, phase_section
from lanescope.trace.limits import Ceilings
from lanescope.trace.run import SourceRecord
from lanescope.trace.side_tables import HostCopies
from lanescope.trace.store import read_watch
from lanescope.trace.timeline import Operations, Timeline
from lanescope.units.estimate import Estimate, TimeCurve
from tests.findings.advice.made_up import LINK, PINNED_ONLY, UNMAPPED, Simple
from tests.findings.advice.programs import (
    MANAGED,
    PAGEABLE,
    RATE,
    Program,
    looped,
    overlapped,
    run_of,
)
from tests.findings.advice.test_phases import H200, MB
from tests.printed import printed


def advice_of(*programs: Program, parameters=LINK, **columns):
    run = run_of(*(p.operations() for p in programs), **columns)
    return advise(run, parameters, Simple())


def only(program: Program, **columns):
    (phase,) = advice_of(program, **columns).phases
    return phase


def text_of(advice):
    return printed(Advised(advice).blocks())


def lines_of(phase):
    return printed([phase_section(phase, "")]).splitlines()


def change(phase, kind):
    (found,) = (c for c in phase.changes if c.kind == kind)
    return found


def test_pageable_memory_that_is_waited_for_is_pinned_and_overlapped():
    phase = only(looped(50, 100 * MB, 2000.0, host=PAGEABLE), parameters=UNMAPPED)
    assert phase.described
    assert abs(phase.error) < 0.01
    pin = change(phase, "pin")
    # of 22 ms, 10 ms each way become 1.8 ms
    assert pin.seconds.value == pytest.approx(2e-3 + 2 * 1.8e-3, rel=0.03)
    assert pin.round_gain_seconds.value == pytest.approx(22e-3 - 5.6e-3, rel=0.02)
    assert pin.gain_seconds.value == pytest.approx(50 * pin.round_gain_seconds.value)
    assert pin.seconds.low < pin.seconds.value < pin.seconds.high
    assert pin.round_gain_seconds.low < pin.round_gain_seconds.value < pin.round_gain_seconds.high
    best = phase.advised[0]
    assert best.kind == "pin+async+streams"
    assert best.seconds.value == pytest.approx(2e-3, rel=0.1)
    ahead = change(phase, "pin+prefetch")  # what goes in is hidden, what comes back is waited for
    assert ahead.seconds.value == pytest.approx(2e-3 + 1.8e-3, rel=0.1)
    gains = [c.round_gain_seconds.value for c in phase.advised]
    assert gains == sorted(gains, reverse=True)
    assert any("pinning takes longer" in condition for condition in pin.conditions)


def test_directions_to_move_the_same_data_exclude_each_other_and_pinning_does_not():
    phase = only(looped(50, 100 * MB, 2000.0, host=PAGEABLE))
    streams, mapped, pin = (change(phase, k) for k in ("pin+async+streams", "pin+mapped", "pin"))
    assert streams.excludes(mapped)
    assert mapped.excludes(streams)
    assert not pin.excludes(streams)
    assert not streams.excludes(streams)


def test_rewritten_kernels_come_after_all_other_changes():
    phase = only(looped(50, 100 * MB, 2000.0, host=PAGEABLE))
    worth = [bool(KERNELS & set(c.steps)) for c in phase.changes if c.worth]
    assert any(worth)
    assert worth == sorted(worth)
    others = [c for c in phase.changes if c.worth and not KERNELS & set(c.steps)]
    gains = [c.round_gain_seconds.value for c in others]
    assert gains == sorted(gains, reverse=True)


def test_pinned_and_serial_is_cut_into_streams():
    phase = only(looped(50, 100 * MB, 2000.0, wait=False), parameters=UNMAPPED)
    assert phase.phase.method is Method.EXPLICIT
    assert Step.PIN not in {step for c in phase.changes for step in c.steps}
    best = phase.advised[0]
    assert best.kind == "streams"
    assert best.streams > 8
    assert best.seconds.value == pytest.approx(2e-3, rel=0.1)
    assert change(phase, "prefetch").worth


def test_what_overlaps_perfectly_has_nothing_to_gain():
    phase = only(overlapped(40, 64, 100 * MB, 8000.0))
    assert phase.phase.method is Method.STREAMS
    assert phase.described
    assert phase.advised == ()
    assert phase.not_worth
    for one in phase.not_worth:
        assert "not worth a change" in one.why or "within the error" in one.why


def test_small_copies_are_gathered():
    program = Program()
    for _ in range(20):
        for _ in range(1000):
            program.copy(4096, down=True, wait=True)
        program.kernel(500.0)
        program.copy(1 * MB, down=False, wait=True)
    phase = only(program)
    batch = change(phase, "batch")
    assert batch.worth
    assert "1000 h2d copies of a round into 1" in batch.remedy
    # 1000 waits of 8 µs become one copy of 75 µs
    assert batch.round_gain_seconds.value > 0.8 * phase.phase.seconds.value
    assert any("one buffer" in condition for condition in batch.conditions)


def test_pageable_results_are_pinned_and_looked_at_while_the_gpu_goes_on():
    program = Program()
    for _ in range(40):
        program.kernel(1000.0)
        program.copy(20 * MB, down=False, host=PAGEABLE, wait=True)
        program.host(900.0)  # of 3.9 ms, more than 10 % besides what pinned memory gains
    phase = only(program)
    both = change(phase, "pin+defer")
    assert both is phase.advised[0]
    assert "two pinned buffers" in both.remedy
    assert any("the results of two rounds" in condition for condition in both.conditions)
    # of 1 ms, 2 ms for the copy and 0.9 of the host the copy's 0.36 ms and the kernel stay
    assert both.seconds.value == pytest.approx(1.4e-3, rel=0.1)


def test_few_bytes_that_come_back_are_left_on_the_gpu_without_pinned_memory():
    program = Program()
    for _ in range(40):
        program.kernel(100.0)
        program.copy(8, down=False, host=PAGEABLE, wait=True)
        program.host(10.0)
    kinds = {change.kind for change in only(program).changes}
    assert "defer" in kinds
    assert "pin+defer" not in kinds


@pytest.mark.parametrize("sizes", [(8, 256), (256, 256)])
def test_of_two_results_the_host_may_decide_by_the_smaller_one(sizes):
    program = Program()
    for _ in range(60):
        program.kernel(10.0)
        for size in sizes:
            program.copy(size, down=False, host=PAGEABLE, wait=True)
        program.host(3.0)
    defer = change(only(program), "defer")
    said = [one for one in defer.conditions if one.startswith("Where the host decides by")]
    assert len(said) == (sizes[0] != sizes[1])
    for one in said:
        gain = float(re.search(r"by the 8 B alone, .* gains ([\d.]+) µs of a round", one)[1])
        assert 5 < gain < 0.7e6 * defer.round_gain_seconds.value


def test_kernels_read_and_write_the_few_bytes_of_a_round_in_place():
    program = Program()
    for _ in range(60):
        program.copy(512, down=True, host=PAGEABLE, wait=True)
        program.kernel(10.0)
        program.copy(256, down=False, host=PAGEABLE, wait=True)
        program.host(3.0)
    phase = only(program)
    mapped = change(phase, "pin+mapped")
    assert mapped.evidence[0].startswith("replay of")
    assert any("no more than 512 bytes" in condition for condition in mapped.conditions)
    # a launch of 3 µs, the kernel, 4 lines read and one written of 1.2 µs each, to wake up from the
    # wait 6, and 3 of the host
    assert mapped.seconds.value == pytest.approx(28e-6, rel=0.1)


def test_larger_copies_or_many_kernels_are_not_replayed_in_place():
    def mapped(size, kernels):
        program = Program()
        for _ in range(60):
            program.copy(size, down=True, wait=True)
            for _ in range(kernels):
                program.kernel(10.0)
            program.copy(256, down=False, wait=True)
        return [one for one in only(program).changes if Step.MAPPED in one.steps]

    assert all("model of Implicit" in one.evidence[0] for one in mapped(1 * MB, 1))
    assert all("model of Implicit" in one.evidence[0] for one in mapped(512, 8))
    assert [one.evidence[0][:9] for one in mapped(512, 1)] == ["replay of"]


def piecemeal(kernel: float = 2.0, pieces: int = 40) -> Program:
    """A loop of small copies, a kernel behind each, then a long one and what it returns."""
    program = Program()
    for number in range(30):
        for piece in range(pieces):
            size = 20_000 + 100 * ((7 * piece + number) % 50)
            program.copy(size, down=True, host=PAGEABLE, wait=True)
            program.kernel(kernel)
            program.host(5.0)
        program.kernel(1500.0)
        program.copy(40_000, down=False, wait=True)
        program.host(100.0)
    return program


def test_small_copies_between_short_kernels_are_gathered():
    phase = only(piecemeal())
    assert phase.phase.rounds == 30
    batch = change(phase, "pin+batch")
    assert batch.worth
    assert "40 h2d copies of a round into 1" in batch.remedy
    assert any("before the kernels between them run" in one for one in batch.conditions)
    # 39 waits of 7 µs and calls; the kernels' launches and the host's pauses stay
    assert 39 * 5e-6 < batch.round_gain_seconds.value < 39 * 15e-6


def test_a_round_is_each_small_copy_where_very_many_follow_each_other():
    found = advice_of(piecemeal(pieces=600)).phases
    assert max(one.phase.rounds for one in found) > 30 * 500


def test_copies_stay_where_they_are_between_long_kernels():
    tasks = list(only(piecemeal(kernel=200.0)).phase.schedule.tasks)
    assert copies_before_kernels(tasks) == tasks


def test_what_gains_next_to_nothing_of_all_that_repeats_is_not_worth_it():
    program = Program()
    for number in range(3000):
        program.copy(1 * MB, down=True)
        program.kernel(1000.0)
        program.copy(1 * MB, down=False, wait=True)
        program.host(100.0)
        if number % 100 == 0:
            program.copy(3 * MB, down=True, host=PAGEABLE, wait=True)
            program.kernel(2000.0)
            program.copy(3 * MB, down=False, wait=True)
            program.host(100.0)
    rare = next(one for one in advice_of(program).phases if one.phase.rounds == 30)
    assert change(rare, "pin").effect > 0.1
    assert change(rare, "pin").why == "it gains less than 0.5% of all that the program repeats"


def test_small_copies_that_follow_each_other_without_waiting_gain_less():
    def program(wait):
        made = Program()
        for _ in range(20):
            for _ in range(200):
                made.copy(4096, down=True, wait=wait)
            made.kernel(5000.0)
            made.copy(1 * MB, down=False, wait=True)
        return made

    waiting, queued = (change(only(program(wait)), "batch") for wait in (True, False))
    assert waiting.round_gain_seconds.value > 2 * queued.round_gain_seconds.value > 0


def test_kernels_that_take_nearly_all_leave_nothing_worth_it():
    phase = only(looped(20, 1 * MB, 50_000.0, host=PAGEABLE))
    assert phase.described
    assert phase.advised == ()
    assert all(re.search(r"less than ([135]|10)%", c.why) for c in phase.not_worth)
    assert "1 kernel or memset" in text_of(advice_of(looped(20, 1 * MB, 50_000.0)))


@pytest.mark.parametrize("jitter", [0.02, 0.1])
def test_jitter_widens_intervals_and_keeps_the_advice(jitter):
    calm = only(looped(200, 100 * MB, 2000.0, host=PAGEABLE))
    shaky = only(looped(200, 100 * MB, 2000.0, host=PAGEABLE, jitter=jitter))
    assert [c.kind for c in shaky.advised] == [c.kind for c in calm.advised]

    def width(one: Estimate) -> float:
        return one.high - one.low

    assert width(change(shaky, "pin").round_gain_seconds) > width(
        change(calm, "pin").round_gain_seconds
    )


def test_what_the_model_is_wrong_about_scales_and_bounds_what_it_predicts():
    slower = replace(
        LINK, pageable_h2d=LINK.pageable_d2h, h2d=LINK.h2d, d2h=LINK.d2h, name="slower"
    )
    program = looped(50, 100 * MB, 5000.0, host=PAGEABLE, between=10.0)
    for row in program.rows:  # everything took 10 % longer than such a link would
        row["end_ns"] = row["start_ns"] + round((row["end_ns"] - row["start_ns"]) * 1.0)
    exact = only(program, parameters=slower)
    fast = replace(
        LINK,
        pageable_h2d=replace(LINK.pageable_h2d, per_byte=Estimate.exactly(1e-9 / 12)),
        pageable_d2h=replace(LINK.pageable_d2h, per_byte=Estimate.exactly(1e-9 / 12)),
    )
    off = only(program, parameters=fast)
    # 2 times 10 ms are predicted as 2 times 8.33 ms, of 25 ms
    assert off.error == pytest.approx(-3.33 / 25, abs=0.005)
    assert off.described
    between = exact.base_seconds - exact.phase.seconds.value  # of two rounds; no change touches it
    before, after = (
        change(one, "pin+async+streams").seconds.map(lambda seconds: seconds - between)
        for one in (exact, off)
    )
    assert after.value == pytest.approx(before.value / (1 + off.error), rel=0.01)
    assert after.low < before.value < after.high
    assert after.high / after.value - 1 >= abs(off.error)


def test_results_that_lie_in_new_pages_every_other_time_are_pinned(monkeypatch):
    """Rounds are of two kinds, so that their median says little; their mean is known."""
    program = Program()
    for number in range(200):
        program.kernel(1600.0)
        monkeypatch.setitem(RATE, PAGEABLE, 2_000 if number % 9 < 5 else 14_000)
        program.copy(16 * MB, down=False, host=PAGEABLE, wait=True)
    phase = only(program)
    middle = phase.phase.seconds
    mean = phase.phase.mean_seconds
    assert middle.value - middle.low > 10 * (mean.value - mean.low) > 0
    assert re.search(r"of 9.61 ms \(2.75 to 9.61 ms\), 6.5\d ms in the mean", lines_of(phase)[1])
    pin = change(phase, "pin")
    assert pin.worth
    assert pin.round_gain_seconds.low > 0


def test_a_phase_that_the_model_does_not_describe_is_told_and_not_advised_on():
    program = looped(50, 100 * MB, 500.0, host=PAGEABLE)
    fast = replace(
        LINK,
        pageable_h2d=replace(LINK.pageable_h2d, per_byte=Estimate.exactly(1e-9 / 30)),
        pageable_d2h=replace(LINK.pageable_d2h, per_byte=Estimate.exactly(1e-9 / 30)),
    )
    advice = advice_of(program, parameters=fast)
    (phase,) = advice.phases
    assert not phase.described
    assert {c.kind for c in phase.changes} == {"pin", "pin+prefetch"}  # by replay
    assert phase.error == pytest.approx(-0.65, abs=0.02)
    assert "less than it took, more than the 25%" in phase.reason
    assert "The model does not describe this phase" in text_of(advice)


def test_memory_that_was_not_measured_or_is_not_known():
    phase = only(looped(20, 100 * MB, host=PAGEABLE), parameters=PINNED_ONLY)
    assert (phase.described, phase.error) == (False, None)
    assert "pageable memory was not measured" in phase.reason
    phase = only(looped(20, 100 * MB), parameters=UNMAPPED)
    assert not {Step.MAPPED, Step.HYBRID} & {s for c in phase.changes for s in c.steps}
    assert (
        "no model knows copies of this memory (managed)" in only(looped(5, MB, host=MANAGED)).reason
    )
    program = Program()
    for _ in range(20):
        program.copy(10 * MB, down=True)
        program.kernel(100.0)
        program.copy(10 * MB, down=False, host=PAGEABLE, wait=True)
    assert only(program).reason == (
        "no model knows rounds of which half is pinned and half is pageable memory"
    )


def test_without_kernels_only_copies_are_advised_on_and_what_to_run_is_told():
    rows = looped(20, 100 * MB, 4000.0, host=PAGEABLE).operations()
    run = run_of(rows.rows(~rows.is_kernel), command="lanescope watch -- ./app")
    (phase,) = advise(run, LINK, Simple()).phases
    assert phase.described
    assert [c.kind for c in phase.advised] == ["pin"]
    assert phase.advised[0].round_gain_seconds.value == pytest.approx(16.4e-3, rel=0.02)
    assert "lanescope advise -- PROGRAM" in phase.notes[0]
    run = run_of(rows.rows(~rows.is_kernel), command="lanescope report it's.sqlite")
    assert advise(run, LINK, Simple()).phases[0].phase.kernel_seconds is None
    # where kernels were asked for and there are none, their time is known: none
    (phase,) = advise(run_of(rows.rows(~rows.is_kernel)), LINK, Simple()).phases
    assert phase.phase.kernel_seconds.value == 0


def test_copies_in_turns_gain_by_going_both_directions_at_once():
    phase = only(looped(40, 64 * MB, 0.0, wait=False))
    best = phase.advised[0]
    assert "both ways at once" in " ".join(c.remedy for c in phase.advised)
    assert best.round_gain_seconds.value / phase.phase.seconds.value == pytest.approx(
        0.48, abs=0.05
    )


@pytest.mark.parametrize(("kernel", "advised"), [(150.0, False), (80.0, True)])
@pytest.mark.parametrize("sent", [0, 512, 1 * MB])
def test_results_are_read_later_for_a_tenth_of_a_round_and_more_alone(sent, kernel, advised):
    program = Program()
    for _ in range(200):
        if sent:
            program.copy(sent, down=True, wait=False)
        program.kernel(kernel)
        program.copy(4, down=False, wait=True)
        program.host(5.0)
    defer = change(only(program), "defer")
    assert 0.03 < defer.effect < 0.2
    assert defer.worth is advised
    assert ("does not come of" in " ".join(defer.conditions)) is (sent == 512)


def test_the_interval_of_a_gain_holds_what_rounds_differ_from_run_to_run():
    phase = only(looped(40, 64 * MB, 8000.0, host=PAGEABLE))
    pin = change(phase, "pin")
    gain, before = pin.round_gain_seconds, phase.base_seconds
    assert gain.value - gain.low >= BETWEEN_RUNS * before
    assert gain.value - gain.low < BETWEEN_RUNS * before + 0.3 * gain.value
    assert pin.seconds.high - pin.seconds.value < gain.value - gain.low  # as rounds are in this run
    small = only(looped(40, 64 * MB, 400_000.0, host=PAGEABLE))
    little = change(small, "pin")
    assert little.effect < 0.05
    assert little.worth  # by what is predicted of this run
    assert little.round_gain_seconds.low < 0


def test_the_start_of_what_ran_once_is_no_part_of_what_differs():
    program = Program()
    program.copy(400 * MB, down=True, host=PAGEABLE, wait=True)
    program.host(5_000_000.0)
    program.kernel(1000.0)
    program.copy(400 * MB, down=False, host=PAGEABLE, wait=True)
    pin = change(only(program), "pin")
    assert pin.seconds.value > 5.0
    assert pin.round_gain_seconds.low > 0  # 60 ms of 5 s


def test_results_that_the_host_works_on_are_looked_at_while_the_gpu_goes_on():
    program = Program()
    for _ in range(50):
        program.kernel(2000.0)
        program.copy(16 * MB, down=False, wait=True)
        program.host(3000.0)
    phase = only(program)
    defer = phase.advised[0]
    assert defer.kind == "defer"
    assert defer.seconds.value == pytest.approx(3.0e-3, rel=0.05)  # in place of 5.3 ms
    assert "while the GPU makes the next ones" in defer.remedy
    assert "Nothing that the GPU does next depends on what the host" in defer.conditions[0]
    assert [one.what for one in defer.code] == ["defer-results"]
    answering = looped(50, 16 * MB, 2000.0, between=3000.0)  # it sends what may come of them
    assert not any("defer" in one.kind for one in only(answering).advised)


def test_copies_of_one_direction_alone_have_nothing_to_overlap_with():
    program = Program()
    for _ in range(30):
        for _ in range(5):
            program.copy(1 * MB, down=True, wait=True)
        program.host(20_000.0)
    phase = only(program)
    assert [c.kind for c in phase.changes] == ["async", "batch"]  # gathering 5 MB takes 1 ms


@pytest.mark.parametrize("name", ["replay", "equations"])
def test_each_predictor_describes_programs_that_are_as_it_says(name):
    found = {}
    for kind, program in (
        ("pageable", looped(50, 100 * MB, 2000.0, host=PAGEABLE)),
        ("serial", looped(50, 100 * MB, 2000.0, wait=False)),
        ("overlapped", overlapped(40, 64, 100 * MB, 8000.0)),
        ("turns", looped(40, 64 * MB, 0.0, wait=False)),
    ):
        (phase,) = advise(run_of(program.operations()), LINK, predictor_named(name)).phases
        assert abs(phase.error) < 0.02, kind
        found[kind] = phase
    assert {c.kind for c in found["pageable"].advised} >= {"pin", "pin+async+streams"}
    assert {c.kind for c in found["serial"].advised} >= {"streams", "prefetch", "mapped"}
    assert found["overlapped"].advised == ()
    turns = found["turns"]
    between = turns.base_seconds - turns.phase.seconds.value
    both = change(turns, "streams").seconds.value - between
    assert both == pytest.approx(64e6 / 51.5e9, rel=0.1)


def test_several_processes_and_gpus_are_told_to_be_predicted_apart():
    advice = advice_of(
        looped(12, 50 * MB, pid=1, gpu=0), looped(12, 50 * MB, pid=1, gpu=1), looped(9, MB, pid=2)
    )
    assert [(p.phase.pid, p.phase.gpu) for p in advice.phases] == [(1, 0), (1, 1), (2, 0)]
    assert any("3 pairs of process and GPU" in note for note in advice.notes)
    text = text_of(advice)
    assert "Process 1 (./app) on g1, phase 1" in text


def test_memory_of_a_far_node_holds_without_the_model():
    program = looped(50, 100 * MB, 1000.0)
    rows = program.operations()
    down = rows.rows(rows.source_device == -1)
    down = down.rows(down.is_copy)
    run = run_of(rows, host_copies=far_copies(rows))
    rates = {(0, "h2d", 0): 55.0, (0, "h2d", 1): 40.0}
    ceilings = Ceilings({(0, "h2d"): 55.0}, "measured in a run", rates)
    (phase,) = advise(run, replace(LINK, h2d=replace(LINK.h2d, per_byte=Estimate.exactly(1e-12))),
                      Simple(), ceilings).phases  # fmt: skip
    place = change(phase, "place")
    assert place.round_gain_seconds.value == pytest.approx(0.1 / 40.0 - 0.1 / 55.0, rel=1e-6)
    assert place.worth
    assert "NUMA node" in place.remedy
    assert "as measured here before" in place.evidence[0]
    assert not phase.described
    # no more than the copies take, whatever other rates are
    slow = Ceilings({(0, "h2d"): 55.0}, "measured in a run", {**rates, (0, "h2d", 1): 1.0})
    (phase,) = advise(run, LINK, Simple(), slow).phases
    place = change(phase, "place")
    assert place.round_gain_seconds.value == pytest.approx(phase.phase.h2d_seconds.value)
    assert place.seconds.low > 0
    (phase,) = advise(run, LINK, Simple()).phases
    assert any("no gain is told" in note.lower() for note in phase.notes)


def far_copies(rows):
    down = rows.rows(rows.is_copy & (rows.source_device == -1))
    n = len(down)
    return HostCopies.of(
        pid=down.pid, correlation=down.correlation, source=[1] * n, destination=[2] * n,
        bytes=down.bytes, node=[1] * n, hash=[0] * n, hashed=[0] * n, read_begin_ns=[0] * n,
        read_ns=[0] * n,
        same_bytes=[0] * n,
    )  # fmt: skip


def placed(*programs):
    rates = {(0, "h2d", 0): 55.0, (0, "h2d", 1): 40.0}
    rows = Operations.concat([program.operations() for program in programs])
    run = run_of(rows, host_copies=far_copies(rows))
    return advise(run, LINK, Simple(), Ceilings({(0, "h2d"): 55.0}, "measured", rates)).phases


def test_nearer_memory_of_copies_that_are_hidden_may_gain_nothing():
    (phase,) = placed(overlapped(40, 16, 100 * MB, 8000.0))
    place = change(phase, "place")
    assert place.round_gain_seconds.low == 0
    assert not place.worth
    assert place.seconds.low <= place.seconds.value <= place.seconds.high
    (text,) = (line for line in lines_of(phase) if "place: " in line)
    assert "is within the error" in text


def test_phases_that_are_not_told_take_their_part_of_what_nearer_memory_gains():
    often, once = looped(50, 100 * MB, 1000.0), Program(now=3_000_000.0)
    once.copy(60 * MB, down=True, wait=True)
    once._number = 10_000
    both = Program(rows=[*often.rows, *({**row, "correlation": 9999} for row in once.rows)])
    (phase,) = placed(both)
    place = change(phase, "place")
    assert place.round_gain_seconds.value == pytest.approx(0.1 / 40.0 - 0.1 / 55.0, rel=1e-6)


def test_kernels_too_short_to_have_moved_what_was_copied_are_not_told_to():
    phase = only(looped(20, 1000 * MB, 50.0, wait=False))
    assert phase.described
    assert not {Step.MAPPED, Step.HYBRID} & {s for c in phase.changes for s in c.steps}
    longer = only(looped(20, 1000 * MB, 500.0, wait=False))
    assert {Step.MAPPED, Step.HYBRID} <= {s for c in longer.changes for s in c.steps}


def test_conditions_on_kernels_are_told_where_there_are_some():
    without, with_one = (
        change(only(looped(40, 64 * MB, kernel, wait=False)), "streams").conditions
        for kernel in (0.0, 1000.0)
    )
    assert not any("kernels take" in condition for condition in without)
    assert any("kernels take as long in parts" in condition for condition in with_one)


def test_negative_ends_of_intervals_are_told_with_their_sign():
    (phase,) = advice_of(looped(20, 100 * MB, 2000.0, host=PAGEABLE)).phases
    loss = replace(phase.changes[0], round_gain_seconds=Estimate(-3e-3, -5e-3, -1e-3))
    lines = lines_of(replace(phase, changes=(loss,)))
    assert any("-3.00 ms (-5.00 ms to -1.00 ms)" in line for line in lines)


def test_a_run_of_another_gpu_is_told():
    advice = advice_of(looped(5, MB), parameters=replace(LINK, gpu="NVIDIA A100"))
    assert any("are of NVIDIA A100" in note for note in advice.notes)
    assert advice_of(looped(5, MB)).notes == ()


def test_a_watch_without_copies_is_a_sentence():
    run = run_of(looped(1, MB).operations())
    empty = Timeline(1, 1_000_000_000)
    with pytest.raises(InputError, match="holds no copies: nothing was traced"):
        advise(replace(run, timeline=empty), LINK, Simple())
    refused = SourceRecord("trace", False, "libcupti was not found.")
    manifest = replace(run.manifest, sources=(refused,), state=State.COMPLETE)
    with pytest.raises(InputError, match="libcupti was not found"):
        advise(replace(run, timeline=empty, manifest=manifest), LINK, Simple())
    alone = Program()
    alone.kernel(100.0)
    with pytest.raises(InputError, match="no copies between the host and a GPU"):
        advise(run_of(alone.operations()), LINK, Simple())
    assert len(Operations.empty()) == 0


def test_the_vector_addition_of_an_h200_is_told_to_pin_and_to_overlap():
    (phase,) = advise(read_watch(H200 / "vector-add"), LINK, Simple()).phases
    assert phase.described
    assert [c.kind for c in phase.advised[:2]] == ["pin", "pin+async+streams"]
    # 800 MB each way at 55 GB/s, of 157 ms
    pin = change(phase, "pin")
    assert pin.seconds.value == pytest.approx(29e-3, rel=0.05)
    assert any("It ran once" in note for note in phase.notes)
    assert any("it ran once here" in condition for condition in pin.conditions)
    assert pin.gain_seconds is None  # of this run: nobody knows what it takes to pin
    # to wait once in place of four times gains 13 µs more of 157 ms
    assert change(phase, "pin+async").why.startswith("pin alone gains as much")


def test_the_matrix_product_of_an_h200_has_nothing_to_gain():
    (phase,) = advise(read_watch(H200 / "matmul"), LINK, Simple()).phases
    assert phase.described
    assert phase.advised == ()
    streams = change(phase, "pin+async+streams")
    assert any("all 301 kernels" in condition for condition in streams.conditions)


def test_copies_in_turns_of_an_h200_are_told_to_go_both_directions():
    run = read_watch(H200 / "thesis" / "load-with-copies" / "sources-1")
    (phase,) = (p for p in advise(run, LINK, Simple()).phases if p.phase.rounds == 66)
    assert phase.error == pytest.approx(0, abs=0.02)
    assert change(phase, "streams").worth


def test_json_has_every_number_with_its_interval_and_its_kind():
    told = Advised(advice_of(looped(20, 100 * MB, 2000.0, host=PAGEABLE))).as_dict()
    (phase,) = told["phases"]
    assert set(phase["measured"]["seconds"]) == {"value", "low", "high"}
    assert phase["method"] == "Pageable"
    assert phase["changes"][0]["excludes"]
    for one in phase["changes"]:
        for key in ("predicted_seconds", "predicted_gain_seconds", "predicted_run_gain_seconds"):
            assert one[key]["low"] <= one[key]["value"] <= one[key]["high"]


def test_of_changes_that_gain_much_the_same_that_which_asks_less_stands_first():
    program = Program()
    for _ in range(50):  # 10.2 ms, of which pinned memory leaves 2 ms, and prefetching 1.8 ms
        program.copy(100 * MB, down=True, host=PAGEABLE, wait=True)
        program.kernel(200.0)
        program.copy(10_000, down=False, wait=True)
    phase = only(program)
    pin, ahead = change(phase, "pin"), change(phase, "pin+prefetch")
    assert pin.asks < ahead.asks < change(phase, "pin+async+streams").asks
    assert pin.round_gain_seconds.value < ahead.round_gain_seconds.value
    assert phase.advised.index(pin) < phase.advised.index(ahead)
    larger = only(looped(50, 100 * MB, 2000.0, host=PAGEABLE, wait=False))
    assert change(larger, "pin+prefetch").effect > change(larger, "pin").effect + 0.05
    kinds = [one.kind for one in larger.advised]
    assert kinds.index("pin+prefetch") < kinds.index("pin")


def test_small_copies_are_gathered_in_a_buffer_that_is_pinned_at_no_cost():
    program = Program()
    for _ in range(20):
        for _ in range(64):
            program.copy(4096, down=True, host=PAGEABLE, wait=True)
        program.host(5000.0)
    phase = only(program)
    assert phase.advised[0].kind == "pin+batch"
    assert "batch" not in {one.kind for one in phase.changes}
    assert phase.advised[0].remedy.startswith("gather the 64 h2d copies of a round into 1")


def test_copies_of_one_direction_that_never_pause_are_rounds_all_the_same():
    program = Program()
    for _ in range(5000):
        program.copy(1024, down=True, host=PAGEABLE, wait=True)
    phase = only(program)
    assert phase.phase.rounds == 5000 // 64
    assert phase.advised[0].kind == "pin+batch"


def test_a_single_run_has_to_gain_more_than_pinning_takes():
    little = only(looped(1, 1 * MB, 5000.0, host=PAGEABLE))  # of 5.2 ms, 0.16 ms
    assert little.advised == ()
    assert "of what ran once is not worth a change" in change(little, "pin").why
    much = only(looped(1, 2000 * MB, 2000.0, host=PAGEABLE))  # 0.36 of 10 s
    assert change(much, "pin").worth
    pinning = TimeCurve((1 * MB, 1000 * MB), (Estimate.exactly(1e-3), Estimate.exactly(1.0)))
    known = only(looped(1, 100 * MB, host=PAGEABLE), parameters=replace(LINK, pinning=pinning))
    pin = change(known, "pin")  # of 21 ms, 16.4 ms; 0.2 s to pin
    assert "it pays from 13 times on" in pin.why
    assert pin.gain_seconds.value < 0
    assert known.advised == ()


def test_a_phase_that_is_nothing_of_the_watch_is_not_advised_on():
    program = looped(1, 100_000, 10.0, host=PAGEABLE)  # 60 µs of 10 s
    phase = only(program)
    assert phase.advised == ()
    assert {one.why for one in phase.changes} >= {
        "its phase has less than 0.1% of the watched time"
    }


def test_the_phase_whose_first_advice_gains_most_comes_first():
    program = looped(1, 400 * MB, 200_000.0)  # long, and nothing to gain
    for _ in range(100):
        program.copy(20 * MB, down=True, host=PAGEABLE, wait=True)
        program.kernel(100.0)
        program.copy(10 * MB, down=False, host=PAGEABLE, wait=True)
    gains = [
        phase.advised[0].gain_seconds.value if phase.advised else 0.0
        for phase in advice_of(program).phases
    ]
    assert len(gains) > 1
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0


WATCHES = sorted(
    one.parent for one in (H200.parent.parent).glob("*/**/operations.parquet")
    if "advise/second" in str(one) or "h200-x1/watch" in str(one)
)  # fmt: skip


CODE = ("  + ", "  - ")  # lines of code begin so


@pytest.mark.parametrize("watch", WATCHES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_no_stored_watch_gains_more_than_it_took(watch):
    run = read_watch(watch)
    if not len(run.timeline.operations):
        with pytest.raises(InputError, match="holds no copies"):
            advise(run, LINK, Simple())
        return
    advice = advise(run, LINK, Simple())
    for one in advice.phases:
        for found in one.changes:
            assert found.round_gain_seconds.high <= one.base_seconds
            assert found.seconds.low >= 0
            assert found.code
            if found.worth:
                assert found.round_gain_seconds.value > 0  # another run may gain nothing
                assert found.effect >= 0.01
            if found.worth and found.gain_seconds is not None:
                assert found.gain_seconds.value <= advice.seconds
        best = [found.effect for found in one.advised]
        assert not best or best[0] >= max(best) - 2 * 0.05 or set(one.advised[0].steps) & KERNELS
    text = "\n".join(line for line in text_of(advice).splitlines() if line[:4] not in CODE)
    for nonsense in ("nan", "inf ", "-0 ", "None", "  ,"):
        assert nonsense not in text


def test_a_python_program_without_kernels_gets_pytorch_code_and_a_note():
    rows = looped(20, 100 * MB, 4000.0, host=PAGEABLE).operations()
    run = run_of(rows.rows(~rows.is_kernel))
    (process,) = run.timeline.processes
    python = (replace(process, command="/usr/bin/python3 app.py"),)
    advice = advise(replace(run, timeline=replace(run.timeline, processes=python)), LINK, Simple())
    assert advice.phases[0].advised[0].code[0].language == "PyTorch"
    assert any("the code is PyTorch's" in note for note in advice.notes)
    assert not any("PyTorch" in note for note in advise(run, LINK, Simple()).notes)


def test_what_ran_once_has_to_gain_two_percent_of_the_watch_whatever_pinning_takes():
    program = Program()
    program.copy(500 * MB, down=True, host=PAGEABLE, wait=True)  # 0.04 of the 10 s that ran
    program.copy(4, down=False, wait=True)
    program.host(100.0)
    for _ in range(60):
        program.copy(1 * MB, down=True, wait=True)
        program.kernel(90_000.0)
        program.copy(1 * MB, down=False, wait=True)
    (once,) = (one for one in advice_of(program).phases if one.phase.rounds_in_run == 1)
    pin = change(once, "pin")
    assert pin.gain_seconds is None
    assert pin.effect > 0.2
    assert "2% of the watched time" in pin.why


def test_what_gains_nearly_as_much_as_reading_results_later_comes_first():
    """It asks nothing of what the host does with the results."""
    program = Program()
    for _ in range(20):
        program.copy(90_000, down=True, wait=True)
        program.kernel(3.0)
        for _ in range(100):
            program.copy(32, down=False, host=PAGEABLE, wait=True)
        program.host(40.0)
    kinds = [one.kind for one in only(program).changes if one.worth]
    batch, later = (change(only(program), kind) for kind in ("pin+batch", "defer"))
    gains = [one.round_gain_seconds.value for one in (batch, later)]
    assert 0.8 * gains[1] < gains[0] < gains[1]
    assert kinds.index("pin+batch") < kinds.index("defer")
