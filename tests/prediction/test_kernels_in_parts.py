"""Kernels whose parts take longer than their share, or that read mapped memory in steps."""

from dataclasses import replace
from pathlib import Path

import pytest

from lanescope.errors import InputError
from lanescope.prediction.equations import Equations
from lanescope.prediction.explanation import caveats, why
from lanescope.prediction.graphs import Task, TaskGraph, TaskKind, graph_for
from lanescope.prediction.parameters import Duplex
from lanescope.prediction.predictor import Method, Workload
from lanescope.prediction.rank import rank
from lanescope.prediction.replay import Replay, replay
from lanescope.studies.analysis import Silent
from lanescope.studies.predict import Predict, kernel_parts, watched_part
from lanescope.units.estimate import TimeCurve
from tests.prediction.machines import direction, duplex, exactly, link, mapped

WORK = Workload(1 << 20, 1 << 20, 8e-3, kernel_parts=((4, 3e-3), (8, 2.5e-3)))


def test_parts_take_what_was_timed_and_lines_between():
    assert WORK.part_seconds(1.0) == 8e-3
    assert WORK.part_seconds(1 / 4) == pytest.approx(3e-3)
    assert WORK.part_seconds(1 / 2) == pytest.approx(3e-3 + 5e-3 / 3)
    assert WORK.part_seconds(1 / 16) == pytest.approx(2.25e-3)
    assert Workload(8, 8, 1.0).part_seconds(1 / 4) == 0.25
    # never faster than the pace of the whole
    steep = Workload(8, 8, 1.0, kernel_parts=((2, 0.6), (4, 0.26)))
    assert steep.part_seconds(1 / 64) == pytest.approx(1 / 64)


def test_small_kernels_run_at_the_same_time():
    small = [Task(TaskKind.KERNEL, i, seconds=1.0, alone=4.0) for i in range(4)]
    assert replay(TaskGraph(tuple(small)), link()).seconds == pytest.approx(4.0)
    full = [Task(TaskKind.KERNEL, i, seconds=1.0, alone=1.0) for i in range(4)]
    assert replay(TaskGraph(tuple(full)), link()).seconds == pytest.approx(4.0)
    # the first ones are served first: the second of two that want three quarters gets the rest
    pair = [Task(TaskKind.KERNEL, i, seconds=3.0, alone=4.0) for i in range(2)]
    found = replay(TaskGraph(tuple(pair)), link())
    assert found.end[0] == pytest.approx(4.0)
    assert found.end[1] == pytest.approx(4.0 + 2.0 / 0.75)


def test_parts_that_take_as_long_as_half_gain_little():
    plain = rank(replace(WORK, kernel_parts=()), link(), Replay(), (1, 2, 4, 8, 16, 32))
    parts = rank(WORK, link(), Replay(), (1, 2, 4, 8, 16, 32))
    one, other = (r.curves[Method.STREAMS] for r in (plain, parts))
    assert other.best.seconds.value > one.best.seconds.value
    # four parts of 3 ms each fill the GPU only three quarters as long as it takes them
    assert other.best.seconds.value > 8e-3 + 0.25e-3


def test_equations_say_that_they_know_no_parts():
    (sentence,) = [
        s for s in caveats(rank(WORK, link(), Equations(), (1, 4))) if "--predictor" in s
    ]
    assert "neither the kernel's time in parts nor its steps" in sentence
    assert not any("--predictor" in s for s in caveats(rank(WORK, link(), Replay(), (1, 4))))


def test_steps_leave_what_nothing_hides():
    machine = link(mapped=mapped())
    work = Workload(10**9, 10**9, 1.0)
    many = Replay().value(work, Method.IMPLICIT, 1, machine)
    assert many == pytest.approx(1.0)
    for steps, expected in ((1, 3.0), (2, 2.0), (100, 1.02)):
        found = Replay().value(replace(work, steps=steps), Method.IMPLICIT, 1, machine)
        assert found == pytest.approx(expected)


def test_one_step_is_one():
    work = replace(Workload(10**9, 10**9, 1.0), steps=1)
    assert "in whole lines and in one step" in why(
        rank(work, link(mapped=mapped()), Replay(), (1,))
    )


def test_methods_with_mapped_memory_are_chosen_only_by_who_knows_the_kernel():
    machine = link(mapped=mapped(), explicit_mapped=duplex(1e-9, 1e-9))
    work = Workload(10**9, 10**9, 0.0)
    known = rank(work, machine, Replay(), (1, 2, 4))
    assert known.chosen is known.winner
    assert known.winner.method is Method.IMPLICIT
    assumed = rank(replace(work, mapped_assumed=True), machine, Replay(), (1, 2, 4))
    assert assumed.winner.method is Method.IMPLICIT
    assert assumed.chosen.method is Method.STREAMS


def test_short_copies_both_ways_have_a_gap_of_their_own():
    gaps = TimeCurve((1000, 10**6), (exactly(1e-6), exactly(1e-4)))
    both = Duplex(exactly(1e-9), exactly(1e-9), exactly(1.0), gaps)
    copies = direction(per_byte=1e-9)
    work = Workload(4000, 4000, 0.0)
    graph = graph_for(work, Method.STREAMS, 4)
    plain = replay(graph, link(copies, copies)).seconds
    with_gaps = replay(graph, link(copies, copies, duplex=both)).seconds
    assert plain < with_gaps <= plain + 8 * 1e-6
    # without them a short copy loses half of what its bytes take
    without = replay(graph, link(copies, copies, duplex=replace(both, gaps=None))).seconds
    assert plain < without <= plain + 8 * 0.5e-6


