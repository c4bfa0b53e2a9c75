"""An ocean to compute with, and a kernel with its choices: what it reads, writes and should give.

The ocean has sides, levels, temperature, salinity and a bottom as in a real one. Values decide what
a kernel may do: water outside of an equation's range is clamped, and numbers drawn at random give
densities that no ocean has, whose differences do not cancel as real ones do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from lanescope.calls import checked
from lanescope.errors import InputError
from lanescope.studies.ocean import reference
from lanescope.studies.ocean.reference import Array, Equation, Kernel, pressure_bar

if TYPE_CHECKING:
    from lanescope._core import native

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
#: One array of them takes 512 GiB.
MOST_POINTS = 1 << 36
_STATE = (
    ("RHO", "g/cm³", 1e-13),
    # Ten and seven times the largest difference seen between the two forms of the formulas.
    ("DRHODT", "g/cm³/°C", 1e-16),
    ("DRHODS", "g/cm³/msu", 2e-14),
)
_BUOYDIFF = (("DBLOC", "cm/s²", 5e-12), ("DBSFC", "cm/s²", 5e-12))
#: Rounding of a sum of as many terms as the filter has weights, at worst, of a value of 1.
_FILTER_ROUNDING = (2 * reference.FILTER_REACH + 1) ** 2 * 2.0**-53
T = TypeVar("T")
_Part = tuple[slice, slice]
#: Rows that a thread computes at once: what it needs meanwhile stays in its CPU's cache.
_ROWS = 16
#: Levels of a convolution that are compared: by NumPy a level of 1024 x 1024 takes 0.5 s.
_LEVELS = 12


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


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """How far an output is from what it should be.

    Attributes
    ----------
    output, unit
        Name of the output, and its unit; empty where the inputs' unit is that of the output.
    largest, tolerance
        The largest absolute difference, and what is allowed; in that unit.
    """

    output: str
    unit: str
    largest: float
    tolerance: float

    @property
    def within(self) -> bool:
        """Whether it is allowed; what is not a number is not."""
        return self.largest <= self.tolerance


@dataclass(frozen=True, slots=True)
class GridCase:
    """A kernel, the equation of state that it uses, and how many outputs `state` has.

    Raises
    ------
    InputError
        If it is to have other than 1 or 3 outputs, which only `state` has.
    """

    kernel: Kernel
    equation: Equation = Equation.MWJF
    outputs: int = 1

    def __post_init__(self) -> None:
        if self.outputs not in (1, 3):
            raise InputError(f"state has 1 output, or 3 with its derivatives, not {self.outputs}")

    @property
    def has_equation(self) -> bool:
        """Whether an equation of state matters."""
        return self.kernel in (Kernel.STATE, Kernel.BUOYDIFF)

    @property
    def input_arrays(self) -> int:
        """How many arrays of the grid's shape are read."""
        return 1 if self.kernel is Kernel.CONVOLUTION else 2

    @property
    def output_arrays(self) -> int:
        """How many arrays of the grid's shape are written."""
        if self.kernel is Kernel.STATE:
            return self.outputs
        return 2 if self.kernel is Kernel.BUOYDIFF else 1

    @property
    def flops(self) -> int:
        """Operations on doubles for a point, each of any kind one, as the core's source says."""
        return self._operations().all

    def inputs(self, grid: OceanGrid) -> tuple[FloatArray, ...]:
        """Return what is read: temperature and salinity, of the convolution temperature."""
        return (grid.temperature, grid.salinity)[: self.input_arrays]

    def reference(self, grid: OceanGrid) -> tuple[Array, ...]:
        """Return what NumPy makes of a grid."""
        t, s = grid.temperature, grid.salinity
        bar, deepest = grid.pressure, grid.deepest
        if self.kernel is Kernel.STATE:
            return reference.state(t, s, bar, deepest, equation=self.equation, outputs=self.outputs)
        if self.kernel is Kernel.BUOYDIFF:
            return reference.buoydiff(t, s, bar, deepest, equation=self.equation)
        if self.kernel is Kernel.AXPY:
            return (reference.axpy(t, s),)
        return (reference.convolution(t),)

    def on_host(self, grid: OceanGrid, threads: int = 1) -> tuple[FloatArray, ...]:
        """Return what the core's threads make of a grid.

        Raises
        ------
        NativeError
            If the core refuses the grid.
        """
        from lanescope._core import native

        made = tuple(np.empty_like(grid.temperature) for _ in range(self.output_arrays))
        native.run_grid_kernel(
            *self.named(),
            list(self.inputs(grid)),
            list(made),
            grid.pressure,
            grid.deepest,
            threads=threads,
        )
        return made

    def compare(self, grid: OceanGrid, made: Sequence[Array]) -> tuple[OutputDifference, ...]:
        """Return how far each output is from what NumPy makes of the grid."""
        return tuple(
            OutputDifference(name, unit, float(np.max(np.abs(found - expected))), tolerance)
            for (name, unit, tolerance), found, expected in zip(
                self.tolerances(grid), made, self.reference(grid), strict=True
            )
        )

    def named(self) -> tuple[native.GridKernel, native.EquationOfState]:
        """Return what the core calls the kernel and the equation."""
        from lanescope._core import native

        return (
            getattr(native.GridKernel, self.kernel.value),
            getattr(native.EquationOfState, self.equation.value),
        )

    def tolerances(self, grid: OceanGrid) -> tuple[tuple[str, str, float], ...]:
        """Return of each output its name, its unit, and the difference that is allowed."""
        if self.kernel is Kernel.STATE:
            return _STATE[: self.outputs]
        if self.kernel is Kernel.BUOYDIFF:
            return _BUOYDIFF
        if self.kernel is Kernel.AXPY:  # exact: see AXPY_FACTOR
            return (("sum", "", 0.0),)
        largest = float(np.max(np.abs(grid.temperature)))
        return (("mean", "", 2 * _FILTER_ROUNDING * largest),)

    def _operations(self) -> native.GridOperations:
        from lanescope._core import native

        return native.grid_operations(*self.named(), self.outputs)


