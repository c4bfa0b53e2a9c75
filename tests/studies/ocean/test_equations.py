"""The equations of state against what was published, in Python and in the core."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope._core import native
from lanescope.studies.ocean.case import GridCase
from lanescope.studies.ocean.reference import RANGES, Equation, Kernel, density, pressure_bar
from tests.studies.ocean.runs import water


def by_numpy(equation, temperature, salinity, bar):
    return [float(a) for a in density(equation, temperature, salinity, bar)]


def by_core(equation, temperature, salinity, bar):
    made = GridCase(Kernel.STATE, equation, 3).on_host(water(temperature, salinity, bar))
    return [float(a[0, 0, 0]) for a in made]


both = pytest.mark.parametrize("compute", [by_numpy, by_core])


#: Practical salinity, potential temperature in °C, pressure in dbar, density in kg/m³ as printed.
PUBLISHED = [
    # McDougall, Wright, Jackett and Feistel, Accurate and computationally efficient algorithms for
    # potential temperature and density of seawater, J. Atmos. Oceanic Technol. 20 (2003)
    (Equation.MWJF, 35, 25, 2000, "1031.654229"),
    (Equation.MWJF, 20, 20, 1000, "1017.726743"),
    (Equation.MWJF, 40, 12, 8000, "1062.928258"),
    # Jackett and McDougall, Minimal adjustment of hydrographic profiles to achieve static
    # stability, J. Atmos. Oceanic Technol. 12 (1995)
    (Equation.JMCD, 35.5, 3, 3000, "1041.83267"),
]


@both
@pytest.mark.parametrize(("equation", "psu", "temperature", "dbar", "printed"), PUBLISHED)
def test_published_densities(compute, equation, psu, temperature, dbar, printed):
    rho, _, _ = compute(equation, temperature, psu / 1000, dbar / 10)
    digits = len(printed.partition(".")[2])
    assert abs(1000 * rho - float(printed)) <= 0.5 * 10.0**-digits


@both
def test_derivatives_of_mwjf(compute):
    rho, by_t, by_s = compute(Equation.MWJF, 20.0, 0.035, 200.0)
    assert rho == pytest.approx(1.033213386587, abs=5e-13)
    assert by_t == pytest.approx(-2.9393296429e-4, abs=5e-15)
    assert by_s == pytest.approx(0.75079418970, abs=5e-12)


@both
def test_derivatives_of_jmcd(compute):
    """Known from differences of doubles, of which the ninth digit is not certain."""
    _, by_t, by_s = compute(Equation.JMCD, 3.0, 0.0355, 300.0)
    assert 1000 * by_t == pytest.approx(-0.172446624, abs=2e-9)
    assert by_s == pytest.approx(0.774811180, abs=2e-9)


@both
def test_linear_is_what_it_says(compute):
    rho, by_t, by_s = compute(Equation.LINEAR, 29.0, 0.045, 300.0)
    assert rho == pytest.approx(1.025022 + 0.00764 - 0.00255, abs=1e-15)
    assert (by_t, by_s) == (-2.55e-4, 0.764)


@both
@pytest.mark.parametrize("equation", list(Equation))
@given(t=st.floats(-1.5, 35), s=st.floats(0.001, 0.041), bar=st.floats(0, 600))
def test_derivatives_are_those_of_the_density(compute, equation, t, s, bar):
    """Central differences, taken in long doubles: their own error is far below the bound."""

    def rho(t, s):
        return density(equation, np.longdouble(t), np.longdouble(s), np.longdouble(bar)).rho

    _, by_t, by_s = compute(equation, t, s, bar)
    small_t, small_s = np.longdouble(1e-4), np.longdouble(1e-6)
    slope_t = float((rho(t + small_t, s) - rho(t - small_t, s)) / (2 * small_t))
    slope_s = float((rho(t, s + small_s) - rho(t, s - small_s)) / (2 * small_s))
    assert by_t == pytest.approx(slope_t, abs=1e-12)
    assert by_s == pytest.approx(slope_s, rel=1e-6)


@both
@pytest.mark.parametrize("equation", list(RANGES))
def test_water_beyond_the_range_is_held_at_its_edge(compute, equation):
    (cold, hot), (fresh, salty) = RANGES[equation]
    assert compute(equation, cold - 5, 0.03, 100) == compute(equation, cold, 0.03, 100)
    assert compute(equation, hot + 5, 0.03, 100) == compute(equation, hot, 0.03, 100)
    assert compute(equation, 10, fresh - 1, 100) == compute(equation, 10, fresh, 100)
    assert compute(equation, 10, salty + 1, 100) == compute(equation, 10, salty, 100)
    assert compute(equation, cold + 1, 0.03, 100) != compute(equation, cold, 0.03, 100)


@both
def test_linear_holds_nothing(compute):
    assert compute(Equation.LINEAR, -5.0, 0.03, 0)[0] > compute(Equation.LINEAR, -2.0, 0.03, 0)[0]


@both
@pytest.mark.parametrize("equation", list(Equation))
def test_what_is_no_number_stays_none(compute, equation):
    assert np.isnan(compute(equation, np.nan, 0.03, 100)[0])


@pytest.mark.parametrize(
    ("depth", "bar", "digits"),
    [
        (5.00622, 0.49742665690022, 13),
        (100, 10.0239853896, 10),
        (1000, 100.9345970, 7),
        (5500, 561.06244325, 8),
    ],
)
def test_pressure(depth, bar, digits):
    assert abs(native.sea_pressure(depth) - bar) <= 0.5 * 10.0**-digits
    assert abs(float(pressure_bar(depth)) - bar) <= 0.5 * 10.0**-digits
