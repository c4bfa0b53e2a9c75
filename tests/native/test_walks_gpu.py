"""Copies by copy engines that walk over memory or take a chosen route, on a real GPU."""

import numpy as np
import pytest

from lanescope._core import native
from lanescope.copies import (
    Access,
    Caches,
    Copy,
    Engine,
    Experiment,
    Memory,
    Pattern,
    Place,
    Route,
    Timing,
)
from lanescope.copies.terms import GPU_MEMORIES, HOST_TIMED
from lanescope.engine.core import copy_spec
from lanescope.engine.sessions import EventCosts
from lanescope.engine.special_sessions import WalkSession

MIB = 1 << 20


def _count() -> int:
    try:
        return len(native.cuda_devices())
    except native.NativeError:
        return 0


def _reach_each_other() -> bool:
    devices = native.cuda_devices() if _count() > 1 else []
    return bool(devices) and 1 in devices[0]["peers"] and 0 in devices[1]["peers"]


GPUS = _count()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]
peers = pytest.mark.skipif(not _reach_each_other(), reason="no two GPUs that reach each other")
HOST_KINDS = [m for m in Memory if m not in GPU_MEMORIES]
GATED_KINDS = [m for m in HOST_KINDS if m not in HOST_TIMED]


@pytest.fixture
def topology():
    return native.Topology()


@pytest.fixture
def pool(topology):
    return native.BufferPool(topology)


@pytest.fixture
def make(topology, pool):
    """Makes a session of copies that run together."""
    costs = EventCosts(topology, pool)

    def made(*copies, timing=Timing.GATE):
        core = native.CopySet(topology, pool, [copy_spec(c) for c in copies])
        experiment = Experiment("x", "x", copies, timing)
        return WalkSession(core, experiment, (), None, lambda: max(map(costs.of, copies)))

    return made


def over_pcie(size, access, host=Memory.PINNED, is_down=True, gpu="g0"):
    ends = Place("h0", host), Place(gpu, Memory.DEVICE)
    return Copy(*(ends if is_down else ends[::-1]), size, Engine.CE, access=access)


def between(source, destination, route, size, access=None):
    ends = (Place(part, Memory.DEVICE) for part in (source, destination))
    return Copy(*ends, size, Engine.CE, access=access, route=route)


def core_of(topology, pool, *copies):
    return native.CopySet(topology, pool, [copy_spec(c) for c in copies])


def seconds_of(session, batches=20):
    """Median of the only copy, after as many batches as it takes to have enough."""
    return float(np.median(np.concatenate([session.sample()[0] for _ in range(batches)])))


@pytest.mark.parametrize("is_down", [True, False], ids=["h2d", "d2h"])
@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("size", [1, 16, 100, 4096, 3 * MIB])
def test_every_pattern_arrives_whole(topology, pool, pattern, size, is_down):
    access = Access(pattern, 8 * MIB + 5)
    copies = core_of(topology, pool, over_pcie(size, access, is_down=is_down))
    assert copies.count_mismatches() > 8 * MIB * 0.99  # the destination was spoilt
    copies.run_gated(5, 20)
    assert copies.count_mismatches() == 0
    copies.run_gated(5, 20)  # it goes on where it was
    assert copies.count_mismatches() == 0


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("host", HOST_KINDS, ids=str)
def test_every_pattern_arrives_whole_by_the_hosts_clock(topology, pool, host, pattern):
    for is_down in (True, False):
        copy = over_pcie(4096, Access(pattern, MIB), host, is_down)
        copies = core_of(topology, pool, copy)
        (boundaries,) = copies.run_on_host_clock(50)
        assert np.all(np.diff(boundaries) > 0)
        assert copies.count_mismatches() == 0


@pytest.mark.parametrize("pattern", [Pattern.ASCENDING, Pattern.RANDOM])
@pytest.mark.parametrize("byte", [0, 4096 * 3 + 1, MIB - 1])
def test_one_wrong_bit_is_found_wherever_it_is(topology, pool, pattern, byte):
    copies = core_of(topology, pool, over_pcie(4096, Access(pattern, MIB)))
    copies.run_gated(2, 1)
    copies.spoil(0, byte)
    assert copies.count_mismatches() == 1


