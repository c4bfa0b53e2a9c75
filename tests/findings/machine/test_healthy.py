"""Healthy machines, and what cannot be told, give no diagnosis."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.findings.machine import diagnose
from lanescope.machine import Machine
from lanescope.results import Result, Source, Status, Verdict
from lanescope.store.store import read_run
from tests.findings.machine.simulator import (
    down,
    experiment,
    h200s,
    nvswitched,
    peer,
    simulate,
    slower_link,
    switched,
    up,
)


@pytest.mark.parametrize("make", [switched, nvswitched, h200s])
def test_a_healthy_machine_has_no_diagnosis(make):
    machine = make()
    assert diagnose(machine, simulate(machine)) == ()


@settings(max_examples=15)
@given(st.integers(1, 8), st.floats(0, 0.01), st.integers(0, 1000), st.booleans())
def test_noise_is_no_fault(gpus: int, noise: float, seed: int, by_switch: bool):
    machine = switched() if by_switch else nvswitched(gpus)
    if by_switch:
        machine = replace(machine, gpus=machine.gpus[:gpus])
    assert diagnose(machine, simulate(machine, noise=noise, seed=seed)) == ()


@pytest.mark.parametrize("name", ["h200-x2/check", "h200-x1/check", "epyc-2core/check"])
def test_real_healthy_machines_have_no_diagnosis(name: str):
    run = read_run(Path(__file__).parents[3] / "benchmarks/results" / name)
    assert diagnose(run.manifest.machine, run.results) == ()


def test_real_machines_whose_memory_is_the_limit_say_so():
    results = Path(__file__).parents[3] / "benchmarks/results"
    for name, kinds in (
        ("h200-x2", ["asymmetric-opposing"]),
        ("h200-x4", ["host-memory-bound", "asymmetric-opposing"]),
    ):
        run = read_run(results / name / "bench")
        assert [d.kind for d in diagnose(run.manifest.machine, run.results)] == kinds


def test_nothing_measured_is_no_diagnosis():
    gone = Verdict(Status.NOT_MEASURED, "the GPU is held by another process")
    empty = Result(experiment(down(0)), Source.MEASURED, (), "", not_measured=gone)
    assert diagnose(h200s(), [empty]) == ()
    assert diagnose(Machine("bare"), []) == ()


def test_predictions_and_small_copies_do_not_count():
    machine = switched()
    slow = simulate(machine, fault=lambda case, copy, gbs: gbs * (0.5 if "g1" in copy.path else 1))
    assert diagnose(machine, slow)
    predicted = [replace(result, source=Source.PREDICTED) for result in slow]
    assert diagnose(machine, predicted) == ()
    small = [
        experiment(direction(i, i // 4, 1 << 20)) for i in range(8) for direction in (down, up)
    ]
    halved = simulate(machine, small, lambda case, copy, gbs: gbs * 0.5)
    assert diagnose(machine, halved) == ()


def test_results_of_parts_that_the_machine_lacks_do_not_count():
    machine = h200s()
    strange = simulate(nvswitched(), [experiment(down(7, 1)), experiment(peer(6, 7))])
    assert diagnose(machine, [*simulate(machine), *strange]) == ()


def test_a_narrow_link_above_a_switch_is_no_fault_of_the_gpus():
    machine = slower_link(switched(), "s2", 4, 8)
    assert diagnose(machine, simulate(machine)) == ()