def test_new_pageable_memory_costs_its_pages():
    touched, fresh = direction(per_byte=1e-9), direction(per_byte=5e-9)
    machine = link(pageable_h2d=touched, pageable_d2h=touched, fresh_d2h=fresh)
    work = Workload(10**6, 10**6, 0.0)
    assert Replay().value(work, Method.PAGEABLE, 1, machine) == pytest.approx(2e-3)
    new = replace(work, fresh_output=True)
    assert Replay().value(new, Method.PAGEABLE, 1, machine) == pytest.approx(6e-3)
    unknown = replace(machine, fresh_d2h=None)
    found = rank(new, unknown, Replay(), (1,))
    assert "copies of new pageable memory" in found.skipped[-1].reason


def test_pageable_memory_in_caches_has_times_of_its_own():
    used, cached, fresh = (direction(per_byte=each) for each in (2e-9, 1e-9, 5e-9))
    machine = link(
        **dict.fromkeys(("pageable_h2d", "pageable_d2h"), used),
        **dict.fromkeys(("cached_h2d", "cached_d2h"), cached),
        fresh_d2h=fresh,
    )
    work = Workload(10**6, 10**6, 0.0, host_cached=True)
    new = replace(work, fresh_output=True)
    for predictor in (Replay(), Equations()):
        assert predictor.value(work, Method.PAGEABLE, 1, machine) == pytest.approx(2e-3)
        assert predictor.value(new, Method.PAGEABLE, 1, machine) == pytest.approx(6e-3)
    found = rank(work, replace(machine, cached_h2d=None), Replay(), (1,))
    assert "copies of pageable memory in the host's caches" in found.skipped[-1].reason


@pytest.mark.parametrize(
    "given", [["8=25us", "32=9us"], {32: "9us", 8: 25e-6}, [" 8 = 25us", "32=9e-6s"]]
)
def test_parts_of_kernels_are_given_as_text_or_mapping(given):
    assert kernel_parts(given) == ((8, pytest.approx(25e-6)), (32, pytest.approx(9e-6)))


@pytest.mark.parametrize("text", ["8", "=25us", "1=25us", "x=3us"])
def test_what_is_no_time_of_a_part_is_quoted_as_it_was_given(text):
    with pytest.raises(InputError, match=f"kernel_parts '{text}' is no number of parts"):
        kernel_parts([text])


RECORDED = Path(__file__).parents[2] / "benchmarks" / "results" / "h200-x1"


def test_a_watch_tells_into_how_many_parts_and_what_the_kernel_of_one_takes():
    parts, seconds = watched_part(RECORDED / "model" / "hybrid-axpy")
    assert parts == 14
    assert seconds == pytest.approx(497e-6, rel=0.02)
    assert watched_part(RECORDED / "watch" / "vector-add") == (1, pytest.approx(319e-6, rel=0.02))


def test_a_watch_tells_the_kernel_of_the_loop_and_not_of_what_runs_once_before_it():
    run = Path(__file__).parents[2] / "benchmarks/results/h100-x1/advise/first/watches"
    # loading takes 8.1 s, in which the GPU works for 9 ms; then there are 59 rounds of 14.5 ms
    assert watched_part(run / "train-pageable") == (1, pytest.approx(3.21e-3, rel=0.01))


def test_times_that_are_given_win_over_those_of_watches():
    watches = [RECORDED / "model" / "hybrid-axpy", RECORDED / "watch" / "vector-add"]
    given = Predict(h2d_bytes="8MB", parameters="h200", kernel_watches=watches)
    work = given.result(Silent()).ranking.workload
    assert work.kernel_seconds == pytest.approx(319e-6, rel=0.02)
    assert [parts for parts, _ in work.kernel_parts] == [14]
    timed = replace(given, kernel_seconds=1e-3, kernel_parts=["14=80us", "4=300us"])
    work = timed.result(Silent()).ranking.workload
    assert work.kernel_seconds == 1e-3
    assert work.kernel_parts == ((4, pytest.approx(300e-6)), (14, pytest.approx(80e-6)))


def test_two_watches_of_as_many_parts_are_refused():
    watch = RECORDED / "model" / "hybrid-axpy"
    with pytest.raises(InputError, match="14 parts, too"):
        Predict(h2d_bytes="8MB", parameters="h200", kernel_watches=[watch, watch]).result(Silent())


@pytest.mark.parametrize(
    "given", [["25us"], ["1=3ms"], ["8=fast"], ["a=2us"], {8: 0.0}, {4: 1e9}, {8: None}]
)
def test_parts_that_are_none(given):
    with pytest.raises(InputError, match="kernel_parts"):
        kernel_parts(given)


def test_a_number_of_parts_is_given_once():
    with pytest.raises(InputError, match="'4=2ms': another one has 4 parts, too"):
        kernel_parts(["4=1ms", "4=2ms"])


def test_parts_that_are_faster_than_the_whole_are_said():
    quick = replace(WORK, kernel_parts=((4, 3e-3), (8, 0.5e-3)))
    (said,) = [s for s in caveats(rank(quick, link(), Replay(), (1, 4))) if "parts take" in s]
    assert said.startswith("The kernel's 8 parts take 4.00 ms one after the other, less than its 8")
    for plain in (WORK, replace(WORK, kernel_parts=()), replace(WORK, kernel_parts=((4, 2e-3),))):
        assert not [s for s in caveats(rank(plain, link(), Replay(), (1, 4))) if "parts take" in s]
