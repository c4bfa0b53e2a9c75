"""Copies of blocks by one host thread, on a CPU."""

import functools
import os
import statistics

import pytest

from lanescope._core import native
from tests.patience import until

CPU = min(os.sched_getaffinity(0))
PATTERNS = ["repeated", "ascending", "descending", "random"]

flushes = pytest.mark.skipif(
    not native.testing.can_flush_caches(), reason="this CPU has no known flush"
)


@functools.cache
def core():
    topology = native.Topology()
    return topology, native.BufferPool(topology)


def copier(size, span=None, pattern="repeated", flushed=False, memory="pageable"):
    place = native.PlaceSpec(getattr(native.Memory, memory), 0)
    order = getattr(native.BlockPattern, pattern)
    topology, pool = core()
    return native.BlockCopier(topology, pool, place, place, size, span or size, order, flushed, CPU)


def offsets(pattern, blocks, count, step=8):
    order = getattr(native.BlockPattern, pattern)
    return native.testing.block_offsets(order, blocks, step, count)


def test_patterns_go_where_they_say():
    assert offsets("repeated", 4, 5) == [0, 0, 0, 0, 0]
    assert offsets("ascending", 4, 6) == [0, 8, 16, 24, 0, 8]
    assert offsets("descending", 4, 6) == [24, 16, 8, 0, 24, 16]
    for pattern in PATTERNS:
        assert offsets(pattern, 1, 3) == [0, 0, 0]


@pytest.mark.parametrize("blocks", [1, 2, 3, 64, 4096, 4097, 5000, 10_007, 65_536])
def test_random_order_takes_each_block_once_and_then_again(blocks):
    once, again = (offsets("random", blocks, 2 * blocks, 1)[i * blocks :][:blocks] for i in (0, 1))
    assert sorted(once) == list(range(blocks))
    assert again == once
    if blocks > 3:
        assert once != sorted(once)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("flushed", [False, pytest.param(True, marks=flushes)])
def test_any_number_of_bytes_arrives(pattern, flushed):
    for size in range(1, 66):  # blocks of odd sizes begin at odd offsets, too
        blocks = copier(size, 7 * 128 + 11, pattern, flushed)
        assert all(s > 0 for s in blocks.run(3))
        assert blocks.count_mismatches() == 0


def test_a_block_as_large_as_the_span_and_one_with_a_rest():
    for size, span in ((1, 1), (4096, 4096), (1 << 20, 1 << 20), (1000, 4099)):
        assert copier(size, span, "descending").count_mismatches() == 0


def test_only_blocks_of_the_walk_are_written():
    # the check counts bytes outside of the blocks that changed: of one block all but it
    repeated = copier(64, 1 << 16)
    repeated.run(3)
    assert repeated.count_mismatches() == 0


@pytest.mark.parametrize("byte", [0, 4097, 8190])
def test_a_wrong_byte_is_seen_in_a_block_and_outside_of_all(byte):
    blocks = copier(4095, 8190 + 64, "random")
    blocks.spoil(byte)
    assert blocks.count_mismatches() == 1  # no copy goes over what timed copies have written
    blocks.run(2)
    assert blocks.count_mismatches() == (byte >= 8190)


@flushes
def test_a_flushed_block_takes_longer_than_one_in_the_cache():
    def typical(flushed):
        return statistics.median(copier(64, 32 << 10, "random", flushed).run(50))

    until(lambda: typical(True) > 2 * typical(False))


def test_the_clock_is_a_small_part_where_loops_can_make_it_one():
    def small():
        blocks = copier(8, 1 << 16, "ascending")  # it tries how often to loop
        enough = blocks.clock_seconds() < 0.05 * statistics.median(blocks.run(50))
        return blocks.loops() > 1 and enough

    until(small)


@flushes
def test_one_flushed_block_cannot_be_looped():
    assert copier(8, 1 << 16, "repeated", True).loops() == 1
    assert copier(8, 1024, "random", True).loops() <= 8  # 128 bytes apart
    assert copier(8, 1024, "random", True).step_bytes() == 128


@pytest.mark.parametrize(("size", "span"), [(0, 64), (65, 64)])
def test_a_span_must_hold_a_block(size, span):
    with pytest.raises(native.NativeError, match="must hold a block"):
        copier(size, span)


def test_small_pages_are_small():
    assert native.testing.huge_bytes(native.Topology(), 8 << 20, True) == 0
    assert copier(4096, 8 << 20, "random", memory="small_pages").count_mismatches() == 0


def test_huge_pages_are_huge_or_an_error_says_so():
    topology, _ = core()
    if native.testing.huge_bytes(topology, 8 << 20, False) < 8 << 20:
        with pytest.raises(native.NativeError, match="no huge pages"):
            copier(4096, 8 << 20, "random", memory="huge")
    else:
        assert copier(4096, 8 << 20, "random", memory="huge").count_mismatches() == 0
