"""In which order a copy kernel's block copies its chunks."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from lanescope._core import native

counts = st.integers(1, 7)


def test_each_chunk_is_repeated_before_the_next_and_loops_go_on():
    first_loop = [(0, 0), (0, 1), (0, 0), (0, 1)]
    second_loop = [(1, 0), (1, 1), (1, 0), (1, 1)]
    assert native.testing.chunk_steps(2, 2, 2, 3) == first_loop + second_loop + first_loop
    assert native.testing.chunk_steps(2, 2, 1, 1) == [(0, 0), (0, 1), (1, 0), (1, 1)]


@given(counts, st.integers(1, 2), counts, counts)
def test_as_many_loops_as_repeats_copy_every_chunk_as_often(chunks, ways, repeats, rounds):
    steps = native.testing.chunk_steps(chunks, ways, repeats, repeats * rounds)
    every = {(chunk, way): repeats * rounds for chunk in range(chunks) for way in range(ways)}
    assert Counter(steps) == every
    one = native.testing.chunk_steps(chunks, ways, repeats, 1)
    assert len(one) == chunks * ways
