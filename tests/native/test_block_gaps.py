"""What copies of blocks leave out of the memory that they walk over."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lanescope._core import native

PATTERNS = ["repeated", "ascending", "descending", "random"]


def untouched(pattern, repetitions, block, span):
    kind = getattr(native.BlockPattern, pattern)
    return native.testing.untouched_bytes(kind, repetitions, block, span)


def test_what_a_walk_leaves_out():
    assert untouched("repeated", 9, 4, 10) == [(4, 10)]
    assert untouched("ascending", 1, 4, 10) == [(4, 10)]
    assert untouched("ascending", 2, 4, 10) == [(8, 10)]
    assert untouched("descending", 1, 4, 12) == [(0, 8)]
    assert untouched("descending", 1 << 60, 4, 12) == []
    assert untouched("repeated", 1, 12, 12) == []


@given(st.sampled_from(PATTERNS), st.integers(0, 300), st.integers(1, 9), st.integers(9, 999))
def test_touched_and_untouched_bytes_are_all_bytes(pattern, repetitions, block, span):
    seen = np.zeros(span, dtype=int)
    kind = getattr(native.BlockPattern, pattern)
    for offset in set(native.testing.block_offsets(kind, span // block, block, repetitions)):
        seen[offset : offset + block] += 1
    parts = untouched(pattern, repetitions, block, span)
    for begin, end in parts:
        assert begin < end
        seen[begin:end] += 1
    assert np.all(seen == 1)
    assert parts == sorted(parts)
