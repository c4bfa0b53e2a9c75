"""What transfers cost: the formulas, turned round, and where compressing begins to pay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.compression.rule import (
    MARGIN,
    CodecCost,
    LinkCost,
    break_even,
    compressed_seconds,
    raw_seconds,
    slowness,
)
from lanescope.errors import InputError

speeds = st.floats(0.5, 5000)
seconds = st.floats(0, 1e-3)
costs = st.builds(CodecCost, speeds, speeds, seconds, st.sampled_from([1 << 20, 8 << 20]))
links = st.builds(LinkCost, speeds, seconds)


def test_sizes_from_which_it_pays_as_worked_out_by_hand():
    """NVLink and PCIe with 30 µs to start and a ratio of 1.33, the fill of a slab left out."""
    fast = CodecCost(1e6, 1e6, 30e-6)
    nvlink = break_even(1.33, fast, LinkCost(395.0), margin=1)
    assert nvlink == pytest.approx(30e-6 / (1 - 1 / 1.33) * 395e9, rel=0.01)
    assert nvlink == pytest.approx(48e6, rel=0.02)
    assert break_even(1.33, fast, LinkCost(55.5), margin=1) == pytest.approx(6.7e6, rel=0.02)


@pytest.mark.parametrize(("ratio", "speed"), [(1.04, 1e6), (1.33, 30.0)])
def test_it_never_pays_where_too_little_is_saved_or_the_codec_is_slower_than_the_link(ratio, speed):
    assert break_even(ratio, CodecCost(speed, speed), LinkCost(55.5)) is None


@given(st.floats(1.0, 100), costs, links, st.integers(1, 1 << 40))
def test_from_there_on_it_pays_and_before_it_does_not(ratio, codec, link, size):
    found = break_even(ratio, codec, link)
    paid = compressed_seconds(size, ratio, codec, link) - MARGIN * raw_seconds(size, link)
    close = 1e-9 * raw_seconds(size, link)
    if found is None or size < found:
        assert paid >= -close
    else:
        assert paid <= close


@given(st.floats(0.99, 100), costs, links, st.integers(1 << 10, 1 << 34), st.floats(0.1, 50))
def test_how_slow_a_codec_is_follows_from_what_a_transfer_took(ratio, codec, link, size, times):
    took = compressed_seconds(size, ratio, codec.slower(times), link)
    found = slowness(size, ratio, codec, link, took)
    again = compressed_seconds(size, ratio, codec.slower(max(found, 1e-9)), link)
    assert again == pytest.approx(took, rel=1e-6)


def test_a_transfer_shorter_than_the_link_allows_leaves_the_codec_no_time():
    assert slowness(1 << 20, 1.0, CodecCost(10, 10), LinkCost(1.0), 0.0) == 0


def test_a_ratio_of_nothing_is_refused():
    with pytest.raises(InputError, match="a ratio cannot be 0"):
        break_even(0.0, CodecCost(400.0, 500.0), LinkCost(50.0))
