"""Faults between the host and GPUs are found, once, and the right part is named."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from lanescope.copies import Copy, Experiment
from lanescope.findings.machine import diagnose
from lanescope.results import LinkEvidence
from tests.findings.machine.planted import of_host, only
from tests.findings.machine.simulator import (
    changed_link,
    copy_result,
    h200s,
    nvswitched,
    simulate,
    slower_link,
    switched,
    whole_matrix,
)


@pytest.mark.parametrize(
    ("make", "part", "generation", "width"),
    [
        (switched, "g1", 3, 16),
        (switched, "g6", 4, 4),
        (nvswitched, "g5", 4, 16),
        (nvswitched, "g2", 5, 8),
        (h200s, "g1", 3, 16),
    ],
)
def test_trained_down_is_inferred_from_rates(make, part, generation, width):
    found = only(make(), simulate(slower_link(make(), part, generation, width)))
    assert (found.kind, found.parts) == ("trained-down", (part,))
    assert f"PCIe {generation}.0 x{width}" in found.sentence
    address = next(g.pci_address for g in make().gpus if g.id == part)
    assert f"lspci -vv -s {address}" in found.confirm


def test_a_slow_link_of_a_switch_is_not_put_on_its_gpus():
    found = only(switched(), simulate(slower_link(switched(), "s2", 3, 16)))
    assert (found.kind, found.parts) == ("trained-down", ("s2", "g4", "g5"))


@pytest.mark.parametrize(("make", "part"), [(switched, "g3"), (nvswitched, "g0"), (h200s, "g0")])
def test_trained_down_is_told_by_the_state_under_load(make, part):
    results = simulate(slower_link(make(), part, 2, 8))
    seen = (LinkEvidence(part, 2, 8),)
    found = only(make(), [dataclasses.replace(r, links=tuple(seen)) for r in results])
    assert (found.kind, found.parts) == ("trained-down", (part,))
    assert "2.0 x8 under load" in found.sentence


def test_a_state_that_the_rates_contradict_was_read_too_late():
    results = simulate(h200s())
    idle = (LinkEvidence("g0", 1, 16), LinkEvidence("g1", 1, 16))
    assert diagnose(h200s(), [dataclasses.replace(r, links=idle) for r in results]) == ()


@pytest.mark.parametrize(("make", "part"), [(switched, "s1"), (nvswitched, "g4")])
def test_the_width_at_rest_counts_but_not_the_speed(make, part):
    assert diagnose(changed_link(make(), part, generation=1), simulate(make())) == ()
    narrow = changed_link(make(), part, width=8)
    truth = slower_link(make(), part, 4, 8)
    found = only(narrow, simulate(truth))
    assert (found.kind, found.parts) == ("trained-down", (part,))
    assert "x8 wide, x16 is possible" in found.sentence
    assert diagnose(narrow, simulate(make())) == ()  # fast copies prove it wrong


@pytest.mark.parametrize("make", [switched, nvswitched])
def test_far_numa(make):
    def far(case: Experiment, copy: Copy, gbs: float) -> float:
        places = {copy.source.part, copy.destination.part}
        near = {g.id: f"h{g.node}" for g in make().gpus}
        wrong = any(p in near and {"h0", "h1"} & places - {near[p]} for p in places)
        return gbs * (0.75 if wrong else 1)

    found = diagnose(make(), simulate(make(), fault=far))
    assert [d.kind for d in found] == ["far-numa"] * 2
    assert found[0].parts == ("g0", "g1", "g2", "g3", "h1")
    assert "--membind=0" in found[0].remedy
    # the same for one GPU whose node is told wrong, or not at all
    for told in (1, None):
        gpus = (replace(make().gpus[0], node=told), *make().gpus[1:])
        wrong = replace(make(), gpus=gpus)
        results = simulate(make(), fault=far)
        kinds = {(d.kind, d.parts) for d in diagnose(wrong, results)}
        assert ("far-numa", ("g0", "h1" if told else "h0")) in kinds
        assert {kind for kind, _ in kinds} == {"far-numa"}


@pytest.mark.parametrize(("make", "part"), [(switched, "g5"), (nvswitched, "g0"), (h200s, "g1")])
@pytest.mark.parametrize("factor", [0.92, 0.7])
def test_slow_gpu(make, part, factor):
    found = only(make(), simulate(make(), fault=of_host(part, factor)))
    assert (found.kind, found.parts) == ("slow-gpu", (part,))


def test_a_gpu_whose_copies_were_held_up_for_a_moment_is_not_blamed():
    wobble = np.array([1.0] * 4 + [1.3] * 5)
    results = [
        dataclasses.replace(r, copies=tuple(held_up(c, "g1", wobble) for c in r.copies))
        for r in simulate(nvswitched())
    ]
    assert diagnose(nvswitched(), results) == ()
    results = simulate(nvswitched(), fault=of_host("g1", 1 / 1.3))
    assert only(nvswitched(), results).kind == "slow-gpu"


@pytest.mark.parametrize(("fast", "slow"), [(1, 5), (13, 17)])
def test_a_gpu_that_is_far_slower_is_blamed_though_some_of_its_copies_were_fast(fast, slow):
    """The fast ones are within the interval of its median."""
    wobble = np.array([1.0] * fast + [10.0] * slow)
    results = [
        dataclasses.replace(r, copies=tuple(held_up(c, "g1", wobble) for c in r.copies))
        for r in simulate(nvswitched())
    ]
    found = only(nvswitched(), results)
    assert (found.kind, found.parts) == ("slow-gpu", ("g1",))


def held_up(result, gpu, wobble):
    """Return the result of a copy, with other times where it is one of this GPU and the host."""
    ends = {result.copy.source.part, result.copy.destination.part}
    if gpu not in ends or not any(end.startswith("h") for end in ends):
        return result
    return copy_result(result.copy, result.gbs, wobble)


@pytest.mark.parametrize(
    ("make", "part", "gpus"),
    [(switched, "s2", ("g4", "g5")), (nvswitched, "h1", ("g4", "g5", "g6", "g7"))],
)
def test_slow_gpus_that_share_a_part_are_one_diagnosis(make, part, gpus):
    def fault(case: Experiment, copy: Copy, gbs: float) -> float:
        return gbs * (0.8 if set(gpus) & set(copy.path.split()) else 1)

    cases = [
        c
        for c in whole_matrix(make())
        if any(p.is_host for copy in c.copies for p in (copy.source, copy.destination))
    ]
    found = only(make(), simulate(make(), cases, fault))
    assert (found.kind, found.parts) == ("slow-gpu", (part, *gpus))


@pytest.mark.parametrize(("make", "peak_gbs"), [(switched, 50.0), (nvswitched, 100.0)])
@pytest.mark.parametrize("known", [True, False])
def test_host_memory_bound(make, peak_gbs, known):
    machine = make()
    weak = replace(machine, nodes=tuple(replace(n, memory_gbs=peak_gbs) for n in machine.nodes))
    told = weak if known else replace(machine, nodes=(*(_unknown(n) for n in machine.nodes),))
    found = diagnose(told, simulate(weak))
    assert [(d.kind, d.parts[0]) for d in found] == [("host-memory-bound", f"h{i}") for i in (0, 1)]
    assert found[0].parts == ("h0", "g0", "g1", "g2", "g3")


def _unknown(node):
    return replace(node, memory_gbs=None, memory_detail="not known")


@pytest.mark.parametrize(("make", "part"), [(nvswitched, "g2"), (h200s, "g1")])
def test_half_the_rate_over_a_link_seen_at_its_best_is_another_fault(make, part):
    results = simulate(make(), fault=of_host(part, 0.5))
    seen = (LinkEvidence(part, 5, 16),)
    assert only(make(), results).kind == "trained-down"
    found = only(make(), [dataclasses.replace(r, links=tuple(seen)) for r in results])
    assert (found.kind, found.parts) == ("slow-gpu", (part,))


def test_the_link_above_the_switch_is_left_when_that_of_the_gpu_is_at_its_best():
    seen = (LinkEvidence("g4", 4, 16), LinkEvidence("g5", 4, 16))
    results = simulate(slower_link(switched(), "s2", 4, 8))
    found = only(switched(), [dataclasses.replace(r, links=tuple(seen)) for r in results])
    assert (found.kind, found.parts) == ("trained-down", ("s2", "g4", "g5"))
    results = simulate(switched(), fault=of_host("g4", 0.5))
    found = only(switched(), [dataclasses.replace(r, links=tuple(seen)) for r in results])
    assert (found.kind, found.parts) == ("slow-gpu", ("g4",))
