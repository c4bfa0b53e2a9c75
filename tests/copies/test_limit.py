import dataclasses

import pytest

from lanescope.copies import Copy, Engine, Memory, Operation, Place, Route
from lanescope.copies.limit import limits, route
from lanescope.copies.patterns import chase
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


def test_a_host_that_nvlink_joins_to_its_gpu_uses_it(two_sockets):
    links = (
        Link("h0", "h1", LinkKind.SOCKET, payload_gbs=(100.0, 100.0)),
        *(Link.of_nvlink(f"h{i}", f"g{i}", NvLink(18, 25.0, 4)) for i in (0, 1)),
    )
    machine = dataclasses.replace(two_sockets, switches=(), links=links)
    near, far = (limits(machine, experiment_of(host_to_gpu(gpu=gpu)))[0] for gpu in (0, 1))
    assert (near.kind, near.gbs) == (LinkKind.NVLINK, pytest.approx(links[1].payload_gbs[0]))
    assert (far.kind, far.gbs) == (LinkKind.SOCKET, 100.0)
    assert [hop.b for hop, _ in route(machine, "g0", "g1")] == ["g0", "h1", "g1"]


def test_a_staged_copy_is_bound_by_both_links_and_the_memory_between(two_gpus):
    down, up = two_gpus.links[0].payload_gbs
    (plain,) = limits(two_gpus, experiment_of(host_to_gpu()))
    staged = dataclasses.replace(gpu_to_gpu(0, 1), route=Route.STAGED)
    (limit,) = limits(two_gpus, experiment_of(staged))
    assert limit.gbs == pytest.approx(min(up, down))
    assert limit.kind is LinkKind.PCIE
    assert limit.reason.endswith("staged through host memory")
    (node,) = two_gpus.nodes
    slow = dataclasses.replace(two_gpus, nodes=(dataclasses.replace(node, memory_gbs=60.0),))
    (bound,) = limits(slow, experiment_of(staged))
    assert (bound.gbs, bound.kind) == (30.0, "memory")
    unknown = dataclasses.replace(two_gpus, nodes=(dataclasses.replace(node, memory_gbs=None),))
    assert "speed is not known" in limits(unknown, experiment_of(staged))[0].unknown
    # another copy to the same GPU has half of its link
    both = limits(two_gpus, experiment_of(staged, host_to_gpu(gpu=1)))
    assert both[0].gbs == pytest.approx(plain.gbs / 2, rel=0.02)


def test_copies_between_gpus_without_peer_access_are_staged(two_gpus):
    apart = tuple(dataclasses.replace(gpu, peers=()) for gpu in two_gpus.gpus)
    machine = dataclasses.replace(two_gpus, gpus=apart)
    between = gpu_to_gpu(0, 1)
    staged = dataclasses.replace(between, route=Route.STAGED)
    told = limits(machine, experiment_of(between))
    assert told == limits(two_gpus, experiment_of(staged))
    inside = limits(machine, experiment_of(gpu_to_gpu(0, 0)))
    assert inside == limits(two_gpus, experiment_of(gpu_to_gpu(0, 0)))


def test_memory_bounds_host_threads_as_stream_counts(two_gpus):
    place = Place("h0", Memory.PAGEABLE)
    for operation in (Operation.COPY, Operation.TRIAD):
        copy = Copy(place, place, 1 << 28, Engine.CPU, operation, cpus=(0, 1))
        assert limits(two_gpus, experiment_of(copy))[0].gbs == pytest.approx(200)


def test_memory_is_no_limit_of_a_direction_that_is_not_known(two_gpus):
    no_links = dataclasses.replace(two_gpus, links=())
    limit = limits(no_links, experiment_of(host_to_gpu()))[0]
    assert (limit.gbs, limit.kind) == (None, None)
    assert "not linked" in limit.reason


def test_no_direction_leads_through_another_gpu(two_gpus):
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


