"""Memory asked for, touched and given back by the compiled core."""

import os
from pathlib import Path

import numpy as np
import pytest

from lanescope._core import native
from tests.native.test_gpu import GPUS
from tests.patience import until

HOST_KINDS = ["pageable", "huge", "small_pages"]
DRIVER_KINDS = ["pinned", "write_combined", "mapped", "managed", "device", "pool"]


@pytest.fixture(scope="module")
def topology():
    return native.Topology()


def probe(topology, kind, size):
    place = native.PlaceSpec(getattr(native.Memory, kind), 0)
    try:
        return native.AllocationProbe(topology, place, size, 0, [0])
    except native.NativeError as error:
        if error.args[2] == "no huge pages":
            pytest.skip("the kernel gives no huge pages")
        raise


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def medians(made, cycles=9):
    return np.median(made.run(cycles), axis=0)


@pytest.mark.parametrize("kind", HOST_KINDS)
@pytest.mark.parametrize("size", [1, 100, 4097, 3 << 20])
def test_every_stage_has_a_time(topology, kind, size):
    found = np.array(probe(topology, kind, size).run(5))
    assert found.shape == (5, 3)
    assert np.all(found >= 0)
    assert np.all(found < 1)


@pytest.mark.parametrize("kind", HOST_KINDS)
def test_more_pages_take_longer_to_touch(topology, kind):
    few, many = probe(topology, kind, 4096), probe(topology, kind, 64 << 20)
    until(lambda: medians(many)[1] > 10 * medians(few)[1])


@pytest.mark.native  # ten seconds
@pytest.mark.parametrize("kind", HOST_KINDS)
def test_memory_is_given_back(topology, kind):
    made = probe(topology, kind, 48 << 20)
    made.run(2)
    before = resident_bytes()
    made.run(100)
    assert resident_bytes() - before < 16 << 20


def test_impossible_memory_is_an_error(topology):
    for kind in ("pageable", "small_pages"):
        with pytest.raises(native.NativeError) as caught:
            probe(topology, kind, 1 << 60)
        assert caught.value.args[2] == "errno 12"


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
@pytest.mark.parametrize("kind", DRIVER_KINDS)
def test_without_a_gpu_the_driver_says_why(topology, kind):
    with pytest.raises(native.NativeError) as caught:
        probe(topology, kind, 4096)
    assert caught.value.args[2].startswith("cudaError")


@pytest.mark.gpu
@pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")
@pytest.mark.parametrize("kind", DRIVER_KINDS)
@pytest.mark.parametrize("size", [100, 16 << 20])
def test_the_drivers_kinds(topology, kind, size):
    found = np.array(probe(topology, kind, size).run(8))
    assert np.all(found[:, [0, 2]] > 0)
    assert np.all((found[:, 1] > 0) == (kind not in ("device", "pool")))


@pytest.mark.gpu
@pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")
def test_a_pool_keeps_what_is_given_back(topology):
    size = 256 << 20
    device, pool = (medians(probe(topology, kind, size)) for kind in ("device", "pool"))
    assert pool[0] < device[0]
