"""The compiled core on a real GPU."""

import time

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

PINNED, PAGEABLE, DEVICE = "pinned", "pageable", "device"
HOST_KINDS = [PAGEABLE, PINNED, "write_combined", "mapped", "managed", "huge", "small_pages"]
#: SMs, bytes of a chunk, pace: loads, bulk copies, more blocks than chunks, with a pace.
SHAPES = [
    (1, 0, 0),
    (132, 0, 0),
    (2, 16384, 0),
    (32, 64 << 10, 0),
    (132, 2048, 0),
    (10, 4096, 50),
    (8, 16384, 0, -1, 3),
]
SIZE = (32 << 20) + 5  # not a multiple of a word


@pytest.fixture
def topology():
    return native.Topology()


@pytest.fixture
def pool(topology):
    return native.BufferPool(topology)


def spec(source, destination, size, executor=0, source_index=0, destination_index=0, sm=None):
    shape = None if sm is None else native.SmShape(*sm)
    places = ((source, source_index), (destination, destination_index))
    specs = (native.PlaceSpec(getattr(native.Memory, kind), index) for kind, index in places)
    return native.CopySpec(*specs, size, executor, [], shape)


def copies(topology, pool, *specs):
    return native.CopySet(topology, pool, list(specs))


def test_a_throw_behind_the_gate_frees_the_stream():
    native.testing.throw_behind_gate(0)


@pytest.mark.parametrize("host", HOST_KINDS)
@pytest.mark.parametrize("down", [True, False], ids=["h2d", "d2h"])
def test_every_byte_arrives(topology, pool, host, down):
    source, destination = (host, DEVICE) if down else (DEVICE, host)
    copy = copies(topology, pool, spec(source, destination, SIZE))
    assert copy.count_mismatches() > SIZE * 0.99  # the destination was spoilt
    (boundaries,) = copy.run_on_host_clock(2)
    assert np.all(np.diff(boundaries) > 0)
    assert copy.count_mismatches() == 0


@pytest.mark.parametrize("size", [1, 15, 16, 4097, SIZE])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ends", [(PINNED, DEVICE), (DEVICE, PINNED), (DEVICE, DEVICE)], ids=str)
def test_a_kernel_moves_every_byte(topology, pool, ends, shape, size):
    copy = copies(topology, pool, spec(*ends, size, sm=shape))
    assert copy.count_mismatches() >= size * 0.5
    (boundaries,) = copy.run_gated(3, 2)
    assert len(boundaries) == 4
    assert np.all(np.diff(boundaries) >= 0)
    assert copy.count_mismatches() == 0


@pytest.mark.parametrize("host", ["write_combined", "mapped", "managed", "huge"])
def test_a_kernel_reaches_every_pinned_kind(topology, pool, host):
    for ends in ((host, DEVICE), (DEVICE, host)):
        copy = copies(topology, pool, spec(*ends, SIZE, sm=(8, 0, 0)))
        copy.run_gated(2, 1)
        assert copy.count_mismatches() == 0


@pytest.mark.parametrize("work", ["read", "write"])
@pytest.mark.parametrize("size", [1, 15, 4097, 32768, 40000, SIZE])
@pytest.mark.parametrize("sms", [1, 100])
def test_a_kernel_that_goes_one_way_takes_every_byte(topology, pool, work, size, sms):
    shape = (sms, 0, 0.0, -1, 1, getattr(native.SmWork, work))
    copy = copies(topology, pool, spec(DEVICE, DEVICE, size, sm=shape))
    (boundaries,) = copy.run_gated(3, 2)
    assert np.all(np.diff(boundaries) > 0)
    assert copy.count_mismatches() == 0
    copy.spoil(0, 0)
    assert copy.count_mismatches() > 0


