"""How many bytes a kernel that works on mapped memory moves over the link, as its counters say.

A kernel that reads an element again moves it again where no cache holds it. How often it does is
its own affair and not the link's, as its computing time is; PM sampling counts it."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lanescope.calls import checked
from lanescope.engine.task_graph import UNCOUNTED_RUNS
from lanescope.errors import NotMeasuredError
from lanescope.machine import Machine
from lanescope.prediction.workload import Method
from lanescope.studies.ocean.case import GridCase
from lanescope.studies.ocean.profiles import OceanGrid
from lanescope.studies.ocean.reference import FILTER_REACH, MASKED, Kernel
from lanescope.studies.ocean.running import GridMemory, run_case
from lanescope.trace.counter_spool import read_all_counters
from lanescope.trace.limits import pcie_links
from lanescope.trace.timeline import PCIE, Timeline
from lanescope.trace.wire import payload_records
from lanescope.trace.wire_fit import default_of
from lanescope.watching.sources.base import prepare_all
from lanescope.watching.sources.pm import PmSource

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


#: Idle time on both sides, so that the kernel's traffic lies inside of what is sampled.
_MARGIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class MappedTraffic:
    """What one run of a kernel moves.

    Attributes
    ----------
    h2d_bytes, d2h_bytes
        Payload over the link, of one run.
    runs
        Over how many that is the mean.
    """

    h2d_bytes: float
    d2h_bytes: float
    runs: int


def mapped_traffic(
    machine: Machine, gpu: int, memory: GridMemory, case: GridCase, budget_seconds: float = 0.2
) -> MappedTraffic:
    """Count what a case's kernel moves when it works on mapped memory.

    Raises
    ------
    NotMeasuredError
        If PM sampling does not work here.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = PmSource(machine.gpu(gpu), Path(folder))
        answer = source.available(machine)
        if not answer.ok:
            raise NotMeasuredError(answer.reason or "PM sampling does not work.", answer.remedy)
        if (refused := prepare_all([source])[0]) is not None:
            raise refused
        source.start()
        try:
            time.sleep(_MARGIN_SECONDS)
            times = run_case(memory, case, Method.IMPLICIT, 1, budget_seconds)
            time.sleep(_MARGIN_SECONDS)
        finally:
            source.stop()
        return _counted(machine, gpu, Path(folder), runs=len(times.seconds))


def counted_reads(traffic: MappedTraffic, case: GridCase, once: MappedTraffic) -> float:
    """Return how often a case reads each byte, from what it moves.

    `once` is what ``axpy`` moves on the same grid, which reads each byte once: kernels' reads are
    answered in shorter packets than copies, and so by more bytes on the wire than counters
    take for payload.
    """
    arrays = GridCase(Kernel.AXPY).input_arrays / case.input_arrays
    return traffic.h2d_bytes / once.h2d_bytes * arrays


def _counted(machine: Machine, gpu: int, folder: Path, runs: int) -> MappedTraffic:
    counters = next(c for c in read_all_counters(folder) if c.link == PCIE)
    links = pcie_links(machine, gpu)
    model = default_of(Timeline(0, 0), counters, links[0].pcie if links else None)
    sums = [payload[:, :2].sum(axis=0) for _, payload in payload_records(counters, model)]
    down, up = (float(sum(column)) for column in zip(*sums, strict=True))
    total = runs + UNCOUNTED_RUNS  # which move as much
    return MappedTraffic(down / total, up / total, runs)
