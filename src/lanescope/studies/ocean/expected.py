"""What a case should give, by NumPy in several threads, kept to be compared more than once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from lanescope.studies.ocean.case import Difference, GridCase
from lanescope.studies.ocean.equations import Array, Equation
from lanescope.studies.ocean.profiles import OceanGrid
from lanescope.studies.ocean.reference import Kernel

_MWJF_PAPER = (
    "McDougall, Wright, Jackett and Feistel, Accurate and computationally efficient algorithms "
    "for potential temperature and density of seawater, J. Atmos. Oceanic Technol. 20 (2003)"
)
_JMCD_PAPER = (
    "Jackett and McDougall, Minimal adjustment of hydrographic profiles to achieve static "
    "stability, J. Atmos. Oceanic Technol. 12 (1995)"
)


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
