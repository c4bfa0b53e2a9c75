"""The compiled core on a real GPU."""

import numpy as np
import pytest

from lanescope._core import native


def _count() -> int:
    try:
        return len(native.cuda_devices())
    except native.NativeError:
        return 0


GPUS = _count()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]
two_gpus = pytest.mark.skipif(GPUS < 2, reason="fewer than two GPUs")

PINNED = native.PlaceSpec(native.Memory.pinned, 0)
PAGEABLE = native.PlaceSpec(native.Memory.pageable, 0)
DEVICE = native.PlaceSpec(native.Memory.device, 0)
SIZE = (32 << 20) + 5  # not a multiple of a word


@pytest.fixture
def topology():
    return native.Topology()


@pytest.fixture
def pool(topology):
    return native.BufferPool(topology)


def copies(topology, pool, *specs):
    return native.CopySet(topology, pool, list(specs), [])


def test_a_throw_behind_the_gate_frees_the_stream():
    native.testing.throw_behind_gate(0)


@pytest.mark.parametrize("host", [PINNED, PAGEABLE], ids=["pinned", "pageable"])
@pytest.mark.parametrize("down", [True, False], ids=["h2d", "d2h"])
def test_every_byte_arrives(topology, pool, host, down):
    source, destination = (host, DEVICE) if down else (DEVICE, host)
    copy = copies(topology, pool, native.CopySpec(source, destination, SIZE, 0))
    assert copy.count_mismatches() > SIZE * 0.99  # the destination was spoilt
    assert all(s > 0 for s in copy.run_on_host_clock(2))
    assert copy.count_mismatches() == 0


def test_gated_windows_are_in_order_and_agree(topology, pool):
    copy = copies(topology, pool, native.CopySpec(PINNED, DEVICE, SIZE, 0))
    (boundaries,) = copy.run_gated(20, 1)
    windows = np.diff(boundaries)
    assert len(windows) == 20
    assert np.all(windows > 0)
    assert windows.max() < 1.5 * windows.min()
    assert copy.count_mismatches() == 0


def test_opposing_copies_run_at_the_same_time(topology, pool):
    down = native.CopySpec(PINNED, DEVICE, SIZE, 0)
    up = native.CopySpec(DEVICE, PINNED, SIZE, 0)
    both = copies(topology, pool, down, up)
    first, second = both.run_gated(20, 1)
    overlap = min(first[-1], second[-1]) - max(first[0], second[0])
    assert overlap > 0.5 * (first[-1] - first[0])
    assert both.count_mismatches() == 0


def test_buffers_are_used_again(topology, pool):
    import time

    def seconds():
        begin = time.perf_counter()
        copies(topology, pool, native.CopySpec(PINNED, DEVICE, 512 << 20, 0))
        return time.perf_counter() - begin

    first = seconds()
    assert seconds() < first / 2


def test_too_much_memory_is_an_error_and_the_device_lives_on(topology, pool):
    with pytest.raises(native.NativeError) as caught:
        copies(topology, pool, native.CopySpec(DEVICE, DEVICE, 1 << 44, 0))
    assert caught.value.args[2] == "cudaErrorMemoryAllocation"
    test_gated_windows_are_in_order_and_agree(topology, pool)


@pytest.mark.multigpu
@two_gpus
def test_gpu_to_gpu(topology, pool):
    other = native.PlaceSpec(native.Memory.device, 1)
    there = native.CopySpec(DEVICE, other, SIZE, 0)
    back = native.CopySpec(other, DEVICE, SIZE, 1)
    both = copies(topology, pool, there, back)
    both.run_gated(10, 1)
    assert both.count_mismatches() == 0
