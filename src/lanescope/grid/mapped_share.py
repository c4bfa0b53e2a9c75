"""How often a kernel reads each byte of its input where that is mapped memory of the host.

The version with one thread for each point (see `lanescope.grid.running`) loads a value wherever a
thread needs it. What crosses the link are sectors of 32 bytes of which some thread needs a value.
Nothing that was loaded is taken to be kept for another block of threads, and a tile of the
convolution to be loaded without reading a sector twice.
"""

from __future__ import annotations

import numpy as np

from lanescope.calls import checked
from lanescope.grid.case import GridCase
from lanescope.grid.equations import MASKED
from lanescope.grid.profiles import OceanGrid
from lanescope.grid.reference import FILTER_REACH, Kernel

#: Doubles in what a GPU reads at least from the host.
_SECTOR = 32 // 8
#: Points that a block of the convolution makes, as native/src/workload/grid_kernels.cu has them.
_TILE_X, _TILE_Y = 32, 16
#: Loads of `buoydiff` for each point below the first level: surface, above and here, twice.
_BUOYDIFF_LOADS = 6


@checked
def mapped_reads(case: GridCase, grid: OceanGrid) -> float:
    """Return bytes read over the link for each byte of input.

    Below 1 where points are skipped: `state` by an equation that knows no density in rock reads
    nothing there. `buoydiff` reads each level below the first with the one above it and the
    surface, so that 42 levels are read 246 times in place of 84. A block of the convolution reads
    its tile with all that the filter reaches from there.
    """
    if case.kernel is Kernel.STATE and case.equation in MASKED:
        return _wet_share(grid)
    if case.kernel is Kernel.BUOYDIFF:
        nz = len(grid.pressure)
        return max(_BUOYDIFF_LOADS * (nz - 1) / (case.input_arrays * nz), 1.0)
    if case.kernel is Kernel.CONVOLUTION:
        return _tiled_reads(grid)
    return 1.0


def _wet_share(grid: OceanGrid) -> float:
    """Share of all sectors that hold a point with water."""
    levels = np.arange(len(grid.pressure))[:, None, None]
    wet = (levels < grid.deepest).ravel()
    sectors = np.pad(wet, (0, -wet.size % _SECTOR)).reshape(-1, _SECTOR)
    return float(sectors.any(axis=1).mean())


def _tiled_reads(grid: OceanGrid) -> float:
    """Doubles that all tiles read, in whole sectors of a row, over those of a level."""
    _, ny, nx = grid.temperature.shape
    # Beyond an edge the value at the edge is read once more: that is no other sector.
    across = sum(
        min(left + _TILE_X + FILTER_REACH - 1, nx - 1) // _SECTOR
        - max(left - FILTER_REACH, 0) // _SECTOR
        + 1
        for left in range(0, nx, _TILE_X)
    )
    down = sum(
        min(top + _TILE_Y + FILTER_REACH, ny) - max(top - FILTER_REACH, 0)
        for top in range(0, ny, _TILE_Y)
    )
    return float(across * _SECTOR * down / (nx * ny))
