import dataclasses

import pytest

from lanescope.copies import Copy, Engine, Memory, Operation, Place
from lanescope.copies.limit import limits
from lanescope.copies.terms import Access
from lanescope.results import LinkEvidence, Source, Status
from lanescope.results.verdict import judge
from tests.conftest import experiment_of, gpu_to_gpu, gpu_to_host, host_to_gpu


def verdict(machine, copy, gbs, source=Source.MEASURED, **more):
    limit = limits(machine, experiment_of(copy))[0]
    return judge(machine, copy, gbs, limit, source=source, **more)


@pytest.mark.parametrize(
    ("gbs", "status"),
    [(55.6, Status.HEALTHY), (40.0, Status.SLOW), (70.0, Status.IMPOSSIBLE)],
)
def test_pcie(two_gpus, gbs, status):
    assert verdict(two_gpus, host_to_gpu(), gbs).status is status


def test_what_was_measured_on_healthy_h200s_is_healthy(two_gpus):
    for copy, gbs in ((host_to_gpu(), 55.56), (gpu_to_host(), 55.42), (gpu_to_gpu(0, 1), 394.0)):
        assert verdict(two_gpus, copy, gbs).status is Status.HEALTHY
    alone = limits(two_gpus, experiment_of(gpu_to_host()))[0]
    opposed = verdict(two_gpus, gpu_to_host(), 50.7, alone=alone)
    assert opposed.status is Status.HEALTHY


def test_the_link_state_under_load_is_told(two_gpus):
    found = verdict(two_gpus, host_to_gpu(), 55.6, evidence=[LinkEvidence("g0", 5, 16)])
    assert found.status is Status.HEALTHY
    assert found.reason.endswith("; g0 at PCIe 5.0 x16")


def test_slow_paths_come_with_a_remedy(two_gpus):
    for copy in (host_to_gpu(), gpu_to_gpu(0, 1)):
        assert verdict(two_gpus, copy, 10.0).remedy


def test_a_path_is_slow_where_its_interval_is(two_gpus):
    """Of two healthy H100s in a noisy machine, opposing copies, once in five sets."""
    alone = limits(two_gpus, experiment_of(host_to_gpu()))[0]
    measured = 0.678 * alone.gbs
    noisy = verdict(two_gpus, host_to_gpu(), measured, alone=alone, most_gbs=0.738 * alone.gbs)
    assert noisy.status is Status.UNJUDGED
    assert noisy.reason.startswith("67.8 % of the limit, 73.8 % within its 95 % interval")
    steady = verdict(two_gpus, host_to_gpu(), measured, alone=alone, most_gbs=0.681 * alone.gbs)
    assert steady.status is Status.SLOW
    wide = verdict(two_gpus, host_to_gpu(), 0.6 * alone.gbs, alone=alone, most_gbs=alone.gbs)
    assert wide.status is Status.SLOW  # the median is far from 70 %
    sick = [LinkEvidence("g0", 5, 16, replays=7)]
    found = verdict(
        two_gpus, host_to_gpu(), measured, alone=alone, most_gbs=0.738 * alone.gbs, evidence=sick
    )
    assert found.status is Status.SLOW


def test_a_link_trained_down_under_load_is_named(two_gpus):
    evidence = [LinkEvidence("g0", 3, 8)]
    found = verdict(two_gpus, host_to_gpu(), 6.5, evidence=evidence)
    assert found.status is Status.SLOW
    assert "PCIe 3.0 x8" in found.reason
    assert "5.0 x16" in found.reason
    # it says nothing about NVLink
    assert verdict(two_gpus, gpu_to_gpu(0, 1), 394, evidence=evidence).status is Status.HEALTHY


def test_replays_are_evidence(two_gpus):
    found = verdict(two_gpus, host_to_gpu(), 40, evidence=[LinkEvidence("g0", 5, 16, replays=7)])
    assert "7 packets again" in found.reason
    assert "reseat" in found.remedy


def test_no_verdict_without_grounds(two_gpus, two_sockets):
    small = verdict(two_gpus, host_to_gpu(4096), 1.0)
    assert small.status is Status.UNJUDGED
    pageable = dataclasses.replace(host_to_gpu(), source=Place("h0", Memory.PAGEABLE))
    assert verdict(two_gpus, pageable, 10.0).status is Status.UNJUDGED
    place = Place("h0", Memory.PAGEABLE)
    one_core = Copy(place, place, 1 << 28, Engine.CPU, cpus=(0,))
    assert verdict(two_gpus, one_core, 20.0).status is Status.UNJUDGED
    assert verdict(two_sockets, one_core, 20.0).status is Status.UNJUDGED


