"""The same machine on another link."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.errors import InputError
from lanescope.machine.pcie import PcieLink, payload_gbs
from lanescope.prediction.other_links import link_named, with_link
from lanescope.prediction.parameters import Origin
from lanescope.prediction.stored_parameters import named_parameters
from tests.studies.link_parameters import fitted

generations = st.integers(1, 6)
widths = st.sampled_from([1, 2, 4, 8, 16])


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("pcie5", "PCIe 5.0 x16"),
        ("PCIe4x8", "PCIe 4.0 x8"),
        ("pcie3-x4", "PCIe 3.0 x4"),
        ("PCIe 2.0 x16", "PCIe 2.0 x16"),
    ],
)
def test_links_by_name(text, label):
    assert link_named(text).label == label


@pytest.mark.parametrize("text", ["", "pcie", "pcie0", "pcie7", "pcie5x3", "nvlink", "pcie55"])
def test_what_is_no_link(text):
    with pytest.raises(InputError, match="is no link; write for example pcie5 or pcie4x8"):
        link_named(text)


def test_the_share_of_the_limit_stays():
    before = fitted()
    after = with_link(before, "pcie3")
    for index, direction in ((0, "h2d"), (1, "d2h")):
        shares = [
            1
            / getattr(p, direction).per_byte.value
            / 1e9
            / payload_gbs(PcieLink(generation, 16))[index]
            for p, generation in ((before, 5), (after, 3))
        ]
        assert shares[0] == pytest.approx(shares[1])
    assert after.h2d.first == before.h2d.first
    assert after.h2d.gap == before.h2d.gap
    assert after.h2d.call == before.h2d.call
    assert after.launching == before.launching
    assert (after.origin, after.link) == (Origin.DERIVED, "PCIe 3.0 x16")
    assert "scaled from PCIe 5.0 x16 to PCIe 3.0 x16" in after.source


def test_the_interval_is_widened_by_what_the_old_link_loses():
    titan = named_parameters("gtx-titan")
    found = with_link(titan, "pcie2").h2d.per_byte
    reached = 1 / 8.318392e-2 / payload_gbs(PcieLink(3, 16))[0]
    assert found.low == pytest.approx(found.value * reached)
    assert found.high == pytest.approx(found.value / reached)
    # nothing is faster than the new link's limit
    assert found.low * 1e9 == pytest.approx(1 / payload_gbs(PcieLink(2, 16))[0])


def test_small_copies_keep_their_delays_and_large_ones_follow_the_link():
    before, after = fitted(), with_link(fitted(), "pcie3")
    small, large = before.h2d.single.sizes[0], before.h2d.single.sizes[-1]
    assert after.h2d.single.at(small).value == pytest.approx(
        before.h2d.single.at(small).value, rel=1e-3
    )
    ratio = after.h2d.per_byte.value / before.h2d.per_byte.value
    assert after.h2d.single.at(large).value == pytest.approx(
        before.h2d.single.at(large).value * ratio, rel=1e-2
    )


def test_pageable_memory_is_bound_by_the_host_or_by_a_slower_link():
    before = fitted()
    faster, slower = with_link(before, "pcie6"), with_link(before, "pcie3x4")
    assert faster.pageable_h2d == before.pageable_h2d
    assert slower.pageable_h2d.per_byte.value == slower.h2d.per_byte.value
    assert slower.pageable_h2d.first == before.pageable_h2d.first


@given(generations, widths, generations, widths)
def test_faster_links_cost_less_for_each_byte(a, x, b, y):
    one, other = with_link(fitted(), f"pcie{a}x{x}"), with_link(fitted(), f"pcie{b}x{y}")
    first, second = payload_gbs(PcieLink(a, x)), payload_gbs(PcieLink(b, y))
    for found, limit in (
        ((one.h2d, other.h2d), (first[0], second[0])),
        ((one.d2h, other.d2h), (first[1], second[1])),
    ):
        assert (found[0].per_byte.value <= found[1].per_byte.value) == (limit[0] >= limit[1])
        for seconds in found[0].single.seconds:
            assert seconds.low > 0


def test_all_of_a_link_moves():
    before, after = fitted(), with_link(fitted(), "pcie4")
    for name in ("duplex", "explicit_mapped"):
        old, new = getattr(before, name), getattr(after, name)
        assert new.h2d_per_byte.value == pytest.approx(2 * old.h2d_per_byte.value, rel=0.01)
        assert new.d2h_per_byte.value == pytest.approx(2 * old.d2h_per_byte.value, rel=0.01)
    assert after.mapped.read_per_byte.value > 1.9 * before.mapped.read_per_byte.value
    assert after.mapped.write_per_byte.value > 1.9 * before.mapped.write_per_byte.value
    assert after.mapped.mixture == before.mapped.mixture
    assert after.mapped.first == before.mapped.first


def test_a_link_of_another_kind_cannot_be_exchanged():
    with pytest.raises(InputError, match="linked by 'NVLink-C2C', whose payload limit is not"):
        with_link(fitted(link="NVLink-C2C"), "pcie5")


def test_kernels_write_in_packets_of_their_own():
    """Flits of generation 6 pack lines of 128 bytes otherwise than copies' packets."""
    before, after = fitted(), with_link(fitted(), "pcie6")
    ratios = [
        b.value / a.value
        for a, b in (
            (before.mapped.write_per_byte, after.mapped.write_per_byte),
            (before.explicit_mapped.d2h_per_byte, after.explicit_mapped.d2h_per_byte),
            (before.duplex.d2h_per_byte, after.duplex.d2h_per_byte),
        )
    ]
    assert ratios[0] == pytest.approx(ratios[1])
    assert abs(ratios[1] / ratios[2] - 1) > 0.005
