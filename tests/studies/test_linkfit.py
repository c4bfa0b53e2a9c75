import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.studies.runs.charts import fit_link, saturation_bytes

SIZES = 2.0 ** np.arange(4, 32)


def test_exact_curve_is_found():
    fit = fit_link(SIZES, 2e-6 + SIZES / 55e9, limit_gbs=58.4)
    assert fit.delay_seconds == pytest.approx(2e-6, rel=1e-6)
    assert fit.plateau_gbs == pytest.approx(55, rel=1e-6)
    assert fit.worst_residual < 1e-6


@given(
    st.floats(1e-7, 1e-4),
    st.floats(1, 100),
    st.lists(st.floats(0.3, 3.0), min_size=len(SIZES), max_size=len(SIZES)),
)
def test_no_noise_makes_a_size_exceed_the_link_or_go_negative(delay, plateau, noise):
    # the thesis subtracted a noisy delay here and got negative and impossible bandwidths
    limit = plateau * 1.05
    seconds = (delay + SIZES / (plateau * 1e9)) * np.array(noise)
    fit = fit_link(SIZES, seconds, limit)
    assert fit.delay_seconds >= 0
    assert fit.plateau_gbs <= limit * (1 + 1e-9)
    assert np.all(fit.gbs(SIZES) <= limit * (1 + 1e-9))
    assert np.all(fit.gbs(SIZES) > 0)


def test_the_delay_is_not_drowned_by_the_largest_size():
    seconds = 5e-6 + SIZES / 55e9
    seconds[-1] *= 1.01  # 400 µs too much at the end
    assert fit_link(SIZES, seconds, None).delay_seconds == pytest.approx(5e-6, rel=0.05)


@pytest.mark.parametrize(
    ("sizes", "seconds"), [([16.0, 16.0], [1e-6, 1e-6]), ([16.0, 32.0], [0.0, 1e-6])]
)
def test_no_curve(sizes, seconds):
    with pytest.raises(ValueError, match="transfer curve"):
        fit_link(np.array(sizes), np.array(seconds), None)


def test_saturation_is_where_the_curve_crosses_95_percent():
    gbs = SIZES / (2e-6 + SIZES / 55e9) / 1e9
    expected = 19 * 2e-6 * 55e9  # 0.95 of the plateau, solved for the size
    assert saturation_bytes(SIZES, gbs, 55.0) == pytest.approx(expected, rel=0.05)


def test_saturation_at_the_ends():
    assert saturation_bytes(np.array([1.0, 2.0]), np.array([9.9, 10.0]), 10.0) == 1.0
    assert saturation_bytes(np.array([1.0, 2.0]), np.array([1.0, 2.0]), 10.0) is None