def test_payload_that_is_given_of_a_pcie_link_is_its_limit(two_gpus):
    (first, *others) = two_gpus.links
    given = dataclasses.replace(first, payload_gbs=(10.0, 20.0))
    machine = dataclasses.replace(two_gpus, links=(given, *others))
    (down,) = limits(machine, experiment_of(host_to_gpu()))
    (up,) = limits(machine, experiment_of(gpu_to_host()))
    assert (down.gbs, up.gbs) == (pytest.approx(10), pytest.approx(20))
    assert down.reason == "PCIe 5.0 x16 between h0 and g0, by its payload_gbs"
    # read requests go up, too, and kernels move smaller packets
    both = limits(machine, experiment_of(host_to_gpu(), gpu_to_host()))
    assert both[0].gbs == pytest.approx(10)
    assert 19.8 < both[1].gbs < 20
    (kernel,) = limits(machine, experiment_of(by_kernel(gpu_to_host())))
    assert 0.8 * 20 < kernel.gbs < 20


def by_kernel(copy, **more):
    return dataclasses.replace(copy, engine=Engine.SM, **more)


@pytest.mark.parametrize("copy", [host_to_gpu(), gpu_to_host(), gpu_to_gpu(0, 1)])
def test_packets_of_kernels_are_smaller(two_gpus, copy):
    (engine,) = limits(two_gpus, experiment_of(copy))
    (kernel,) = limits(two_gpus, experiment_of(by_kernel(copy)))
    assert 0.8 * engine.gbs < kernel.gbs < engine.gbs
    assert kernel.kind is engine.kind
    assert "128 B a packet, as kernels make them" in kernel.reason
    assert "as kernels make them" not in engine.reason


def test_packets_that_are_small_already_stay(two_gpus):
    small = dataclasses.replace(GEN5, max_payload_bytes=128)
    machine = dataclasses.replace(two_gpus, links=(Link.of_pcie("h0", "g0", small),))
    (engine,) = limits(machine, experiment_of(gpu_to_host()))
    (kernel,) = limits(machine, experiment_of(by_kernel(gpu_to_host())))
    assert kernel.gbs == pytest.approx(engine.gbs)
    assert "128 B a packet" in kernel.reason
    assert "kernels" not in kernel.reason


def test_a_read_over_nvlink_alone_goes_as_fast_as_a_write(two_gpus):
    directions = [by_kernel(gpu_to_gpu(0, 1), executor=gpu) for gpu in ("g0", "g1")]
    write, read = (limits(two_gpus, experiment_of(copy))[0].gbs for copy in directions)
    assert read == pytest.approx(write)


@pytest.mark.parametrize("engine", [Engine.CE, Engine.SM])
def test_a_copy_within_a_gpu_reads_and_writes_its_memory(two_gpus, engine):
    gpus = tuple(dataclasses.replace(g, memory_gbs=4800.0) for g in two_gpus.gpus)
    machine = dataclasses.replace(two_gpus, gpus=gpus)
    local = dataclasses.replace(gpu_to_gpu(0, 0), engine=engine)
    (alone,) = limits(machine, experiment_of(local))
    assert (alone.gbs, alone.kind) == (pytest.approx(2400), "gpu memory")
    assert alone.reason == "memory of g0: its peak, read and write share it"
    both = limits(machine, experiment_of(local, local))
    assert [limit.gbs for limit in both] == pytest.approx([1200, 1200])
    other = dataclasses.replace(gpu_to_gpu(1, 1), engine=engine)
    assert limits(machine, experiment_of(local, other))[0].gbs == pytest.approx(2400)
    (unknown,) = limits(two_gpus, experiment_of(local))
    assert (unknown.gbs, unknown.reason) == (None, "the speed of the GPU's own memory is not known")


def test_a_latency_has_no_limit_and_takes_nothing_from_its_load(two_gpus):
    load = chase(Place("h0", Memory.PINNED), two_gpus.gpus[0])
    latency, copy = limits(two_gpus, experiment_of(load, host_to_gpu()))
    assert (latency.gbs, latency.reason) == (None, "a latency has no limit")
    assert copy.gbs == pytest.approx(limits(two_gpus, experiment_of(host_to_gpu()))[0].gbs)
