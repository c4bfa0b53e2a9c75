"""A kernel with its choices: what it reads and writes, and should give; how far it is from that."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lanescope.errors import InputError
from lanescope.studies.ocean import reference
from lanescope.studies.ocean.profiles import FloatArray, OceanGrid
from lanescope.studies.ocean.reference import Array, Equation, Kernel

if TYPE_CHECKING:
    from lanescope._core import native

_STATE = (
    ("RHO", "g/cm³", 1e-13),
    # Ten and seven times the largest difference seen between the two forms of the formulas.
    ("DRHODT", "g/cm³/°C", 1e-16),
    ("DRHODS", "g/cm³/msu", 2e-14),
)
_BUOYDIFF = (("DBLOC", "cm/s²", 5e-12), ("DBSFC", "cm/s²", 5e-12))
#: Rounding of a sum of as many terms as the filter has weights, at worst, of a value of 1.
_FILTER_ROUNDING = (2 * reference.FILTER_REACH + 1) ** 2 * 2.0**-53
_MWJF_PAPER = (
    "McDougall, Wright, Jackett and Feistel, Accurate and computationally efficient algorithms "
    "for potential temperature and density of seawater, J. Atmos. Oceanic Technol. 20 (2003)"
)
_JMCD_PAPER = (
    "Jackett and McDougall, Minimal adjustment of hydrographic profiles to achieve static "
    "stability, J. Atmos. Oceanic Technol. 12 (1995)"
)


@dataclass(frozen=True, slots=True)
class Difference:
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

    def compare(self, grid: OceanGrid, made: Sequence[Array]) -> tuple[Difference, ...]:
        """Return how far each output is from what NumPy makes of the grid."""
        return tuple(
            Difference(name, unit, float(np.max(np.abs(found - expected))), tolerance)
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


@dataclass(frozen=True, slots=True)
class CheckValue:
    """The density of some water, as it was published.

    Attributes
    ----------
    salinity_psu, temperature, dbar
        Practical salinity, potential temperature in °C, pressure.
    density
        In kg/m³.
    digits
        That follow the decimal point in print.
    source
        Where it was printed.
    """

    equation: Equation
    salinity_psu: float
    temperature: float
    dbar: float
    density: float
    digits: int
    source: str


PUBLISHED = (
    CheckValue(Equation.MWJF, 35, 25, 2000, 1031.654229, 6, _MWJF_PAPER),
    CheckValue(Equation.MWJF, 20, 20, 1000, 1017.726743, 6, _MWJF_PAPER),
    CheckValue(Equation.MWJF, 40, 12, 8000, 1062.928258, 6, _MWJF_PAPER),
    CheckValue(Equation.JMCD, 35.5, 3, 3000, 1041.83267, 5, _JMCD_PAPER),
)


T = TypeVar("T")
_Part = tuple[slice, slice]

#: Rows that a thread computes at once: what it needs meanwhile stays in its CPU's cache.
_ROWS = 16
#: Levels of a convolution that are compared: by NumPy a level of 1024 x 1024 takes 0.5 s.
_LEVELS = 12


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

    def compare(self, made: Sequence[Array]) -> tuple[Difference, ...]:
        """Return how far each output, of the grid's shape, is from what it should be."""

        def largest(index: int) -> list[float]:
            part = self._parts[index]
            return [
                float(np.max(np.abs(found[part] - expected)))
                for found, expected in zip(made, self._made[index], strict=True)
            ]

        worst = np.max(self._each(largest), axis=0)  # not a number where one is none
        return tuple(
            Difference(name, unit, float(value), tolerance)
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
