"""Runs graphs of copies and kernels on a GPU of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from lanescope._core import native
from lanescope.engine.core import reason_for
from lanescope.machine import Machine
from lanescope.results.result import FloatArray

_FEWEST, _MOST = 5, 200
#: Runs before those that count: the core's own, and one whose time tells how many follow.
UNCOUNTED_RUNS = 2


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """Seconds of each run: shape (runs,).

    Attributes
    ----------
    calls
        Until the last call had returned.
    seconds
        From the first call until the host had seen the end of all.
    held
        What the device took alone, once all was handed over; None where nothing was held back.
    """

    calls: FloatArray
    seconds: FloatArray
    held: FloatArray | None = None


def near_cpu(machine: Machine, gpu: int) -> list[int]:
    """Return one CPU of the NUMA node next to a GPU, or none where no node is known.

    One, as a thread that wanders from core to core makes its calls in two or three different times.
    The last, as the first ones of a machine often have its interrupts.
    """
    node = machine.gpu(gpu).node
    alone = len(machine.nodes) == 1
    cores = [core for one in machine.nodes if alone or one.index == node for core in one.cores]
    return [cores[-1][0]] if cores else []


def measure_graph(
    graph: native.TaskGraph, budget_seconds: float, *, held: bool = False
) -> TaskTimes:
    """Run a graph again and again for about so long; at least five times, at most 200.

    Raises
    ------
    NotMeasuredError
        If the GPU fails or does not answer.
    """
    with native_errors():
        first = graph.run(1)[0].seconds
        runs = int(np.clip(budget_seconds / max(first, 1e-9), _FEWEST, _MOST))
        times = graph.run(runs)
        alone = np.array(graph.run_held(runs)) if held else None
    calls = np.array([one.call_seconds for one in times])
    return TaskTimes(calls, np.array([one.seconds for one in times]), alone)


@contextmanager
def native_errors() -> Iterator[None]:
    """Turn what the core says of a GPU into one sentence.

    Raises
    ------
    NotMeasuredError
        If the core could not do what it was asked for.
    """
    try:
        yield
    except native.NativeError as error:
        raise reason_for(*error.args).error from error


def copy_task(
    down: bool,
    offset: int,
    size: int,
    *,
    stream: int = 0,
    array: int = 0,
    after: Sequence[int] = (),
) -> native.TaskSpec:
    """Return a copy of a part of an array to the GPU, or back."""
    kind = native.TaskKind.h2d if down else native.TaskKind.d2h
    return native.TaskSpec(
        kind, stream=stream, array=array, offset=offset, bytes=size, after=list(after)
    )


def kernel_task(
    first: int = 0, count: int = 0, *, stream: int = 0, after: Sequence[int] = ()
) -> native.TaskSpec:
    """Return a launch of the graph's kernel."""
    return native.TaskSpec(
        native.TaskKind.kernel, stream=stream, first=first, count=count, after=list(after)
    )
