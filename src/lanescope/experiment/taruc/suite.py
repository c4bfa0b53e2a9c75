"""A whole suite: the micro-benchmarks that are asked for, in their order, with notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lanescope.experiment.experiment import Experiment
from lanescope.experiment.taruc import axes
from lanescope.experiment.taruc.axes import EVERYTHING, Only
from lanescope.experiment.taruc.benchmark import Benchmark
from lanescope.experiment.taruc.contention import contention_experiments
from lanescope.experiment.taruc.host import host_experiments
from lanescope.experiment.taruc.hostdev import hostdev_experiments
from lanescope.experiment.taruc.nurma import nurma_experiments
from lanescope.experiment.taruc.overhead import overhead_experiments
from lanescope.experiment.taruc.parameters import Parameters
from lanescope.experiment.taruc.peer import peer_experiments
from lanescope.experiment.taruc.room import Planned
from lanescope.machine import Machine


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
    asked = [b for b in Benchmark if benchmarks is None or b in benchmarks]
    wanted = [b for b in asked if benchmarks is not None or getattr(parameters, b).run]
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
