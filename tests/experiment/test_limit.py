import dataclasses

import pytest

from lanescope.experiment import Copy, Engine, Memory, Operation, Place
from lanescope.experiment.limit import limits, route
from lanescope.machine import Gpu, Link, LinkKind, NvLink, PcieLink
from tests.conftest import GEN5, experiment_of, gpu_to_gpu, gpu_to_host, host_to_gpu


def test_one_copy_gets_the_links_payload(two_gpus):
    down, up = two_gpus.links[0].payload_gbs
    assert limits(two_gpus, experiment_of(host_to_gpu()))[0].gbs == pytest.approx(down)
    assert limits(two_gpus, experiment_of(gpu_to_host()))[0].gbs == pytest.approx(up)


def test_opposing_copies_lose_the_read_requests(two_gpus):
    both = limits(two_gpus, experiment_of(host_to_gpu(), gpu_to_host()))
    _, up = two_gpus.links[0].payload_gbs
    assert both[1].gbs < up
    assert both[1].gbs == pytest.approx(up, rel=0.01)  # requests of 4 KiB cost 0.6 %


def test_two_gpus_behind_a_switch_share_its_uplink(two_sockets):
    alone = limits(two_sockets, experiment_of(host_to_gpu()))[0].gbs
    node = dataclasses.replace(host_to_gpu(), source=Place("h1", Memory.PINNED))
    other = dataclasses.replace(node, destination=Place("g1", Memory.DEVICE))
    shared = limits(two_sockets, experiment_of(node, other))
    assert [s.gbs for s in shared] == pytest.approx([alone / 2, alone / 2])


def test_gpus_use_nvlink_and_otherwise_pcie(two_gpus, two_sockets):
    fabric = limits(two_gpus, experiment_of(gpu_to_gpu(0, 1)))[0]
    assert fabric.kind is LinkKind.NVLINK
    assert fabric.gbs == pytest.approx(450)
    switch = limits(two_sockets, experiment_of(gpu_to_gpu(0, 1)))[0]
    assert switch.kind is LinkKind.PCIE
    assert [hop.b for hop, _ in route(two_sockets, "g0", "g1")] == ["g0", "g1"]


def test_memory_bounds_host_threads_as_stream_counts(two_gpus):
    place = Place("h0", Memory.PAGEABLE)
    for operation in (Operation.COPY, Operation.TRIAD):
        copy = Copy(place, place, 1 << 28, Engine.CPU, operation, cpus=(0, 1))
        assert limits(two_gpus, experiment_of(copy))[0].gbs == pytest.approx(200)


def test_memory_is_no_limit_of_a_way_that_is_not_known(two_gpus):
    no_links = dataclasses.replace(two_gpus, links=())
    limit = limits(no_links, experiment_of(host_to_gpu()))[0]
    assert (limit.gbs, limit.kind) == (None, None)
    assert "not linked" in limit.reason


def test_no_way_leads_through_another_gpu(two_gpus):
    chain = dataclasses.replace(
        two_gpus,
        gpus=(*two_gpus.gpus, Gpu(2, "Test GPU", node=0)),
        links=(
            *(Link.of_pcie("h0", f"g{i}", GEN5) for i in range(3)),
            *(Link.of_nvlink(f"g{i}", f"g{i + 1}", NvLink(2, 25.0)) for i in range(2)),
        ),
    )
    assert limits(chain, experiment_of(gpu_to_gpu(0, 1)))[0].kind is LinkKind.NVLINK
    assert limits(chain, experiment_of(gpu_to_gpu(0, 2)))[0].kind is LinkKind.PCIE


def test_the_reason_names_the_link_that_is_full(two_sockets):
    uplink, *slots = two_sockets.links[1:]
    narrow = tuple(Link.of_pcie(ln.a, ln.b, PcieLink(3, 4)) for ln in slots)
    machine = dataclasses.replace(two_sockets, links=(uplink, *narrow))
    copies = [
        dataclasses.replace(host_to_gpu(gpu=i), source=Place("h1", Memory.PINNED)) for i in (0, 1)
    ]
    own = limits(machine, experiment_of(*copies))
    assert [limit.reason.split(",")[0] for limit in own] == [
        f"PCIe 3.0 x4 between s0 and g{i}" for i in (0, 1)
    ]
    assert "shared" not in own[0].reason
    wide = limits(two_sockets, experiment_of(*copies))[0].reason
    assert "between h1 and s0" in wide
    assert "shared by 2 copies" in wide


def test_unknown_limits_say_why(two_sockets):
    copy = Copy(Place("h0", Memory.PAGEABLE), Place("h1", Memory.PAGEABLE), 8, Engine.CPU)
    limit = limits(two_sockets, experiment_of(copy))[0]
    assert limit.gbs is None
    assert "no speed is known" in limit.reason


def test_a_trained_down_link_keeps_the_limit_it_should_have(two_gpus):
    slow = dataclasses.replace(
        two_gpus, links=(two_gpus.links[0].of_pcie("h0", "g0", PcieLink(3, 16, 5, 16, 256)),)
    )
    assert limits(slow, experiment_of(host_to_gpu()))[0].gbs == pytest.approx(58.4, rel=1e-2)
