"""The kernels in NumPy, level by level, over arrays of the shape (nz, ny, nx)."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt

from lanescope.studies.ocean.equations import MASKED, Array, Equation, density

Levels = npt.NDArray[np.int32]

#: In cm/s².
GRAVITY = 980.6
#: Water is not colder, in °C.
FREEZING = -2.0
#: The a of a·x + y.
AXPY_FACTOR = 2.0
#: Points that the convolution looks at on each side of the one at hand.
FILTER_REACH = 15


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