def test_gpus_without_peer_access_are_not_judged(two_sockets):
    found = verdict(two_sockets, gpu_to_gpu(0, 1), 11.0, staged=True)
    assert found.status is Status.UNJUDGED
    assert "no peer access" in found.reason
    assert verdict(two_sockets, gpu_to_gpu(0, 1), 11.0).status is Status.SLOW


def test_a_prediction_is_no_verdict(two_gpus):
    assert verdict(two_gpus, host_to_gpu(), 58, Source.PREDICTED).status is Status.PREDICTED


def test_a_prediction_over_a_link_of_unknown_speed_says_so(two_sockets):
    said = verdict(two_sockets, host_to_gpu(), 58, Source.PREDICTED)
    how = "the rest of the way, as no speed is known between h0 and h1"
    assert said.reason == f"upper bound from {how}"


def test_below_what_links_allow_where_memory_may_be_the_limit(two_gpus):
    limit = dataclasses.replace(
        limits(two_gpus, experiment_of(host_to_gpu()))[0], unknown="2 GPUs share the memory of h0"
    )
    found = judge(two_gpus, host_to_gpu(), 35.0, limit, source=Source.MEASURED, alone=limit)
    assert found.status is Status.UNJUDGED
    assert "2 GPUs share the memory of h0" in found.reason
    replays = [LinkEvidence("g0", 5, 16, 7)]
    found = judge(two_gpus, host_to_gpu(), 35.0, limit, source=Source.MEASURED, evidence=replays)
    assert found.status is Status.SLOW


def test_more_than_a_fair_share_is_possible_and_more_than_the_link_is_not(two_gpus):
    both = limits(two_gpus, experiment_of(host_to_gpu(), gpu_to_host()))
    half = dataclasses.replace(both[0], gbs=30.0)
    for gbs, status in ((55.0, Status.HEALTHY), (64.0, Status.IMPOSSIBLE)):
        found = judge(two_gpus, host_to_gpu(), gbs, half, source=Source.MEASURED, alone=both[0])
        assert found.status is status


def test_what_cpu_caches_can_serve_is_neither_impossible_nor_slow(two_gpus):
    place = Place("h0", Memory.PAGEABLE)  # its node has 32 MiB of cache and 200 GB/s
    for size, cpus in ((4096, (0,)), (63 << 20, (0, 1, 2, 3))):
        small = Copy(place, place, size, Engine.CPU, cpus=cpus)
        found = verdict(two_gpus, small, 900.0)
        assert (found.status, found.reason) == (Status.UNJUDGED, "it fits into the CPU's caches")
    large = Copy(place, place, 64 << 20, Engine.CPU, cpus=(0, 1, 2, 3))
    assert verdict(two_gpus, large, 900.0).status is Status.IMPOSSIBLE
    walk = Copy(place, place, 4096, Engine.CPU, cpus=(0,), access=Access(span_bytes=64 << 20))
    assert verdict(two_gpus, walk, 900.0).status is Status.IMPOSSIBLE


def test_three_arrays_fill_caches_sooner_and_those_of_the_threads_count_too(two_sockets):
    place = Place("h0", Memory.PAGEABLE)
    triad = Copy(place, place, 43 << 20, Engine.CPU, Operation.TRIAD, cpus=(0,))
    assert "caches" not in verdict(two_sockets, triad, 20.0).reason
    nodes = (two_sockets.nodes[0], dataclasses.replace(two_sockets.nodes[1], cache_bytes=1 << 30))
    larger = dataclasses.replace(two_sockets, nodes=nodes)
    far = dataclasses.replace(triad, cpus=(2,))  # a core of the other node
    assert "caches" in verdict(larger, far, 20.0).reason
    unknown = tuple(dataclasses.replace(n, cache_bytes=None) for n in nodes)
    assert "caches" not in verdict(dataclasses.replace(larger, nodes=unknown), far, 20.0).reason


def test_what_a_cache_can_answer_is_not_impossible(two_gpus):
    places = [Place("g0", Memory.DEVICE)] * 2
    limit = dataclasses.replace(
        limits(two_gpus, experiment_of(host_to_gpu()))[0], gbs=2400.0, kind="gpu memory"
    )
    for size, status in ((1 << 20, Status.UNJUDGED), (512 << 20, Status.IMPOSSIBLE)):
        copy = Copy(*places, size, Engine.SM)
        assert judge(two_gpus, copy, 5000.0, limit, source=Source.MEASURED).status is status
