"""What channels reckon without a GPU: slabs, where payloads lie, and who holds pinned memory."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope._core import native

BLOCK = 64 << 10
GRANULE = 4096


def padded(size):
    return (size + 15) // 16 * 16


@pytest.mark.parametrize("size", [0, 1, BLOCK, 8 * BLOCK, 8 * BLOCK + 1, 20 * BLOCK - 5])
def test_slabs_cover_an_array_once(size):
    slabs = native.testing.cut_slabs(size, 8 * BLOCK)
    assert [begin for begin, *_ in slabs] == list(range(0, size, 8 * BLOCK))
    assert sum(bytes_ for _, bytes_, *_ in slabs) == size
    assert all(first == begin // BLOCK for begin, _, first, _ in slabs)
    assert all(blocks == -(-bytes_ // BLOCK) for _, bytes_, _, blocks in slabs)


@st.composite
def payloads(draw):
    """Payloads of some blocks, one behind another, in an order that is nearly theirs."""
    sizes = draw(st.lists(st.integers(0, 300), min_size=1, max_size=60))
    order = sorted(range(len(sizes)), key=lambda i: i + draw(st.integers(0, 12)))
    offsets, end = [0] * len(sizes), 0
    for block in order:
        offsets[block] = end
        end += padded(sizes[block])
    return list(zip(offsets, sizes, strict=True)), end


@given(payloads(), st.integers(1, 9))
def test_each_byte_crosses_once_and_each_payload_is_in_its_piece(made, slab_blocks):
    blocks, used = made
    pieces, rebased = native.testing.payload_pieces(blocks, used, slab_blocks)
    assert len(pieces) == -(-len(blocks) // slab_blocks)
    crossed = sum(end - carried for _, carried, end in pieces)
    assert crossed <= used
    for number, (offset, size) in enumerate(blocks):
        begin, _, end = pieces[number // slab_blocks]
        assert begin <= offset
        assert offset + padded(size) <= end <= used
        assert rebased[number] == offset - begin
    for (begin, _, end), (next_begin, next_carried, next_end) in pairwise(pieces):
        assert begin <= next_begin <= next_carried <= next_end
        assert next_carried == max(next_begin, end)  # what lies before is in the piece before
        assert end <= next_end


def test_a_payload_outside_stays_outside():
    blocks = [(0, 100), (1 << 40, 100), (112, 1 << 20), (112, 100)]
    pieces, rebased = native.testing.payload_pieces(blocks, 224, 2)
    assert pieces == [(0, 0, 112), (112, 112, 224)]
    assert rebased[0] == 0
    assert rebased[3] == 0
    assert min(rebased[1], rebased[2]) >= 1 << 60


def test_a_payload_that_is_not_aligned_is_no_part_of_its_piece():
    """Those behind it would lie where a GPU cannot read them."""
    pieces, rebased = native.testing.payload_pieces([(3, 16), (16, 16), (32, 16)], 48, 2)
    assert pieces == [(16, 16, 32), (32, 32, 48)]
    assert rebased[0] >= 1 << 60
    assert rebased[1:] == [0, 0]


def test_memory_that_is_taken_is_nobody_elses():
    arena = native.testing.RangeArena()
    assert arena.take(1) is None
    arena.add_piece(8 * GRANULE)
    first, second = arena.take(GRANULE + 1), arena.take(3 * GRANULE)
    assert first == (0, 0, 2 * GRANULE)
    assert second == (0, 2 * GRANULE, 3 * GRANULE)
    assert arena.take(4 * GRANULE) is None
    arena.give(first)
    assert arena.take(2 * GRANULE) == first
    assert arena.free_bytes == 3 * GRANULE


def test_the_shortest_gap_is_taken():
    arena = native.testing.RangeArena()
    arena.add_piece(16 * GRANULE)
    gap, wall = arena.take(2 * GRANULE), arena.take(GRANULE)
    arena.give(gap)
    assert arena.take(GRANULE)[1] == 0
    assert arena.take(2 * GRANULE)[1] == wall[1] + GRANULE


def test_what_is_left_of_a_range_goes_back():
    arena = native.testing.RangeArena()
    arena.add_piece(8 * GRANULE)
    whole = arena.take(8 * GRANULE)
    rest = arena.keep_front(whole, GRANULE + 5)
    assert rest == (0, 0, 2 * GRANULE)
    assert arena.take(6 * GRANULE) == (0, 2 * GRANULE, 6 * GRANULE)
    assert arena.keep_front(rest, 2 * GRANULE) == rest
    assert arena.keep_front(rest, 0) == (0, 0, 0)
    assert arena.free_bytes == 2 * GRANULE


def test_memory_is_not_given_back_twice():
    arena = native.testing.RangeArena()
    arena.add_piece(4 * GRANULE)
    taken = arena.take(2 * GRANULE)
    arena.give(taken)
    for wrong in (taken, (0, GRANULE, GRANULE), (0, 3 * GRANULE, 2 * GRANULE), (7, 0, GRANULE)):
        with pytest.raises(native.NativeError, match="given back twice"):
            arena.give(wrong)
    assert arena.free_bytes == 4 * GRANULE


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5 * GRANULE)), max_size=60))
def test_all_of_it_comes_together_again(steps):
    arena = native.testing.RangeArena()
    arena.add_piece(16 * GRANULE)
    taken = []
    for which, size in steps:
        if taken and which % 2:
            arena.give(taken.pop(which % len(taken)))
            continue
        one = arena.take(size)
        if one is not None:
            ends = [(begin, begin + length) for _, begin, length in [*taken, one]]
            assert all(a[1] <= b[0] for a, b in pairwise(sorted(ends)))
            taken.append(one)
    assert arena.free_bytes + sum(length for *_, length in taken) == arena.bytes
    assert arena.drop_free_piece(16 * GRANULE - 1) is None
    assert (arena.drop_free_piece() is None) == bool(taken)
    for one in taken:
        arena.give(one)
    if taken:
        assert arena.take(16 * GRANULE) == (0, 0, 16 * GRANULE)
