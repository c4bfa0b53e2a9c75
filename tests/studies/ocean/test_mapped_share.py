"""How much a kernel reads of mapped memory, against the loads of every thread one by one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lanescope.studies.ocean.case import GridCase, ocean
from lanescope.studies.ocean.measuring import mapped_reads
from lanescope.studies.ocean.reference import Equation, Kernel

JMCD = GridCase(Kernel.STATE, Equation.JMCD)


@pytest.mark.parametrize(
    "case", [GridCase(Kernel.STATE), GridCase(Kernel.AXPY), GridCase(Kernel.STATE, Equation.LINEAR)]
)
def test_most_kernels_read_each_byte_once(case):
    assert mapped_reads(case, ocean(20, 10, 5)) == 1.0


def test_buoydiff_reads_the_papers_grid_246_times_in_place_of_84():
    assert mapped_reads(GridCase(Kernel.BUOYDIFF), ocean(4, 3, 42)) == 246 / 84
    assert mapped_reads(GridCase(Kernel.BUOYDIFF), ocean(4, 3, 1)) == 1.0


@pytest.mark.parametrize(("nx", "ny"), [(16, 6), (7, 5), (33, 9)])
def test_rock_is_skipped_by_sectors(nx, ny):
    grid = ocean(nx, ny, 8)
    sectors = {
        i // 4 for i, (k, y, x) in enumerate(np.ndindex(8, ny, nx)) if k < grid.deepest[y, x]
    }
    assert mapped_reads(JMCD, grid) == pytest.approx(len(sectors) / -(-8 * ny * nx // 4))


def test_an_ocean_without_rock_is_read_whole_and_one_of_rock_not_at_all():
    grid = ocean(12, 8, 5)
    assert mapped_reads(JMCD, replace(grid, deepest=np.full((8, 12), 5, np.int32))) == 1.0
    assert mapped_reads(JMCD, replace(grid, deepest=np.zeros((8, 12), np.int32))) == 0.0


@pytest.mark.parametrize(("nx", "ny"), [(64, 32), (128, 48), (100, 37), (8, 4)])
def test_a_convolution_reads_what_its_tiles_reach(nx, ny):
    read = 0
    for left in range(0, nx, 32):
        columns = {min(max(left + x, 0), nx - 1) // 4 for x in range(-15, 32 + 15)}
        for top in range(0, ny, 16):
            rows = {min(max(top + y, 0), ny - 1) for y in range(-15, 16 + 15)}
            read += len(columns) * len(rows)
    found = mapped_reads(GridCase(Kernel.CONVOLUTION), ocean(nx, ny, 2))
    assert found == pytest.approx(4 * read / (nx * ny))


def test_a_large_convolution_reads_about_a_tile_with_its_surroundings():
    """64 doubles, which are whole sectors, of 46 rows for 32 by 16 points, less at the edges."""
    found = mapped_reads(GridCase(Kernel.CONVOLUTION), ocean(1024, 1024, 1))
    assert 0.96 < found / (64 * 46 / (32 * 16)) < 1


def test_the_tiles_are_those_of_the_core():
    source = Path(__file__).parents[3] / "native" / "src" / "workload" / "grid_kernels.cu"
    if not source.is_file():
        pytest.skip("the core's source is not here")
    assert "kTileX = 32, kTileY = 16;" in source.read_text()
