from dataclasses import replace
from functools import cache

import pytest

from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place, Purpose, Timing
from lanescope.studies.taruc.contended import Scaling, ScalingSetting, ScalingStep, suite_of
from lanescope.studies.taruc.parameters import Benchmark
from lanescope.studies.taruc.points import bench_of
from tests.taruc_plan import contention, host, paper_machine
from tests.taruc_suite import FLAT, PLANTED, suite_run


@cache
def scalings(speeds=FLAT, machine=None):
    run = suite_run(machine or paper_machine(), speeds, (contention,))
    return {s.contention: s for s in suite_of(run.manifest.machine, run.results).scalings}


def step(scaling: Scaling, count: int) -> ScalingStep:
    found = scaling.at(count)
    assert found is not None
    return found


def test_participants_add_up():
    alone = scalings()[ScalingSetting("memory", "h0", "triad", "", "")]
    assert [s.count for s in alone.steps] == [1, 2, 4, 8]
    assert step(alone, 4).aggregate_gbs == pytest.approx(44, rel=0.01)
    assert step(alone, 4).fairness == pytest.approx(1)
    assert alone.enough is alone.best is alone.steps[-1]


def test_fairness_is_that_of_jain():
    unfair = scalings(PLANTED)[ScalingSetting("memory", "h0", "triad", "", "")]
    # three threads with 10 GB/s, one with 2.5
    assert step(unfair, 4).fairness == pytest.approx(32.5**2 / (4 * (300 + 2.5**2)), rel=1e-3)


def test_of_copies_in_turns_nobody_knows_how_fair_it_was():
    four = step(scalings()[ScalingSetting("memory", "h0", "triad", "", "")], 4)
    turned = [replace(one, in_turns_with=(1,)) for one in four.participants]
    found = replace(four, participants=tuple(turned))
    assert (found.fairness, found.in_turns) == (None, False)
    assert found.aggregate_gbs == four.aggregate_gbs


def test_directions_and_places_are_told_from_copies():
    found = set(scalings())
    assert ScalingSetting("sockets", "h0 → h1", "copy", "one way", "") in found
    assert ScalingSetting("sockets", "h0 ⇄ h1", "copy", "both", "") in found
    assert ScalingSetting("memory", "h0+h1", "add", "", "") in found
    for direction in ("h2d", "d2h", "both"):
        for where in ("near", "far"):
            assert ScalingSetting("pcie", "g0+g1+g2+g3", "copy", direction, where) in found
    one = set(scalings(machine=paper_machine(1, 2)))
    assert ScalingSetting("pcie", "g0+g1", "copy", "both", "h0") in one


def test_streams_are_counted_for_each_gpu_and_direction():
    both = scalings()[ScalingSetting("pcie", "g2+g3", "copy", "both", "near")]
    assert [(s.count, len(s.participants)) for s in both.steps] == [(1, 4), (2, 8), (4, 16)]


def test_the_link_that_saturates_first_is_named():
    pair = step(scalings(PLANTED)[ScalingSetting("pcie", "g2+g3", "copy", "h2d", "near")], 1)
    assert pair.first_full is not None
    assert pair.first_full.startswith("PCIe 3.0 x16 between h1 and s0")
    assert pair.share_of_limit == pytest.approx(12.5 / 14.6, rel=0.01)


def test_the_interval_holds_the_aggregate():
    for scaling in scalings(PLANTED).values():
        for one in scaling.measured:
            low, high = one.interval_gbs or (0.0, 0.0)
            assert low < (one.aggregate_gbs or 0.0) < high


def test_what_was_not_measured_has_no_numbers():
    run = suite_run(paper_machine(), FLAT, (contention,), missing="memory/h0/")
    found = suite_of(run.manifest.machine, run.results).scalings
    gone = next(s for s in found if s.contention.who == "h0")
    assert gone.measured == ()
    assert (gone.best, gone.enough) == (None, None)
    assert all(s.aggregate_gbs is s.fairness is None for s in gone.steps)
    assert gone.steps[0].not_measured is not None


def test_benches_are_known_by_purpose_and_copies():
    machine = paper_machine(1, 0)
    assert {bench_of(e) for e in host(machine)} == {Benchmark.HOST}
    place = Place("h0", Memory.PAGEABLE)
    copy = Copy(place, place, 64, Engine.CPU, Operation.COPY)
    for purpose, bench in (
        (Purpose.PATH, None),
        (Purpose.NURMA, None),  # of another kind of copy
        (Purpose.HOST, Benchmark.HOST),
    ):
        assert bench_of(Experiment("a", "a", (copy,), Timing.HOST, purpose)) is bench
