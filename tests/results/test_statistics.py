from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.results import half_width, median_interval, summarise


def test_summary():
    s = summarise(np.array([3.0, 1.0, 2.0]))
    assert (s.n, s.median_seconds, s.min_seconds, s.max_seconds) == (3, 2, 1, 3)
    assert s.half_width is None


def test_no_samples():
    with pytest.raises(ValueError, match="no samples"):
        summarise(np.array([]))


def test_six_samples_need_their_extremes():
    assert half_width(np.array([9, 10, 10, 10, 10, 11.0])) == pytest.approx(0.1)


@pytest.mark.parametrize("n", [6, 7, 50, 1001])
def test_the_interval_is_as_narrow_as_95_in_100_allow(n):
    below, above = (int(end) for end in median_interval(np.arange(n)))
    assert below + above == n - 1
    missed = sum(comb(n, rank) for rank in range(below + 1))
    assert 40 * missed <= 2**n < 40 * (missed + comb(n, below + 1))


@pytest.mark.parametrize("n", [2001, 5000])
def test_of_many_samples_the_interval_is_one_rank_off_at_most(n):
    below, above = (int(end) for end in median_interval(np.arange(n)))
    assert below + above == n - 1
    missed = [sum(comb(n, rank) for rank in range(below + 1 + off)) for off in (-1, 2)]
    assert 40 * missed[0] <= 2**n < 40 * missed[1]


def test_the_interval_of_a_million_samples_is_found_at_once():
    low, high = median_interval(np.arange(1_000_000))
    assert (high - low) / 2 == pytest.approx(980, rel=0.002)  # 1.96 times half the root of n


def test_interval_covers_the_median_95_times_in_100():
    random = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        samples = random.exponential(size=30) + 1
        ordered = np.sort(samples)
        width = half_width(samples) * np.median(samples) * 2
        # the order statistics around the median that are this far apart
        low = next(i for i in range(15) if np.isclose(ordered[29 - i] - ordered[i], width))
        hits += ordered[low] <= 1 + np.log(2) <= ordered[29 - low]
    assert hits >= 0.93 * 400


@given(st.lists(st.floats(1e-9, 1e3), min_size=6, max_size=200), st.floats(0.01, 100))
def test_half_width_is_relative(samples, factor):
    array = np.array(samples)
    assert half_width(array) >= 0
    assert half_width(array * factor) == pytest.approx(half_width(array), rel=1e-6, abs=1e-12)
