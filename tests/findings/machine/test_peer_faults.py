"""Faults between GPUs are found, once, and the right part is named."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from lanescope.copies.experiment import between_processes
from lanescope.findings.machine import diagnose
from tests.findings.machine.planted import of_peers, only
from tests.findings.machine.simulator import (
    experiment,
    h200s,
    nvswitched,
    peer,
    simulate,
    slower_link,
    switched,
    with_nvlinks,
)


@pytest.mark.parametrize("make", [switched, nvswitched])
def test_slow_pair(make):
    found = only(make(), simulate(make(), fault=of_peers({"g2", "g3"}, factor=0.8)))
    assert (found.kind, found.parts) == ("slow-pair", ("g2", "g3"))


@pytest.mark.parametrize(("make", "part"), [(nvswitched, "g6"), (lambda: nvswitched(3), "g0")])
def test_slow_pairs_that_share_a_gpu_are_its_links(make, part):
    others = [{part, g.id} for g in make().gpus if g.id != part]
    found = only(make(), simulate(make(), fault=of_peers(*others, factor=0.8)))
    assert (found.kind, found.parts) == ("slow-pair", (part,))
    assert f"All slow pairs share {part}" in found.sentence


@pytest.mark.parametrize(("make", "part"), [(nvswitched, "g3"), (h200s, "g1")])
def test_nvlinks_that_are_down(make, part):
    short = with_nvlinks(make(), part, 15)
    found = only(short, simulate(short))
    assert (found.kind, found.parts) == ("slow-pair", (part,))
    assert "Only 15 NVLinks" in found.sentence


def test_nvlinks_that_no_gpu_has_up_are_no_fault():
    machine = nvswitched(2)
    for part in ("g0", "g1"):
        machine = with_nvlinks(machine, part, 12)
    assert diagnose(machine, simulate(machine)) == ()


@pytest.mark.parametrize("make", [switched, h200s])
def test_copies_without_peer_access_go_through_the_host(make):
    fault = of_peers(*({a.id, b.id} for a, b in itertools.combinations(make().gpus, 2)), factor=0.3)
    found = only(make(), simulate(make(), fault=fault, staged=True))
    assert found.kind == "staged-through-host"
    assert found.parts == tuple(g.id for g in make().gpus)
    assert found.confirm == "nvidia-smi topo -p2p r"


@pytest.mark.parametrize("make", [nvswitched, h200s])
def test_nvlink_slower_than_pcie_is_not_used(make):
    found = only(make(), simulate(make(), fault=of_peers({"g0", "g1"}, factor=0.08)))
    assert (found.kind, found.parts) == ("staged-through-host", ("g0", "g1"))


def test_memory_that_processes_share_is_never_staged():
    machine = nvswitched(2)
    peers = [between_processes(experiment(peer(a, b))) for a, b in ((0, 1), (1, 0))]
    slow = of_peers({"g0", "g1"}, factor=0.08)
    kinds = {one.kind for one in diagnose(machine, simulate(machine, peers, slow))}
    assert "staged-through-host" not in kinds


@pytest.mark.parametrize("part", [0, 6])
def test_peer_copies_that_leave_their_switch(part):
    pair = {f"g{part}", f"g{part + 1}"}
    found = only(switched(), simulate(switched(), fault=of_peers(pair, factor=0.5)))
    assert (found.kind, set(found.parts)) == ("iommu-or-acs", pair)
    # without the host copies it may be the GPUs themselves
    peers = [experiment(peer(a, b)) for a, b in itertools.permutations(range(8), 2)]
    found = only(switched(), simulate(switched(), peers, of_peers(pair, factor=0.5)))
    assert found.kind == "slow-pair"


def test_iommu_on_a_small_machine():
    whole = switched()
    machine = replace(
        whole,
        gpus=whole.gpus[:2],
        nodes=whole.nodes[:1],
        switches=whole.switches[:1],
        links=tuple(ln for ln in whole.links if {ln.a, ln.b} <= {"h0", "s0", "g0", "g1"}),
    )
    assert diagnose(machine, simulate(machine)) == ()
    found = only(machine, simulate(machine, fault=of_peers({"g0", "g1"}, factor=0.4)))
    assert (found.kind, found.parts) == ("iommu-or-acs", ("g0", "g1"))


def test_two_faults_are_told_apart():
    fault = of_peers({"g0", "g7"}, factor=0.8)
    found = diagnose(nvswitched(), simulate(slower_link(nvswitched(), "g3", 4, 8), fault=fault))
    assert [(d.kind, d.parts) for d in found] == [
        ("trained-down", ("g3",)),
        ("slow-pair", ("g0", "g7")),
    ]
