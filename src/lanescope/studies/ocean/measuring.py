"""Measures the cases on a GPU of this machine, and compares their outputs with NumPy's.

How many bytes a kernel that works on mapped memory moves over the link is what PM sampling counts:
a kernel that reads an element again moves it again where no cache holds it. How often it does is
its own affair and not the link's, as its computing time is.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import isnan
from pathlib import Path

import numpy as np

from lanescope._version import __version__
from lanescope.calls import checked
from lanescope.engine.core import UNCOUNTED_RUNS
from lanescope.errors import MissingPartError, NotMeasuredError, command
from lanescope.machine import Machine
from lanescope.prediction.parameters import LinkParameters
from lanescope.prediction.predictor import Method
from lanescope.prediction.stored_parameters import machine_key
from lanescope.store.folder import RunFolder
from lanescope.studies.ocean.case import Expected, GridCase, OceanGrid, OutputDifference, ocean
from lanescope.studies.ocean.measured import (
    CASES,
    MeasuredCase,
    OutputCheck,
    TimedMethod,
    Validation,
    joined,
    save,
    stream_counts,
)
from lanescope.studies.ocean.reference import FILTER_REACH, MASKED, Kernel
from lanescope.studies.ocean.running import GridMemory, kernel_seconds, run_case
from lanescope.trace.counter_spool import read_all_counters
from lanescope.trace.limits import pcie_links
from lanescope.trace.timeline import PCIE, Timeline
from lanescope.trace.wire import payload_records
from lanescope.trace.wire_fit import default_of
from lanescope.watching.sources import prepare_all
from lanescope.watching.sources.pm import PmSource

#: Seconds for each method with each number of streams in each round, and for each version of a
#: kernel alone.
BUDGET, KERNEL_BUDGET = 0.06, 0.05
#: After the first round: one more, and another where these disagree.
_REPEATS = 2
_COUNTED_SECONDS = 0.1
#: Doubles in what a GPU reads at least from the host.
_SECTOR = 32 // 8
#: Points that a block of the convolution makes, as native/src/workload/grid_kernels.cu has them.
_TILE_X, _TILE_Y = 32, 16
#: Loads of `buoydiff` for each point below the first level: surface, above and here, twice.
_BUOYDIFF_LOADS = 6


@dataclass(frozen=True, slots=True)
class GridBench:
    """The memory that all cases share.

    Attributes
    ----------
    count
        Counts what a case's kernel moves when it works on mapped memory; None where nothing
        counts.
    """

    grid: OceanGrid
    pinned: GridMemory
    pageable: GridMemory
    count: Callable[[GridCase], MappedTraffic] | None = None

    @classmethod
    def made(cls, machine: Machine, gpu: int, grid: OceanGrid) -> GridBench:
        """Allocate and fill it.

        Raises
        ------
        NotMeasuredError
            If there is no room, or no GPU.
        """
        pinned = GridMemory.made(machine, gpu, grid)
        return cls(
            grid,
            pinned,
            GridMemory.made(machine, gpu, grid, pageable=True),
            lambda case: mapped_traffic(machine, gpu, pinned, case, _COUNTED_SECONDS),
        )

    def memory(self, method: Method) -> GridMemory:
        """Return the memory by which a method moves its data."""
        return self.pageable if method is Method.PAGEABLE else self.pinned


def require_gpu(machine: Machine, gpu: int) -> None:
    """Refuse to measure where that GPU is not.

    Raises
    ------
    InputError
        If the machine has none, or not that one.
    """
    if not machine.gpus:
        raise MissingPartError(
            "no GPU is to be seen on this machine, so nothing can be measured; "
            f"{command('model validate RUN')} compares a stored run"
        )
    if gpu not in {one.index for one in machine.gpus}:
        there = ", ".join(str(one.index) for one in machine.gpus)
        raise MissingPartError(f"this machine has no GPU {gpu}; there is {there}")


def measure_cases(
    bench: GridBench,
    cases: Sequence[GridCase],
    budget_seconds: float = BUDGET,
) -> Iterator[MeasuredCase]:
    """Measure cases, and return each again with every method that is done.

    Raises
    ------
    NotMeasuredError
        If the GPU does not do it.
    """
    once = _counted(bench, GridCase(Kernel.AXPY))
    for case in cases:
        alone = [
            tuple(kernel_seconds(bench.pinned, case, method, KERNEL_BUDGET).tolist())
            for method in (Method.EXPLICIT, Method.STREAMS)
        ]
        reads = mapped_reads(case, bench.grid)
        done = MeasuredCase(
            *(case.kernel, case.equation, case.outputs, reads, alone[0], alone[1]),
            counted_reads=_counted_reads(bench, case, once),
        )
        expected = Expected(case, bench.grid)
        for method in Method:
            timed, checks = _measure(bench, case, method, expected, budget_seconds)
            done = replace(done, timed=done.timed + timed, checks=done.checks + checks)
            yield done


def measure_again(
    bench: GridBench, done: Sequence[MeasuredCase], budget_seconds: float = BUDGET
) -> Iterator[MeasuredCase]:
    """Time cases once more, and return each again with every method that is done.

    A minute or so lies between both rounds: what disturbed one hardly disturbs the other. Where
    they disagree, a third one tells which was.

    Raises
    ------
    NotMeasuredError
        If the GPU does not do it.
    """
    for before in done:
        now = before
        for method in Method:
            timed = tuple(
                _again(bench, now.case, one, budget_seconds) if one.method is method else one
                for one in now.timed
            )
            now = replace(now, timed=timed)
            yield now


def _again(
    bench: GridBench, case: GridCase, one: TimedMethod, budget_seconds: float
) -> TimedMethod:
    memory, rounds = bench.memory(one.method), [one.seconds]
    for _ in range(_REPEATS):
        times = run_case(memory, case, one.method, one.streams, budget_seconds, spoil=False)
        rounds.append(tuple(times.seconds.tolist()))
        if not joined(one.method, one.streams, rounds).disturbed:
            break
    return joined(one.method, one.streams, rounds)


def _counted_reads(bench: GridBench, case: GridCase, once: MappedTraffic | None) -> float | None:
    counted = None if once is None else _counted(bench, case)
    return None if counted is None or once is None else counted_reads(counted, case, once)


def _counted(bench: GridBench, case: GridCase) -> MappedTraffic | None:
    """Return what a kernel moves; None where PM sampling does not work, as for some users."""
    if bench.count is None:
        return None
    try:
        return bench.count(case)
    except NotMeasuredError:
        return None


def _measure(
    bench: GridBench, case: GridCase, method: Method, expected: Expected, budget_seconds: float
) -> tuple[tuple[TimedMethod, ...], tuple[OutputCheck, ...]]:
    """Time a method; what its largest number of streams left in memory is compared."""
    memory = bench.memory(method)
    counts = stream_counts(method, len(bench.grid.pressure))
    timed = []
    for streams in counts:
        last = streams == counts[-1]
        times = run_case(memory, case, method, streams, budget_seconds, spoil=last)
        timed.append(TimedMethod(method, streams, tuple(times.seconds.tolist())))
    found = expected.compare(memory.outputs(case.output_arrays))
    return tuple(timed), tuple(_check(method, counts[-1], expected.levels, one) for one in found)


def _check(method: Method, streams: int, levels: int, found: OutputDifference) -> OutputCheck:
    return OutputCheck(
        method,
        streams,
        found.output,
        found.unit,
        found.tolerance,
        levels,
        None if isnan(found.largest) else found.largest,
    )


#: Told what is measured next, how much is done, and how much there is.
Progress = Callable[[str, int, int], None]

_SEED = 0


def record(
    machine: Machine,
    gpu: int,
    sides: tuple[int, int, int],
    parameters: LinkParameters,
    run: RunFolder,
    *,
    budget_seconds: float = BUDGET,
    progress: Progress | None = None,
) -> Validation:
    """Measure all cases, and write the run's file again with every method that is done.

    When interrupted, what was measured stays in the folder before the interruption goes its way.

    Raises
    ------
    InputError
        If the GPU is not there, or the folder cannot be written.
    NotMeasuredError
        If there is no room for the grid, or the GPU does not do it.
    """
    require_gpu(machine, gpu)
    report = progress or (lambda *_: None)
    found = Validation(
        gpu=machine.gpu(gpu).name,
        grid=sides,
        seed=_SEED,
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        tool_version=__version__,
        finished=False,
        cases=(),
        machine_key=machine_key(machine, gpu),
        parameters=parameters,
    )
    total = 2 * len(CASES) * len(Method)
    report("an ocean", 0, total)
    bench = GridBench.made(machine, gpu, ocean(*sides, seed=_SEED))
    done: dict[str, MeasuredCase] = {}
    for number, case in enumerate(_measured(bench, done, budget_seconds), start=1):
        done[case.name] = case
        found = replace(found, cases=tuple(done.values()), finished=number == total)
        save(found, run)
        report(case.name, number, total)
    return found


def _measured(
    bench: GridBench, done: dict[str, MeasuredCase], budget_seconds: float
) -> Iterator[MeasuredCase]:
    """Measure all cases, and once all are in `done`, time them again."""
    yield from measure_cases(bench, CASES, budget_seconds)
    yield from measure_again(bench, tuple(done.values()), budget_seconds)


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
        return _traffic_of(machine, gpu, Path(folder), runs=len(times.seconds))


def counted_reads(traffic: MappedTraffic, case: GridCase, once: MappedTraffic) -> float:
    """Return how often a case reads each byte, from what it moves.

    `once` is what ``axpy`` moves on the same grid, which reads each byte once: kernels' reads are
    answered in shorter packets than copies, and so by more bytes on the wire than counters
    take for payload.
    """
    arrays = GridCase(Kernel.AXPY).input_arrays / case.input_arrays
    return traffic.h2d_bytes / once.h2d_bytes * arrays


def _traffic_of(machine: Machine, gpu: int, folder: Path, runs: int) -> MappedTraffic:
    counters = next(c for c in read_all_counters(folder) if c.link == PCIE)
    links = pcie_links(machine, gpu)
    model = default_of(Timeline(0, 0), counters, links[0].pcie if links else None)
    sums = [payload[:, :2].sum(axis=0) for _, payload in payload_records(counters, model)]
    down, up = (float(sum(column)) for column in zip(*sums, strict=True))
    total = runs + UNCOUNTED_RUNS  # which move as much
    return MappedTraffic(down / total, up / total, runs)