class Expected:
    """What NumPy makes of a grid.

    Attributes
    ----------
    levels
        How many of the grid's are compared: all, but of the convolution at most twelve.
    """

    def __init__(self, case: GridCase, grid: OceanGrid, threads: int | None = None) -> None:
        self._case, self._grid = case, grid
        self._threads = threads or len(os.sched_getaffinity(0))
        self._parts = list(_parts(case, grid))
        self._made = self._each(lambda index: case.reference(_cut(grid, self._parts[index])))
        nz = grid.temperature.shape[0]
        self.levels = min(nz, _LEVELS) if case.kernel is Kernel.CONVOLUTION else nz

    def compare(self, made: Sequence[Array]) -> tuple[OutputDifference, ...]:
        """Return how far each output, of the grid's shape, is from what it should be."""

        def largest(index: int) -> list[float]:
            part = self._parts[index]
            return [
                float(np.max(np.abs(found[part] - expected)))
                for found, expected in zip(made, self._made[index], strict=True)
            ]

        worst = np.max(self._each(largest), axis=0)  # not a number where one is none
        return tuple(
            OutputDifference(name, unit, float(value), tolerance)
            for (name, unit, tolerance), value in zip(
                self._case.tolerances(self._grid), worst, strict=True
            )
        )

    def _each(self, work: Callable[[int], T]) -> list[T]:
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(work, range(len(self._parts))))


def _parts(case: GridCase, grid: OceanGrid) -> Iterator[_Part]:
    """Parts of a grid, by levels and rows, that need nothing of one another."""
    nz, ny, _ = grid.temperature.shape
    if case.kernel is Kernel.CONVOLUTION:
        for level in np.unique(np.linspace(0, nz - 1, min(nz, _LEVELS)).round().astype(int)):
            yield slice(int(level), int(level) + 1), slice(0, ny)
    else:
        for row in range(0, ny, _ROWS):
            yield slice(0, nz), slice(row, min(row + _ROWS, ny))


def _cut(grid: OceanGrid, part: _Part) -> OceanGrid:
    levels, rows = part
    return replace(
        grid,
        pressure=grid.pressure[levels],
        temperature=grid.temperature[part],
        salinity=grid.salinity[part],
        deepest=grid.deepest[rows],
    )
