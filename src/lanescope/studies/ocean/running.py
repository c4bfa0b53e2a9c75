"""Runs a kernel of a grid on a GPU of this machine, by each way of moving its data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope._core import native
from lanescope.engine.core import (
    TaskTimes,
    copy_task,
    kernel_task,
    measure_graph,
    native_errors,
    near_cpu,
)
from lanescope.machine import Machine
from lanescope.prediction.graphs import TaskGraph, TaskKind, graph_for
from lanescope.prediction.predictor import Method, Workload
from lanescope.results import FloatArray as Seconds
from lanescope.studies.ocean.case import FloatArray, GridCase, OceanGrid
from lanescope.studies.ocean.reference import Kernel

_DOUBLE = 8
_MOST_INPUTS, _MOST_OUTPUTS = 2, 3
_MAPS_IN = (Method.IMPLICIT,)
_MAPS_OUT = (Method.IMPLICIT, Method.HYBRID)
#: There a thread computes a whole column; elsewhere neighbours in memory have a thread each.
COLUMNS = (Method.EXPLICIT, Method.PAGEABLE)


def workload_of(
    case: GridCase, shape: tuple[int, int, int], kernel_seconds: float, mapped_reads: float = 1.0
) -> Workload:
    """Return what a case moves and computes on a grid of (nz, ny, nx) points."""
    array = int(np.prod(shape)) * _DOUBLE
    needs = case.kernel is Kernel.BUOYDIFF
    inputs, outputs = case.input_arrays, case.output_arrays
    return Workload(
        h2d_bytes=inputs * array,
        d2h_bytes=outputs * array,
        kernel_seconds=kernel_seconds,
        h2d_arrays=inputs,
        d2h_arrays=outputs,
        most_streams=shape[0],
        needs_previous=needs,
        returns_later=1 if needs else 0,
        mapped_reads=mapped_reads,
        flops=float(case.flops * int(np.prod(shape))),
        device_bytes=float((inputs + outputs) * array),
    )


@dataclass(frozen=True, slots=True)
class GridMemory:
    """Memory for all cases on a grid: two arrays in, three out.

    Attributes
    ----------
    topology, memory
        The core's.
    cpus
        Next to the GPU.
    grid
        What the arrays in hold: temperature and salinity.
    deepest
        The grid's, as the core takes it.
    """

    topology: native.Topology
    memory: native.TaskMemory
    cpus: list[int]
    grid: OceanGrid
    deepest: list[int]

    @classmethod
    def made(
        cls, machine: Machine, gpu: int, grid: OceanGrid, *, pageable: bool = False
    ) -> GridMemory:
        """Allocate the arrays and fill those that go in.

        Raises
        ------
        NotMeasuredError
            If there is no room, or no GPU.
        """
        topology, cpus = native.Topology(), near_cpu(machine, gpu)
        array = grid.temperature.nbytes
        with native_errors():
            memory = native.TaskMemory(
                topology,
                gpu,
                [array] * _MOST_INPUTS,
                [array] * _MOST_OUTPUTS,
                pageable=pageable,
                cpus=cpus,
            )
        for index, values in enumerate((grid.temperature, grid.salinity)):
            memory.host_in(index)[:] = values.ravel()
        return cls(topology, memory, cpus, grid, grid.deepest.ravel().tolist())

    def spoil(self, count: int = _MOST_OUTPUTS) -> None:
        """Overwrite what earlier runs left in the first of the host's arrays."""
        for index in range(count):
            self.memory.host_out(index)[:] = np.nan

    def outputs(self, count: int) -> tuple[FloatArray, ...]:
        """Return what lies in the first arrays that come back, of the grid's shape."""
        shape = self.grid.temperature.shape
        return tuple(np.asarray(self.memory.host_out(i)).reshape(shape) for i in range(count))


def native_graph(
    memory: GridMemory, case: GridCase, graph: TaskGraph, method: Method
) -> native.TaskGraph:
    """Return the core's graph of a method's tasks, whose parts are levels.

    Raises
    ------
    NotMeasuredError
        If the core refuses it.
    """
    _, ny, nx = memory.grid.temperature.shape
    return _native_graph(
        memory,
        case,
        _specs(graph, ny * nx * _DOUBLE),
        maps_in=method in _MAPS_IN,
        maps_out=method in _MAPS_OUT,
        columns=method in COLUMNS,
    )


def _native_graph(
    memory: GridMemory,
    case: GridCase,
    specs: list[native.TaskSpec],
    *,
    maps_in: bool,
    maps_out: bool,
    columns: bool,
) -> native.TaskGraph:
    nz, ny, nx = memory.grid.temperature.shape
    with native_errors():
        return native.grid_graph(
            memory.topology,
            memory.memory,
            specs,
            *case.named(),
            nx,
            ny,
            nz,
            case.output_arrays,
            memory.grid.pressure.tolist(),
            memory.deepest,
            maps_in=maps_in,
            maps_out=maps_out,
            columns=columns,
            cpus=memory.cpus,
        )


def run_case(
    memory: GridMemory,
    case: GridCase,
    method: Method,
    streams: int,
    budget_seconds: float,
    *,
    spoil: bool = True,
) -> TaskTimes:
    """Time a case by a method; the arrays hold its outputs afterwards.

    Parameters
    ----------
    spoil
        Overwrite what earlier runs left, so that a value that is not written is seen.

    Raises
    ------
    NotMeasuredError
        If the GPU does not do it.
    """
    shape = memory.grid.temperature.shape
    workload = workload_of(case, (shape[0], shape[1], shape[2]), 0.0)
    graph = graph_for(workload, method, streams)
    if spoil:
        memory.spoil(case.output_arrays)
    return measure_graph(native_graph(memory, case, graph, method), budget_seconds)


def kernel_seconds(
    memory: GridMemory, case: GridCase, method: Method, budget_seconds: float
) -> Seconds:
    """Return what the kernel takes in one launch, its data in the GPU's memory: shape (runs,).

    Parameters
    ----------
    method
        Explicit for a thread for each column, another for one for each point.

    Raises
    ------
    NotMeasuredError
        If the GPU does not do it.
    """
    whole = [kernel_task(0, memory.grid.temperature.shape[0])]
    columns = method in COLUMNS
    graph = _native_graph(memory, case, whole, maps_in=False, maps_out=False, columns=columns)
    held = measure_graph(graph, budget_seconds, held=True).held
    assert held is not None
    return held


def _specs(graph: TaskGraph, level_bytes: int) -> list[native.TaskSpec]:
    specs = []
    for task in graph.tasks:
        if task.kind is TaskKind.KERNEL:
            spec = kernel_task(task.first, task.count, stream=task.stream, after=task.after)
        else:
            spec = copy_task(
                task.kind is TaskKind.H2D,
                task.first * level_bytes,
                task.count * level_bytes,
                stream=task.stream,
                array=task.array,
                after=task.after,
            )
        specs.append(spec)
    return specs
