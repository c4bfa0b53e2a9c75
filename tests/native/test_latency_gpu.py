"""Latency probes of the compiled core on a real GPU."""

import numpy as np
import pytest

from lanescope._core import native
from tests.native.test_gpu import DEVICE, GPUS, PAGEABLE, PINNED, pool, topology, two_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]

__all__ = ["pool", "topology"]  # fixtures

RING = 2 << 20


def chase(topology, pool, kind, index=0, size=RING, order="sequential", by_bulk=False):
    return native.ChaseProbe(
        topology,
        pool,
        source=native.PlaceSpec(getattr(native.Memory, kind), index),
        device=0,
        bytes=size,
        order=getattr(native.ChaseOrder, order),
        stride=128,
        cpus=[],
        by_bulk=by_bulk,
    )


@pytest.mark.parametrize("by_bulk", [False, True], ids=["loads", "bulk copies"])
@pytest.mark.parametrize("order", ["sequential", "random"])
@pytest.mark.parametrize("kind", [PINNED, DEVICE])
def test_a_chase_ends_where_its_ring_says(topology, pool, kind, order, by_bulk):
    probe = chase(topology, pool, kind, order=order, by_bulk=by_bulk)
    sms = probe.multiprocessors()
    seconds = np.array(probe.run(sms, 200) + probe.run(sms, 333))
    assert probe.count_mismatches() == 0
    assert probe.multiprocessors_seen() > 0.9 * sms
    assert np.all(seconds > 20e-9)
    assert np.median(seconds) < 100e-6


def test_host_memory_is_further_than_the_own_and_caches_are_nearer(topology, pool):
    def median(*place, **more):
        probe = chase(topology, pool, *place, **more)
        probe.run(probe.multiprocessors(), 200)
        return np.median(probe.run(probe.multiprocessors(), 500))

    near = median(DEVICE)
    memory = median(DEVICE, size=512 << 20, order="random")
    host = median(PINNED)
    assert near < memory < host


@pytest.mark.multigpu
@two_gpus
def test_a_peer_is_further_than_the_own_memory(topology, pool):
    own, peer = chase(topology, pool, DEVICE), chase(topology, pool, DEVICE, 1)
    medians = [np.median(p.run(p.multiprocessors(), 500)) for p in (own, peer)]
    assert peer.count_mismatches() == 0
    assert medians[0] < medians[1]


KERNEL_CALLS = ("launch", "kernel_sync", "kernel_spin")
COPY_CALLS = ("copy_submit", "copy_sync", "copy_spin")


def call(topology, pool, kind, down=False, host="pinned", size=16):
    ends = [native.PlaceSpec(getattr(native.Memory, m), 0) for m in (host, DEVICE)]
    source, destination = ends if down else ends[::-1]
    kind = getattr(native.Call, kind)
    return native.CallProbe(topology, pool, kind, source, destination, size, 0, [])


@pytest.mark.parametrize("kind", KERNEL_CALLS)
def test_kernels_are_seen(topology, pool, kind):
    probe = call(topology, pool, kind, down=True, host="mapped", size=4)
    assert all(0 < s < 0.01 for s in probe.run(200)[10:])
    assert probe.count_mismatches() == 0


@pytest.mark.parametrize("size", [1, 16, 4096])
@pytest.mark.parametrize("down", [True, False], ids=["h2d", "d2h"])
@pytest.mark.parametrize("kind", COPY_CALLS)
def test_small_copies_arrive(topology, pool, kind, down, size):
    if kind == "copy_spin" and down:
        with pytest.raises(native.NativeError, match="cannot see"):
            call(topology, pool, kind, down, size=size)
        return
    probe = call(topology, pool, kind, down, size=size)
    assert probe.count_mismatches() == size  # the destination was spoilt
    assert all(0 < s < 0.01 for s in probe.run(100)[10:])
    assert probe.count_mismatches() == 0


def test_completion_takes_longer_than_the_call(topology, pool):
    def median(kind):
        return np.median(call(topology, pool, kind, down=kind != "copy_spin").run(500))

    assert median("copy_submit") < median("copy_sync")


def test_the_counter_comes_back(topology, pool):
    words = native.PlaceSpec(native.Memory.mapped, 0)
    game = native.PingPong(topology, pool, words, 0, [])
    for turns in (1, 1000, 10):  # the words begin anew
        seconds = np.array(game.run(turns))
        assert seconds.size == turns
        assert np.all(seconds > 100e-9)
    assert np.median(game.run(1000)) < 100e-6


def test_words_that_both_cannot_see_are_refused(topology, pool):
    for kind in (PAGEABLE, DEVICE):
        with pytest.raises(native.NativeError, match="CPU and GPU see them"):
            native.PingPong(
                topology, pool, native.PlaceSpec(getattr(native.Memory, kind), 0), 0, []
            )


def load_of(topology, pool, source=PINNED, destination=DEVICE, size=64 << 20):
    places = (native.PlaceSpec(getattr(native.Memory, k), 0) for k in (source, destination))
    return native.CopyLoad(topology, pool, native.CopySpec(*places, size, 0, [], None))


def test_a_load_runs_while_something_else_does(topology, pool):
    load = load_of(topology, pool)
    assert load.count_mismatches() > 0
    probe = chase(topology, pool, PINNED)
    probe.run(32, 64)  # the first time takes long
    copies = 500
    load.start(copies)
    probe.run(32, 64)
    assert 1 <= load.completed() < copies
    seconds = np.array(load.finish())
    assert load.completed() == seconds.size == copies
    assert np.all(seconds > 0)
    assert load.count_mismatches() == 0
    assert probe.count_mismatches() == 0


def test_a_load_that_is_dropped_ends(topology, pool):
    load = load_of(topology, pool)
    load.start(50)
    del load
    copies = chase(topology, pool, DEVICE)
    copies.run(1, 10)


def test_pageable_memory_is_no_load(topology, pool):
    with pytest.raises(native.NativeError, match="pinned or device"):
        load_of(topology, pool, PAGEABLE)


def test_a_full_link_delays_loads(topology, pool):
    probe, load = chase(topology, pool, PINNED), load_of(topology, pool, size=256 << 20)
    idle = np.median(probe.run(64, 128))
    load.start(60)
    busy = np.median(probe.run(64, 128))
    still = load.completed() < 60
    load.finish()
    assert still
    assert busy > idle
