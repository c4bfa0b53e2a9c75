"""Grids for the tests, and the core's kernels over them."""

from __future__ import annotations

import numpy as np

from lanescope._core import native
from lanescope.studies.ocean.case import OceanGrid
from lanescope.studies.ocean.reference import Equation, pressure_bar


def core(equation):
    return getattr(native.EquationOfState, Equation(equation).value)


def water(temperature, salinity, bar):
    """A column of water for each entry, in one level."""
    t, s = (np.atleast_1d(np.asarray(a, float))[None, None, :] for a in (temperature, salinity))
    t, s = (np.ascontiguousarray(a) for a in np.broadcast_arrays(t, s))
    deepest = np.ones(t.shape[1:], np.int32)
    return OceanGrid(np.ones(1), np.ones(1), np.array([float(bar)]), t, s, deepest)


def column(deepest):
    """The column of three levels for which the facts hold buoyancy differences."""
    depth = np.array([5.0, 100.0, 1000.0])
    t, s = (np.array(a)[:, None, None] for a in ([20.0, 15.0, 10.0], [0.035, 0.0352, 0.0349]))
    return OceanGrid(np.ones(3), depth, pressure_bar(depth), t, s, np.array([[deepest]], np.int32))


def unset(grid, count):
    """Outputs that hold what no kernel makes."""
    return [np.full_like(grid.temperature, np.nan) for _ in range(count)]
