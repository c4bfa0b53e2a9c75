import pytest

from lanescope.machine import PcieLink
from lanescope.machine.pcie import (
    is_trained_down,
    line_rate_gbs,
    payload_gbs,
    wire_bytes_per_payload_byte,
)


@pytest.mark.parametrize(
    ("generation", "width", "gbs"),
    [(1, 16, 4.0), (2, 8, 4.0), (3, 16, 15.7538), (4, 16, 31.5077), (5, 16, 63.0154), (6, 16, 128)],
)
def test_line_rate(generation, width, gbs):
    assert line_rate_gbs(generation, width) == pytest.approx(gbs, rel=1e-4)


@pytest.mark.parametrize(("generation", "width"), [(0, 16), (7, 16), (5, 0)])
def test_no_such_link(generation, width):
    with pytest.raises(ValueError, match="PCIe"):
        line_rate_gbs(generation, width)


def test_overhead_is_five_to_six_dwords():
    assert wire_bytes_per_payload_byte(5, 256, 12) == pytest.approx((256 + 20) / 256)
    assert wire_bytes_per_payload_byte(5, 256, 16) == pytest.approx((256 + 24) / 256)


def test_larger_packets_carry_more():
    limits = [payload_gbs(PcieLink(5, 16, max_payload_bytes=mps)) for mps in (128, 256, 512, 4096)]
    assert limits == sorted(limits)
    assert limits[-1][0] < line_rate_gbs(5, 16)


def test_unknown_payload_size_is_taken_as_256():
    assert payload_gbs(PcieLink(5, 16)) == payload_gbs(PcieLink(5, 16, max_payload_bytes=256))


def test_trained_down():
    assert PcieLink(3, 16, 5, 16).trained_down
    assert PcieLink(5, 8, 5, 16).trained_down
    assert not PcieLink(5, 16, 5, 16).trained_down
    assert not PcieLink(5, 16).trained_down
    assert PcieLink(3, 8, 5, 16).at_best().generation == 5


def test_a_rate_above_a_links_state_shows_that_it_slept():
    asleep = PcieLink(1, 16, 5, 16)
    down, up = payload_gbs(asleep)
    assert not is_trained_down(asleep, (None, up * 1.1))
    assert not is_trained_down(asleep, (down * 1.1, 0.0))
    assert is_trained_down(asleep, (down, up * 1.01))
    assert is_trained_down(asleep, (None, None))
    assert not is_trained_down(asleep.at_best(), (None, None))