@pytest.mark.parametrize("byte", [0, SIZE // 2, SIZE - 1])
def test_one_wrong_bit_is_found(topology, pool, byte):
    copy = copies(topology, pool, spec(PINNED, DEVICE, SIZE))
    copy.run_gated(2, 1)
    copy.spoil(0, byte)
    assert copy.count_mismatches() == 1


def test_pageable_copies_run_at_the_same_time(topology, pool):
    both = copies(topology, pool, spec(PAGEABLE, DEVICE, SIZE), spec(DEVICE, PAGEABLE, SIZE))
    turns = (both.run_on_host_clock(60) for _ in range(10))
    # on a busy host one thread may be done before the other one gets a core: not each time
    assert any(min(a[-1], b[-1]) > max(a[0], b[0]) for a, b in turns)
    assert both.count_mismatches() == 0


def test_a_pace_is_kept(topology, pool):
    copy = copies(topology, pool, spec(DEVICE, DEVICE, 256 << 20, sm=(16, 16384, 200)))
    (boundaries,) = copy.run_gated(5, 1)
    gbs = (256 << 20) / np.median(np.diff(boundaries)) / 1e9
    assert 180 < gbs < 202


def test_gated_windows_are_in_order_and_agree(topology, pool):
    copy = copies(topology, pool, spec(PINNED, DEVICE, SIZE))
    (boundaries,) = copy.run_gated(20, 1)
    windows = np.diff(boundaries)
    assert len(windows) == 20
    assert np.all(windows > 0)
    assert windows.max() < 1.5 * windows.min()
    assert copy.count_mismatches() == 0


def test_opposing_copies_run_at_the_same_time(topology, pool):
    down = spec(PINNED, DEVICE, SIZE)
    up = spec(DEVICE, PINNED, SIZE)
    both = copies(topology, pool, down, up)
    first, second = both.run_gated(20, 1)
    overlap = min(first[-1], second[-1]) - max(first[0], second[0])
    assert overlap > 0.5 * (first[-1] - first[0])
    assert both.count_mismatches() == 0


def test_copies_of_a_queue_do_their_windows_by_turns(topology, pool):
    there, back = spec(PINNED, DEVICE, SIZE), spec(DEVICE, PINNED, SIZE)
    three = copies(topology, pool, there, back, spec(PINNED, DEVICE, 2 * SIZE))
    first, other, last = np.array(three.run_gated(10, 1, queues=[0, 1, 0]))
    assert np.all(first < last)
    assert np.all(last[:-1] < first[1:])
    rounds, alone = np.median(np.diff(first)), np.median(np.diff(other))
    assert rounds == pytest.approx(np.median(np.diff(last)), rel=0.2)
    assert 2 * alone < rounds < 6 * alone
    assert three.count_mismatches() == 0
    three.run_gated(3, 1)  # each in its own stream again
    assert three.count_mismatches() == 0


def test_only_copies_by_engines_of_one_gpu_share_a_queue(topology, pool):
    kernel = spec(PINNED, DEVICE, SIZE, sm=(4, 0, 0))
    pair = copies(topology, pool, spec(PINNED, DEVICE, SIZE), kernel)
    for queues in ([0, 0], [0]):
        with pytest.raises(native.NativeError, match="queue"):
            pair.run_gated(2, 1, queues=queues)


def test_buffers_are_used_again(topology, pool):
    def seconds():
        begin = time.perf_counter()
        copies(topology, pool, spec(PINNED, DEVICE, 512 << 20))
        return time.perf_counter() - begin

    first = seconds()
    assert seconds() < first / 2


def test_too_much_memory_is_an_error_and_the_device_lives_on(topology, pool):
    with pytest.raises(native.NativeError) as caught:
        copies(topology, pool, spec(DEVICE, DEVICE, 1 << 44))
    assert caught.value.args[2] == "cudaErrorMemoryAllocation"
    test_gated_windows_are_in_order_and_agree(topology, pool)


@pytest.mark.multigpu
@two_gpus
def test_gpu_to_gpu(topology, pool):
    there = spec(DEVICE, DEVICE, SIZE, executor=0, destination_index=1)
    back = spec(DEVICE, DEVICE, SIZE, executor=1, source_index=1)
    both = copies(topology, pool, there, back)
    both.run_gated(10, 1)
    assert both.count_mismatches() == 0


@pytest.mark.multigpu
@two_gpus
@pytest.mark.parametrize("executor", [0, 1], ids=["write", "read"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_kernel_moves_every_byte_between_gpus(topology, pool, executor, shape):
    job = spec(DEVICE, DEVICE, SIZE, executor=executor, destination_index=1, sm=shape)
    copy = copies(topology, pool, job)
    copy.run_gated(3, 1)
    assert copy.count_mismatches() == 0


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_kernel_goes_both_directions_in_step(topology, pool, shape):
    down = spec(PINNED, DEVICE, SIZE, sm=shape)
    up = spec(DEVICE, PINNED, SIZE, sm=(*shape[:3], 0, *shape[4:]))
    pair = copies(topology, pool, down, up)
    assert pair.count_mismatches() > SIZE * 1.99
    there, back = np.array(pair.run_gated(4, 2))
    assert np.all(np.diff(there) > 0)
    assert np.array_equal(there, back)
    assert pair.count_mismatches() == 0


def test_copies_in_step_are_alike(topology, pool):
    down, up = spec(PINNED, DEVICE, SIZE, sm=(4, 0, 0)), spec(DEVICE, PINNED, 64, sm=(4, 0, 0, 0))
    with pytest.raises(native.NativeError, match="not alike"):
        copies(topology, pool, down, up)
    with pytest.raises(native.NativeError, match="not alike"):
        copies(topology, pool, up)
