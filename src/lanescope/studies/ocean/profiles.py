"""An ocean to compute with: sides, levels, temperature, salinity and a bottom as in a real one.

Values decide what a kernel may do: water outside of an equation's range is clamped, and numbers
drawn at random give densities that no ocean has, whose differences do not cancel as real ones do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lanescope.calls import checked
from lanescope.errors import InputError
from lanescope.studies.ocean.reference import pressure_bar

FloatArray = npt.NDArray[np.float64]

#: Thickness of the first and of the last level, m; 42 such levels reach down to 5460 m.
FIRST_THICKNESS, LAST_THICKNESS = 10.0, 250.0
LEVELS = 42
#: The grid reaches from there to as far north, degrees.
SOUTHERN_EDGE = -75.0

_EDDY_WAVES = 48
#: 34 GB of temperature and salinity.
_MOST_PROFILE_POINTS = 1 << 31
_ABYSS, _RIDGE_HEIGHT = 5300.0, 2700.0


@dataclass(frozen=True, slots=True)
@checked
class OceanGrid:
    """An ocean on a grid.

    Attributes
    ----------
    thickness, centre, pressure
        Of each level: in m, m of depth, and bar at that depth.
    temperature, salinity
        Potential temperature in °C and salinity in msu (kg of salt per kg), of the shape
        (nz, ny, nx). Rock holds the values that water would have there.
    deepest
        Levels of each column with water in them, of the shape (ny, nx); 0 on land.
    """

    thickness: FloatArray
    centre: FloatArray
    pressure: FloatArray
    temperature: FloatArray
    salinity: FloatArray
    deepest: npt.NDArray[np.int32]


def level_thickness(nz: int = LEVELS) -> FloatArray:
    """Return the thickness of each level in m, which grows smoothly from 10 m to 250 m."""
    rise = 0.5 - 0.5 * np.cos(np.pi * np.arange(nz) / max(nz - 1, 1))
    return FIRST_THICKNESS + (LAST_THICKNESS - FIRST_THICKNESS) * rise


@checked
def ocean(nx: int, ny: int, nz: int = LEVELS, *, seed: int = 0) -> OceanGrid:
    """Return an ocean of so many columns from west to east and south to north, and levels.

    A thermocline whose depth and strength change with the latitude, salty subtropics and fresh
    high latitudes, eddies, two continents, a ridge between them and seamounts. The same seed gives
    the same ocean.

    Raises
    ------
    InputError
        If a side has no points.
    """
    if min(nx, ny, nz) < 1:
        raise InputError(f"a grid of {nx} x {ny} x {nz} points has none; give each side 1 or more")
    if nx * ny * nz > _MOST_PROFILE_POINTS:
        raise InputError(f"a grid of {nx} x {ny} x {nz} points is too large; give fewer")
    thickness = level_thickness(nz)
    centre = np.cumsum(thickness) - thickness / 2
    latitude = np.radians(SOUTHERN_EDGE * (1 - 2 * (np.arange(ny) + 0.5) / ny))[:, None]
    random = np.random.default_rng(seed)
    eddies, salt_eddies, bottom = (_waves(random, nx, ny) for _ in range(3))
    return OceanGrid(
        thickness,
        centre,
        pressure_bar(centre).astype(np.float64),
        _temperature(centre, latitude, eddies),
        _salinity(centre, latitude, 0.6 * eddies + 0.4 * salt_eddies),
        _deepest(centre, nx, latitude, bottom),
    )


def _waves(random: np.random.Generator, nx: int, ny: int) -> FloatArray:
    """Return a sum of waves with random directions and phases, mostly within -1 and 1.

    Of the shape (ny, nx). As products of waves in one direction, which is a product of matrices.
    """
    number = random.integers(-12, 13, (2, _EDDY_WAVES))
    phase = random.uniform(0, 2 * np.pi, _EDDY_WAVES)
    height = random.uniform(0.5, 1, _EDDY_WAVES)
    height /= np.sqrt(2 * np.sum(height**2))
    along_x = 2 * np.pi * number[0] * (np.arange(nx)[:, None] + 0.5) / nx + phase
    along_y = 2 * np.pi * number[1] * (np.arange(ny)[:, None] + 0.5) / ny
    cosines = (height * np.cos(along_y)) @ np.cos(along_x).T
    sines = (height * np.sin(along_y)) @ np.sin(along_x).T
    return np.asarray(cosines - sines, np.float64)


def _temperature(centre: FloatArray, latitude: FloatArray, eddies: FloatArray) -> FloatArray:
    warmth = np.cos(latitude) ** 2
    surface = -1.5 + 29.0 * warmth + 0.8 * eddies * np.sqrt(warmth)
    deep = 1.2 + 2.3 * np.exp(-centre / 1500)
    # Deep and strong thermoclines lie in the subtropics, shallow and sharp ones at the equator.
    subtropics = np.sin(2 * latitude) ** 2
    excess = surface - deep[0]
    return _levels(
        (deep, np.ones_like(eddies)),
        (np.exp(-centre / 150), excess * (1 - 0.7 * subtropics) - 0.5 * eddies),
        (np.exp(-centre / 700), excess * 0.7 * subtropics + 0.5 * eddies),
        lowest=-1.9,
    )


def _salinity(centre: FloatArray, latitude: FloatArray, eddies: FloatArray) -> FloatArray:
    subtropics = np.sin(2 * latitude) ** 2 * np.cos(latitude) ** 4
    poles = np.sin(latitude) ** 4
    # Water sinks to some 800 m at high latitudes and brings less salt there.
    tongue = np.exp(-(((centre - 800) / 450) ** 2))
    return _levels(
        (np.full_like(centre, 0.03472), np.ones_like(eddies)),
        (np.exp(-centre / 300), 0.0028 * subtropics - 0.0014 * poles + 0.0001 * eddies),
        (tongue, -0.0004 * np.cos(latitude) ** 2 + 0.00003 * eddies),
        lowest=0.0,
    )


def _levels(*terms: tuple[FloatArray, FloatArray], lowest: float) -> FloatArray:
    """Return the sum of profiles times planes, level by level."""
    shape = np.broadcast_shapes(*(plane.shape for _, plane in terms))
    result = np.empty((len(terms[0][0]), *shape))
    for k, level in enumerate(result):
        np.multiply(terms[0][1], terms[0][0][k], out=level)
        for profile, plane in terms[1:]:
            level += profile[k] * plane
        np.maximum(level, lowest, out=level)
    return result


def _deepest(
    centre: FloatArray, nx: int, latitude: FloatArray, bottom: FloatArray
) -> npt.NDArray[np.int32]:
    """Return how many levels of each column have their centre above the bottom."""
    x = (np.arange(nx) + 0.5) / nx
    # Continents at both edges; the ridge winds from south to north between them.
    shore = 0.07 + 0.04 * np.sin(3 * latitude) + 0.015 * bottom
    slope = np.minimum(x, 1 - x) - shore
    ridge = np.exp(-(((x - 0.5 - 0.06 * np.sin(2.5 * latitude)) / 0.06) ** 2))
    abyss = _ABYSS - _RIDGE_HEIGHT * ridge + 450 * bottom
    depth = abyss * np.clip(slope / 0.05, 0, 1) ** 0.5
    return np.searchsorted(centre, depth).astype(np.int32)


#: One array of them takes 512 GiB.
MOST_POINTS = 1 << 36


def parse_sides(text: str, option: str, example: str) -> tuple[int, int, int]:
    """Return the points from west to east, to north, and the levels of ``XxYxZ``.

    Raises
    ------
    InputError
        If it is not that; it names the option and shows the example.
    """
    match = re.fullmatch(r"([0-9]{1,6})[xX]([0-9]{1,6})[xX]([0-9]{1,6})", text)
    x, y, z = map(int, match.groups()) if match else (0, 0, 0)
    if not 0 < x * y * z <= MOST_POINTS:
        raise InputError(
            f"{option} {text[:60]!r} is no grid; give three whole numbers such as {example}, "
            f"{MOST_POINTS:,} points at most"
        )
    return x, y, z
