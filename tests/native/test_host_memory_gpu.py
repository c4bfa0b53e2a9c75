"""Host threads in memory that the driver makes or pins."""

import os

import pytest

from lanescope._core import native
from tests.native.test_gpu import GPUS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]

CPU = min(os.sched_getaffinity(0))
KINDS = ["pinned", "write_combined", "mapped", "managed", "huge"]


@pytest.fixture
def topology():
    return native.Topology()


@pytest.fixture
def pool(topology):
    return native.BufferPool(topology)


def place(kind):
    return native.PlaceSpec(getattr(native.Memory, kind), 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", ["copy", "scale", "add", "triad"])
def test_whole_arrays(topology, pool, kind, operation):
    work = getattr(native.Operation, operation)
    spec = native.HostCopySpec(place(kind), place(kind), 8 * 100_003, work, [CPU])
    team = native.HostTeam(topology, pool, [spec, spec])
    team.run(2)
    assert team.count_mismatches() == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flushed", [False, True])
def test_blocks(topology, pool, kind, flushed):
    order = native.BlockPattern.random
    for size in (1, 7, 64, 4099):
        blocks = native.BlockCopier(
            topology, pool, place(kind), place(kind), size, 100_000, order, flushed, CPU
        )
        assert min(blocks.run(3)) > 0
        assert blocks.count_mismatches() == 0
