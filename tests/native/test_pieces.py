"""How threads divide pieces among them: the code that runs on GPUs, run on a CPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope._core import native

core = native.testing
SIZES = [1, 3, 4, 5, 15, 16, 17, 100, 255, 256, 257, 512, 2047, 2048, 2049, 2064, 10_007]

pieces = {"size": st.integers(1, 6000), "count": st.integers(1, 40), "warps": st.integers(1, 9)}
shifts = st.integers(0, 16)


@pytest.mark.parametrize("size", SIZES)
def test_pieces_are_aligned_and_apart(size):
    stride = core.piece_stride(size)
    assert stride % 256 == 0
    assert 256 <= stride - size < 512


@given(**pieces, source_shift=shifts, destination_shift=shifts)
def test_every_byte_is_copied_and_no_gap_touched(
    size, count, warps, source_shift, destination_shift
):
    wrong = core.wrong_after_copy(size, count, 32 * warps, source_shift, destination_shift)
    assert wrong == 0


@given(**pieces)
def test_every_byte_is_written_in_place_and_no_gap_touched(size, count, warps):
    nowhere = core.piece_stride(size) * count
    assert core.wrong_after_write(size, count, 32 * warps, nowhere) == 0


@pytest.mark.parametrize("size", SIZES)
def test_a_planted_wrong_byte_is_found(size):
    stride = core.piece_stride(size)
    for flipped in (0, size - 1, size, stride - 1, stride, 2 * stride + size // 2):  # gaps, too
        assert core.wrong_after_write(size, 3, 64, flipped) == 1


@pytest.mark.parametrize("size", SIZES)
def test_a_wrong_byte_changes_the_sum_of_its_part_alone(size):
    stride = core.piece_stride(size)
    assert core.wrong_sums(size, 3, 3 * stride) == 0
    for flipped in (0, size - 1, stride + size // 2, 2 * stride):
        assert core.wrong_sums(size, 3, flipped) == 1
    assert core.wrong_sums(size, 3, size) == 0  # nobody reads a gap