@pytest.mark.parametrize("host", GATED_KINDS, ids=str)
@pytest.mark.parametrize("is_down", [True, False], ids=["h2d", "d2h"])
@pytest.mark.parametrize("pattern", Pattern)
def test_the_clock_is_a_small_share_of_16_bytes(make, pattern, is_down, host):
    session = make(over_pcie(16, Access(pattern, MIB), host, is_down))
    median = seconds_of(session)
    assert 0 <= session.clock_seconds() < 0.05 * median
    assert 1e-7 < median < 1e-4
    session.check()


@pytest.mark.parametrize("is_down", [True, False], ids=["h2d", "d2h"])
@pytest.mark.parametrize("host", HOST_KINDS, ids=str)
def test_a_copy_that_is_waited_for_takes_longer_than_its_clock(make, host, is_down):
    session = make(over_pcie(16, Access(Pattern.RANDOM, MIB), host, is_down), timing=Timing.HOST)
    assert 0 < session.clock_seconds() < 0.05 * seconds_of(session)
    session.check()


@pytest.mark.parametrize("pattern", [Pattern.ASCENDING, Pattern.RANDOM])
@pytest.mark.parametrize("host", [*GATED_KINDS, Memory.PAGEABLE], ids=str)
def test_copies_of_flushed_memory_arrive(make, host, pattern):
    timing = Timing.HOST if host is Memory.PAGEABLE else Timing.GATE
    access = Access(pattern, 32 * MIB, caches=Caches.FLUSHED)
    for is_down in (True, False):
        session = make(over_pcie(64 << 10, access, host, is_down), timing=timing)
        assert seconds_of(session, 5) > 0
        session.check()


@pytest.mark.parametrize("route", [Route.PEER, Route.UVA])
def test_routes_inside_a_gpu(make, route):
    session = make(between("g0", "g0", route, MIB))
    assert not session.staged
    assert seconds_of(session) > 0
    session.check()


@pytest.mark.multigpu
@peers
@pytest.mark.parametrize("size", [16, MIB, 64 * MIB])
def test_staged_is_slower_than_peer_and_peer_is_back_afterwards(make, size):
    def measured(route):
        session = make(between("g0", "g1", route, size))
        assert session.staged is (route is Route.STAGED)
        median = seconds_of(session, 5)
        session.check()
        return median

    before, staged = measured(Route.PEER), measured(Route.STAGED)
    after, uva = measured(Route.PEER), measured(Route.UVA)
    assert staged > 1.5 * max(before, after, uva)
    assert after < 1.5 * before


@pytest.mark.multigpu
@peers
def test_large_staged_copies_do_not_wait_for_their_own_gate(make):
    session = make(between("g0", "g1", Route.STAGED, 512 * MIB))
    assert 512 * MIB / seconds_of(session, 2) < 100e9  # not by NVLink
    session.check()


@pytest.mark.multigpu
@peers
def test_both_directions_staged_and_another_walk(make):
    access = Access(Pattern.RANDOM, 64 * MIB)
    there = between("g0", "g1", Route.STAGED, MIB, access)
    back = between("g1", "g0", Route.STAGED, MIB, access)
    session = make(there, back)
    for _ in range(5):
        session.sample()
    session.check()


@pytest.mark.multigpu
@peers
def test_peer_access_is_back_although_something_threw():
    assert native.testing.peer_access_survives_throw(0, 1)
    assert native.testing.peer_access_survives_throw(1, 0)


@pytest.mark.parametrize("streams", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "directions", [(True,), (False,), (True, False)], ids=["h2d", "d2h", "both"]
)
def test_streams_of_all_gpus_run_at_the_same_time(make, streams, directions):
    copies = [
        over_pcie(16 * MIB, None, is_down=is_down, gpu=f"g{gpu}")
        for gpu in range(GPUS)
        for is_down in directions
        for _ in range(streams)
    ]
    session = make(*copies)
    batches = [session.sample() for _ in range(6)]
    assert any(all(seconds.size for seconds in batch) for batch in batches)
    session.check()


def test_more_memory_than_a_gpu_has_is_an_error_and_the_next_copy_works(topology, pool):
    with pytest.raises(native.NativeError) as caught:
        core_of(topology, pool, between("g0", "g0", None, 16, Access(Pattern.RANDOM, 1 << 44)))
    assert caught.value.args[2] == "cudaErrorMemoryAllocation"
    copies = core_of(topology, pool, over_pcie(16, Access(Pattern.RANDOM, MIB)))
    copies.run_gated(2, 1)
    assert copies.count_mismatches() == 0
