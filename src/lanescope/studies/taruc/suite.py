"""The sections of a suite, and how long they will take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lanescope.copies.copy import Engine
from lanescope.copies.experiment import Experiment, taken_bytes
from lanescope.machine import Machine
from lanescope.studies.taruc import axes
from lanescope.studies.taruc.axes import EVERYTHING, Only, Planned
from lanescope.studies.taruc.parameters import Benchmark, Parameters
from lanescope.studies.taruc.plan_contention import contention_experiments
from lanescope.studies.taruc.plans import (
    host_experiments,
    hostdev_experiments,
    nurma_experiments,
    overhead_experiments,
    peer_experiments,
)


@dataclass(frozen=True, slots=True)
class Section:
    """One micro-benchmark of a suite.

    Attributes
    ----------
    samples
        Samples of each point; None is as many as it takes.
    """

    benchmark: Benchmark
    experiments: tuple[Experiment, ...]
    notes: tuple[str, ...]
    samples: int | None


_Planner = Callable[[Machine, Parameters, Only, Mapping[str, int] | None], Planned]
_PLANNERS: dict[Benchmark, _Planner] = {
    Benchmark.OVERHEAD: overhead_experiments,
    Benchmark.HOST: host_experiments,
    Benchmark.HOSTDEV: hostdev_experiments,
    Benchmark.PEER: peer_experiments,
    Benchmark.NURMA: nurma_experiments,
    Benchmark.CONTENTION: contention_experiments,
}


def plan_suite(
    machine: Machine,
    parameters: Parameters,
    benchmarks: Sequence[Benchmark] | None = None,
    only: Only = EVERYTHING,
    free_bytes: Mapping[str, int] | None = None,
) -> tuple[Section, ...]:
    """Return the sections of a suite.

    Parameters
    ----------
    benchmarks
        Those to plan, whatever the parameters say; None is those that they run.
    free_bytes
        Memory that may be taken, by part; None is all that the machine has.
    """
    requested = [b for b in Benchmark if benchmarks is None or b in benchmarks]
    wanted = [b for b in requested if benchmarks is not None or getattr(parameters, b).run]
    return tuple(
        Section(b, planned.experiments, notes + planned.notes, _samples(b, parameters))
        for b in wanted
        for planned in (_PLANNERS[b](machine, parameters, only, free_bytes),)
        for notes in (_no_sizes(b, parameters),)
    )


def machine_notes(machine: Machine) -> tuple[str, ...]:
    """Return what a machine has not that suites go through."""
    notes = [
        f"{node.id} has no memory: nothing is placed there, its cores are measured all the same."
        for node in machine.nodes
        if node.memory_bytes == 0
    ]
    notes += [
        f"{node.id} has no core that this process may use: its memory is measured from elsewhere."
        for node in machine.nodes
        if not node.cores
    ]
    if not axes.core_nodes(machine):
        notes.append("no node has a core that this process may use: no thread can be placed.")
    return tuple(notes)


#: The verb of runs of whole suites.
SUITE = "taruc"


def _no_sizes(benchmark: Benchmark, parameters: Parameters) -> tuple[str, ...]:
    if parameters.burst or parameters.range or benchmark is Benchmark.CONTENTION:
        return ()
    return (f"{benchmark}: burst and range are both false, which leaves no sizes to measure.",)


def _samples(benchmark: Benchmark, parameters: Parameters) -> int | None:
    if not parameters.sustained:
        return 1
    if benchmark is Benchmark.CONTENTION:
        return parameters.contention.repeats
    return parameters.repeats


#: Beside its sampling, a point is made ready, checked and stored.
_POINT_SECONDS = 0.02
#: Memory is touched first at about this rate by one thread.
_TOUCH_BYTES_A_SECOND = 2e9
#: And gone through like this, a few times at least.
_USE_BYTES_A_SECOND = 10e9
_FEWEST_SAMPLES = 6
#: More of them are no faster together.
_THREADS_THAT_FILL_MEMORY = 8


def suite_seconds(machine: Machine, sections: Sequence[Section], budget_seconds: float) -> float:
    """Return the seconds that a suite may take."""
    return sum(
        point_seconds(machine, experiment, budget_seconds, section.samples)
        for section in sections
        for experiment in section.experiments
    )


def point_seconds(
    machine: Machine, experiment: Experiment, budget_seconds: float, samples: int | None
) -> float:
    """Return the seconds that one point may take; threads share the touching of memory."""
    moved = sum(copy.counted_bytes for copy in experiment.copies) / _USE_BYTES_A_SECOND
    touching = sum(taken_bytes(experiment).values()) / _TOUCH_BYTES_A_SECOND
    if experiment.copies[0].engine is Engine.CPU:
        cores = sum(len(node.cores) for node in machine.nodes)
        threads = min(len({copy.cpus for copy in experiment.copies}), cores)
        touching /= threads
        moved /= min(threads, _THREADS_THAT_FILL_MEMORY)
    enough = moved * (samples or _FEWEST_SAMPLES)
    sampling = enough if samples else max(budget_seconds, enough)
    return _POINT_SECONDS + touching + sampling


def seconds_text(seconds: float) -> str:
    """Return a time as people say it.

    >>> seconds_text(40), seconds_text(300), seconds_text(9000)
    ('about 40 s', 'about 5 min', 'about 2.5 h')
    """
    if seconds < 100:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
