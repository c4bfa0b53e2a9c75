"""Numbers with intervals, and curves of them."""

import pytest

from lanescope.units.estimate import Estimate, Surface, TimeCurve, between


def about(value):
    return Estimate(value, value * 0.9, value * 1.1)


CURVE = TimeCurve((8, 1024, 2048), (about(1.0), about(2.0), about(4.0)))


def test_a_straight_line_lies_between_two_sizes():
    assert CURVE.at(1024) == about(2.0)
    assert CURVE.at(1536).value == pytest.approx(3.0)
    assert CURVE.at(1536).low == pytest.approx(2.7)


def test_beyond_its_ends():
    assert CURVE.at(1) == about(1.0)
    assert CURVE.at(4096).value == pytest.approx(8.0)
    assert CURVE.at(4096).high == pytest.approx(8.8)


def test_a_curve_that_falls_at_its_end_stays_there():
    """Calls take no less than nothing, however large the copy is."""
    falling = TimeCurve((8, 1024, 2048), (about(1.0), about(3.0), about(2.0)))
    assert falling.at(1 << 40) == about(2.0)


def test_streams_lie_between_on_a_logarithm():
    surface = Surface((4, 16), (CURVE, TimeCurve((8, 2048), (about(3.0), about(3.0)))))
    assert surface.at(8, 8).value == pytest.approx(2.0)
    assert surface.at(8, 1).value == 1.0
    assert surface.at(8, 999).value == 3.0


def test_an_interval_holds_its_value():
    with pytest.raises(ValueError, match="is not within"):
        Estimate(1.0, 2.0, 3.0)
    turned = between(Estimate(1.0, 0.0, 1.0), Estimate(2.0, 2.0, 9.0), 0.5)
    assert turned.low <= turned.value <= turned.high


@pytest.mark.parametrize("sizes", [(8,), (8, 8), (16, 8)])
def test_curves_that_are_none(sizes):
    with pytest.raises(ValueError, match="a curve"):
        TimeCurve(sizes, tuple(about(1.0) for _ in sizes))
