"""Both directions at once, as programs with streams use them: the graphs of such points."""

from __future__ import annotations

from lanescope.model.overlap.graphs import graph_for
from lanescope.model.overlap.methods import Method
from lanescope.model.overlap.tasks import Task, TaskGraph, TaskKind
from lanescope.model.overlap.workload import Workload
from lanescope.model.transfer.points import Kind, Point


def pattern_of(point: Point) -> TaskGraph:
    """Return the tasks of a point of both directions.

    One stream of each direction: long transfers that begin together. More: the bytes are cut
    into parts, and each goes there and back, by a copy or by a kernel that writes mapped memory,
    while others go the other way.
    """
    mapped = point.kind is Kind.EXPLICIT_MAPPED
    if point.streams > 1:
        workload = Workload(
            point.h2d_bytes,
            point.d2h_bytes,
            0.0,
            h2d_arrays=max(point.reads, 1),
            d2h_arrays=max(point.writes, 1),
        )
        return graph_for(workload, Method.HYBRID if mapped else Method.STREAMS, point.streams)
    back = Task(TaskKind.D2H, 1, bytes=point.d2h_bytes)
    if not mapped:
        return TaskGraph((Task(TaskKind.H2D, 0, bytes=point.h2d_bytes), back))
    arrays = max(point.reads, 1)
    one = point.h2d_bytes // arrays
    there = (Task(TaskKind.H2D, 0, bytes=one, array=array) for array in range(arrays))
    return TaskGraph((*there, Task(TaskKind.KERNEL, 1, writes=point.d2h_bytes)))
