"""Latency probes of the compiled core on a real GPU."""

import numpy as np
import pytest

from lanescope._core import native
from tests.native.test_gpu import DEVICE, GPUS, PINNED, pool, topology, two_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]

__all__ = ["pool", "topology"]  # fixtures

RING = 2 << 20


def chase(topology, pool, kind, index=0, size=RING, order="sequential"):
    return native.ChaseProbe(
        topology,
        pool,
        source=native.PlaceSpec(getattr(native.Memory, kind), index),
        device=0,
        bytes=size,
        order=getattr(native.ChaseOrder, order),
        stride=128,
        cpus=[],
    )


@pytest.mark.parametrize("order", ["sequential", "random"])
@pytest.mark.parametrize("kind", [PINNED, DEVICE])
def test_a_chase_ends_where_its_ring_says(topology, pool, kind, order):
    probe = chase(topology, pool, kind, order=order)
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
