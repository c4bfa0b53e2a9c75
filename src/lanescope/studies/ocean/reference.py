"""The kernels in NumPy, level by level, and equations of state for sea water, as published.

The core has the equations, sums of powers, in another form; these are what it is compared with.
All functions take the precision of their arrays, so that a ``longdouble`` shows how a double was
rounded. Kernels work on arrays of the shape (nz, ny, nx).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]
Levels = npt.NDArray[np.int32]

#: In cm/s².
GRAVITY = 980.6
#: Water is not colder, in °C.
FREEZING = -2.0
#: The a of a·x + y.
AXPY_FACTOR = 2.0
#: Points that the convolution looks at on each side of the one at hand.
FILTER_REACH = 15


class Equation(StrEnum):
    """An equation of state."""

    MWJF = "mwjf"
    JMCD = "jmcd"
    LINEAR = "linear"


class Density(NamedTuple):
    """A density in g/cm³ and its derivatives, per °C and per msu (kg of salt per kg)."""

    rho: Array
    by_temperature: Array
    by_salinity: Array


#: Least and largest temperature in °C and salinity in msu; values beyond are moved to them.
RANGES = {
    Equation.MWJF: ((-2.0, 999.0), (0.0, 0.999)),
    Equation.JMCD: ((-2.0, 40.0), (0.0, 0.042)),
}

#: The equations that know no density below the bottom: it is 0 there.
MASKED = frozenset({Equation.JMCD})


def pressure_bar(depth: npt.ArrayLike) -> Array:
    """Return the pressure of sea water in bar at depths in m.

    The fit to Levitus' climatology that ocean models use in place of an integral.
    """
    d = np.asarray(depth, np.float64)
    return 0.059808 * (np.exp(-0.025 * d) - 1) + 0.100766 * d + 2.28405e-7 * d**2


def density(
    equation: Equation, temperature: npt.ArrayLike, salinity: npt.ArrayLike, bar: npt.ArrayLike
) -> Density:
    """Return density and derivatives of water that is first moved into the equation's range.

    Parameters
    ----------
    equation
        Which equation.
    temperature, salinity
        Potential temperature in °C, salinity in msu. Any shapes that NumPy broadcasts.
    bar
        Pressure.
    """
    t, s, p = (np.asarray(a) for a in (temperature, salinity, bar))
    if equation in RANGES:
        t, s = (np.clip(a, *r) for a, r in zip((t, s), RANGES[equation], strict=True))
    if equation is Equation.MWJF:
        return _mwjf(t, 1000 * s, 10 * p)
    if equation is Equation.JMCD:
        return _jmcd(t, 1000 * s, p)
    return _linear(t, s, p)


def _mwjf(t: Array, s: Array, p: Array) -> Density:
    """McDougall, Wright, Jackett and Feistel 2003; psu and dbar."""
    above = (
        (9.99843699e2 + 7.35212840 * t - 5.45928211e-2 * t**2 + 3.98476704e-4 * t**3)
        + s * (2.96938239 - 7.23268813e-3 * t + 2.12382341e-3 * s)
        + p * (1.04004591e-2 + 1.03970529e-7 * t**2 + 5.18761880e-6 * s)
        - p**2 * (3.24041825e-8 + 1.23869360e-11 * t**2)
    )
    below = (
        1
        + (7.28606739e-3 * t - 4.60835542e-5 * t**2 + 3.68390573e-7 * t**3 + 1.80809186e-10 * t**4)
        + s * (2.14691708e-3 - 9.27062484e-6 * t - 1.78343643e-10 * t**3)
        + s * np.sqrt(s) * (4.76534122e-6 + 1.63410736e-9 * t**2)
        + (5.30848875e-6 * p - 3.03175128e-16 * p**2 * t**3 - 1.27934137e-17 * p**3 * t)
    )
    above_t = (
        (7.35212840 - 2 * 5.45928211e-2 * t + 3 * 3.98476704e-4 * t**2)
        - 7.23268813e-3 * s
        + 2 * p * 1.03970529e-7 * t
        - 2 * p**2 * 1.23869360e-11 * t
    )
    above_s = 2.96938239 - 7.23268813e-3 * t + 2 * 2.12382341e-3 * s + 5.18761880e-6 * p
    below_t = (
        (7.28606739e-3 - 2 * 4.60835542e-5 * t + 3 * 3.68390573e-7 * t**2)
        + 4 * 1.80809186e-10 * t**3
        - s * (9.27062484e-6 + 3 * 1.78343643e-10 * t**2)
        + s * np.sqrt(s) * 2 * 1.63410736e-9 * t
        - (3 * 3.03175128e-16 * p**2 * t**2 + 1.27934137e-17 * p**3)
    )
    below_s = (2.14691708e-3 - 9.27062484e-6 * t - 1.78343643e-10 * t**3) + 1.5 * np.sqrt(s) * (
        4.76534122e-6 + 1.63410736e-9 * t**2
    )
    rho = above / below
    # A psu is a thousandth of an msu, and a kg/m³ a thousandth of a g/cm³.
    return Density(
        rho / 1000, (above_t - rho * below_t) / below / 1000, (above_s - rho * below_s) / below
    )


def _jmcd(t: Array, s: Array, p: Array) -> Density:
    """Jackett and McDougall 1995: a density at the surface and a bulk modulus; psu and bar."""
    root = np.sqrt(s)
    zero, zero_t, zero_s = _jmcd_surface(t, s, root)
    bulk = (
        (1.965933e4 + 1.444304e2 * t - 1.706103 * t**2 + 9.648704e-3 * t**3 - 4.190253e-5 * t**4)
        + s * (52.84855 - 0.3101089 * t + 6.283263e-3 * t**2 - 5.084188e-5 * t**3)
        + s * root * (0.3886640 + 9.085835e-3 * t - 4.619924e-4 * t**2 + 1.480266e-4 * p)
        + p * (3.186519 + 2.212276e-2 * t - 2.984642e-4 * t**2 + 1.956415e-6 * t**3)
        + p * s * (6.704388e-3 - 1.847318e-4 * t + 2.059331e-7 * t**2)
        + p**2 * (2.102898e-4 - 1.202016e-5 * t + 1.394680e-7 * t**2)
        + p**2 * s * (-2.040237e-6 + 6.128773e-8 * t + 6.207323e-10 * t**2)
    )
    bulk_t = (
        (1.444304e2 - 2 * 1.706103 * t + 3 * 9.648704e-3 * t**2 - 4 * 4.190253e-5 * t**3)
        + s * (-0.3101089 + 2 * 6.283263e-3 * t - 3 * 5.084188e-5 * t**2)
        + s * root * (9.085835e-3 - 2 * 4.619924e-4 * t)
        + p * (2.212276e-2 - 2 * 2.984642e-4 * t + 3 * 1.956415e-6 * t**2)
        + p * s * (-1.847318e-4 + 2 * 2.059331e-7 * t)
        + p**2 * (-1.202016e-5 + 2 * 1.394680e-7 * t)
        + p**2 * s * (6.128773e-8 + 2 * 6.207323e-10 * t)
    )
    bulk_s = (
        (52.84855 - 0.3101089 * t + 6.283263e-3 * t**2 - 5.084188e-5 * t**3)
        + 1.5 * root * (0.3886640 + 9.085835e-3 * t - 4.619924e-4 * t**2 + 1.480266e-4 * p)
        + p * (6.704388e-3 - 1.847318e-4 * t + 2.059331e-7 * t**2)
        + p**2 * (-2.040237e-6 + 6.128773e-8 * t + 6.207323e-10 * t**2)
    )
    rest = bulk - p
    return Density(
        zero * bulk / rest / 1000,
        (zero_t * bulk / rest - p * zero * bulk_t / rest**2) / 1000,
        zero_s * bulk / rest - p * zero * bulk_s / rest**2,
    )


def _jmcd_surface(t: Array, s: Array, root: Array) -> tuple[Array, Array, Array]:
    value = (
        (999.842594 + 6.793952e-2 * t - 9.095290e-3 * t**2 + 1.001685e-4 * t**3)
        - (1.120083e-6 * t**4 - 6.536332e-9 * t**5)
        + s * (0.824493 - 4.0899e-3 * t + 7.6438e-5 * t**2 - 8.2467e-7 * t**3 + 5.3875e-9 * t**4)
        + s * root * (-5.72466e-3 + 1.0227e-4 * t - 1.6546e-6 * t**2)
        + 4.8314e-4 * s**2
    )
    by_t = (
        (6.793952e-2 - 2 * 9.095290e-3 * t + 3 * 1.001685e-4 * t**2)
        - (4 * 1.120083e-6 * t**3 - 5 * 6.536332e-9 * t**4)
        + s * (-4.0899e-3 + 2 * 7.6438e-5 * t - 3 * 8.2467e-7 * t**2 + 4 * 5.3875e-9 * t**3)
        + s * root * (1.0227e-4 - 2 * 1.6546e-6 * t)
    )
    by_s = (
        (0.824493 - 4.0899e-3 * t + 7.6438e-5 * t**2 - 8.2467e-7 * t**3 + 5.3875e-9 * t**4)
        + 1.5 * root * (-5.72466e-3 + 1.0227e-4 * t - 1.6546e-6 * t**2)
        + 2 * 4.8314e-4 * s
    )
    return value, by_t, by_s


def _linear(t: Array, s: Array, p: Array) -> Density:
    """Linear, whatever the pressure; with an msu and a g/cm³ as they are."""
    rho = 1.025022 + 0.764 * (s - 0.035) - 2.55e-4 * (t - 19) + 0 * p
    return Density(rho, np.full_like(rho, -2.55e-4), np.full_like(rho, 0.764))


class Kernel(StrEnum):
    """What is computed for each point of a grid."""

    STATE = "state"
    BUOYDIFF = "buoydiff"
    AXPY = "axpy"
    CONVOLUTION = "convolution"


def state(
    temperature: Array,
    salinity: Array,
    bar: Array,
    deepest: Levels,
    *,
    equation: Equation = Equation.MWJF,
    outputs: int = 1,
) -> tuple[Array, ...]:
    """Return the density and, of three outputs, its derivatives.

    Parameters
    ----------
    temperature, salinity
        Potential temperature in °C and salinity in msu, of the shape (nz, ny, nx).
    bar
        Pressure of each level.
    deepest
        Levels with water in them, of the shape (ny, nx).
    outputs
        1, or 3: density in g/cm³, its derivatives per °C and per msu.
    """
    found = tuple(np.zeros_like(temperature) for _ in range(outputs))
    for k, pressure in enumerate(bar):
        dry = (k >= deepest) if equation in MASKED else np.zeros_like(deepest, bool)
        values = density(equation, temperature[k], salinity[k], pressure)
        for into, value in zip(found, values, strict=False):
            into[k] = np.where(dry, 0.0, value)
    return found


def buoydiff(
    temperature: Array,
    salinity: Array,
    bar: Array,
    deepest: Levels,
    *,
    equation: Equation = Equation.MWJF,
) -> tuple[Array, Array]:
    """Return DBLOC and DBSFC in cm/s², the buoyancy differences of the paper's kernel.

    DBLOC tells how much lighter the water of a level is than that of the level below it, DBSFC
    how much lighter that of the surface is than that of a level; densities are taken where the
    deeper water is. Parameters are those of `state`.
    """
    local, surface = np.zeros_like(temperature), np.zeros_like(temperature)
    for k in range(1, len(bar)):

        def rho(level: int, k: int = k) -> Array:
            unfrozen = np.maximum(temperature[level], FREEZING)
            return density(equation, unfrozen, salinity[level], bar[k]).rho

        here, dry = rho(k), k >= deepest
        local[k - 1] = np.where(dry, 0.0, GRAVITY * (1 - rho(k - 1) / here))
        unknown = dry if equation in MASKED else np.zeros_like(dry)
        surface[k] = np.where(unknown, 0.0, GRAVITY * (1 - rho(0) / here))
    return local, surface


def axpy(x: Array, y: Array) -> Array:
    """Return ``AXPY_FACTOR * x + y``."""
    return AXPY_FACTOR * x + y


def smoothing_filter() -> npt.NDArray[np.float64]:
    """Return the weights of the convolution: 1 / (1 + dx² + dy²), all together 1."""
    there = np.arange(-FILTER_REACH, FILTER_REACH + 1)
    weights = np.asarray(1 / (1.0 + there[:, None] ** 2 + there[None, :] ** 2), np.float64)
    return np.asarray(weights / weights.sum(), np.float64)


def convolution(x: Array) -> Array:
    """Return each level convolved with `smoothing_filter`; beyond an edge lies what lies at it.

    By Fourier transforms. A level's mean is set aside meanwhile, which the filter would leave as it
    is: rounding then follows the size of the differences in a level and not that of its values.
    """
    from scipy.signal import fftconvolve

    weights, result = smoothing_filter(), np.empty_like(x)
    for k, level in enumerate(x):
        mean = level.mean()
        padded = np.pad(level - mean, FILTER_REACH, mode="edge")
        result[k] = fftconvolve(padded, weights, mode="valid") + mean
    return result
