"""A suite of the micro-benchmarks of TARUC, by a parameter file: its sections, and its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lanescope.calls import shown
from lanescope.codec.fields import FieldError
from lanescope.copies.copy import Engine
from lanescope.copies.experiment import Experiment, taken_bytes
from lanescope.copies.requirements import free_bytes, missing_part
from lanescope.engine.sampling import Plan
from lanescope.errors import InputError, command
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.store.run import Run
from lanescope.studies.running import Progress
from lanescope.studies.study import Listing, Study, Work, run_study
from lanescope.studies.taruc.axes import EVERYTHING, Axes, Only, Planned, core_nodes
from lanescope.studies.taruc.parameters import (
    DEFAULT,
    SUITE,
    Benchmark,
    ParameterFile,
    Parameters,
    parameters_named,
    parameters_text,
    require_sound,
)
from lanescope.studies.taruc.plan_contention import contention_experiments
from lanescope.studies.taruc.plans import (
    host_experiments,
    hostdev_experiments,
    nurma_experiments,
    overhead_experiments,
    peer_experiments,
)

#: Points are many, and each is known well enough soon.
PLAN = Plan(target=0.01, budget_seconds=0.03)
_PLANNERS: dict[Benchmark, Callable[[Axes], Planned]] = {
    Benchmark.OVERHEAD: overhead_experiments,
    Benchmark.HOST: host_experiments,
    Benchmark.HOSTDEV: hostdev_experiments,
    Benchmark.PEER: peer_experiments,
    Benchmark.NURMA: nurma_experiments,
    Benchmark.CONTENTION: contention_experiments,
}
#: Beside its sampling, a point is made ready, checked and stored.
_POINT_SECONDS = 0.02
#: Memory is touched first at about this rate by one thread.
_TOUCH_BYTES_A_SECOND = 2e9
#: And gone through like this, a few times at least.
_USE_BYTES_A_SECOND = 10e9
_FEWEST_SAMPLES = 6
#: More of them are no faster together.
_THREADS_THAT_FILL_MEMORY = 8


@dataclass(frozen=True, slots=True)
class Suite(Study):
    """Measure what topology, NUMA and contention cost: micro-benchmarks by a parameter file.

    Attributes
    ----------
    benchmarks
        Which of them; None is those that the parameters run.
    only
        Less than all of the axes.
    """

    verb: ClassVar[str] = SUITE
    title: ClassVar[str] = "Topology, NUMA and contention"
    sampling: ClassVar[Plan] = PLAN
    of_what: ClassVar[str] = "one point"
    listable: ClassVar[bool] = True
    estimates: ClassVar[bool] = True

    file: ParameterFile
    benchmarks: tuple[Benchmark, ...] | None = None
    only: Only | None = None

    def work(self, machine: Machine) -> Work:
        """Return all points, with the number of samples that the parameters want."""
        sections = self._sections(machine)
        return Work(
            stages=tuple((s.experiments, s.samples) for s in sections),
            notes=_suite_notes(machine, sections),
            parameters=self.file.text,
        )

    def listing(self, machine: Machine, plan: Plan) -> Listing:
        """Return a line for each point, with what it may take."""
        sections, budget = self._sections(machine), plan.budget_seconds
        lines = [
            f"{one.name:56} {_point_seconds(machine, one, budget, s.samples):7.2f} s  {one.title}"
            for s in sections
            for one in s.experiments
        ]
        notes = [f"note: {note}" for note in _suite_notes(machine, sections)]
        seconds = _duration_text(suite_seconds(machine, sections, budget))
        return Listing(lines, [*notes, f"{len(lines)} points, {seconds} by rule of thumb"])

    def _sections(self, machine: Machine) -> tuple[SuiteSection, ...]:
        return _suite_sections(machine, self.file.parameters, self.benchmarks, self.only)


def taruc(
    machine: Machine | StrPath | None = None,
    *,
    parameters: Parameters | StrPath | None = None,
    benchmarks: Sequence[Benchmark | str] | None = None,
    only: Only | None = None,
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: StrPath | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Measure what topology, NUMA and contention cost: the micro-benchmarks of TARUC.

    Parameters
    ----------
    parameters
        A `Parameters`, a parameter file (TOML or TARUC's ``.in``) or the name of a
        suite that ships, ``default`` or ``taruc``; None is ``default``.
    benchmarks
        Such as ``["host"]``, whatever the parameters say; None is those that they run.
    only
        Less than all of the axes.
    plan
        How precisely to measure; the parameters' number of samples goes before.
    resume
        Go on with the run that is in `out`: what it holds is not measured again.

    The other parameters and the result are those of `lanescope.check`.

    Raises
    ------
    InputError
        If an argument cannot be used, there is nothing to measure, or the run in
        `out` is of another machine or has other parameters.

    Examples
    --------
    >>> run = taruc(benchmarks=["nurma"])  # doctest: +SKIP
    >>> run.results[0].copies[0].statistics.median_seconds  # doctest: +SKIP
    1.1e-09
    """
    chosen = None if benchmarks is None else _benchmarks(benchmarks)
    suite = Suite(parameter_file(parameters), chosen, only)
    verb = chosen[0] if chosen and len(chosen) == 1 else SUITE
    return run_study(
        suite,
        machine,
        plan=plan,
        allow_busy=allow_busy,
        out=out,
        progress=progress,
        resume=resume,
        verb=verb,
    )


def parameter_file(parameters: Parameters | StrPath | None) -> ParameterFile:
    """Return parameters with their text, however they are given; see `taruc`."""
    if not isinstance(parameters, Parameters):
        return parameters_named(str(parameters or DEFAULT))
    try:
        require_sound(parameters)
    except FieldError as error:
        section = f"{error.table}: " if error.table else ""
        raise InputError(f"{section}{error}") from error
    return ParameterFile(parameters, parameters_text(parameters))


def _suite_sections(
    machine: Machine,
    parameters: Parameters,
    benchmarks: Sequence[Benchmark] | None = None,
    only: Only | None = None,
) -> tuple[SuiteSection, ...]:
    """Return what a suite measures on a machine as it is now.

    Raises
    ------
    InputError
        If that is nothing, or a part is named that the machine has not.
    """
    only = only or Only()
    _require_parts(machine, only)
    sections = plan_suite(machine, parameters, benchmarks, only, free_bytes(machine))
    if not any(section.experiments for section in sections):
        requested = benchmarks or tuple(s.benchmark for s in sections)
        raise _why_nothing(machine, requested, _suite_notes(machine, sections))
    return sections


def _suite_notes(machine: Machine, sections: Sequence[SuiteSection]) -> tuple[str, ...]:
    """Return what is left out of a suite, in sentences."""
    notes = list(machine_notes(machine))
    if not machine.gpus:
        missing = [str(s.benchmark) for s in sections if s.benchmark.needs_gpu]
        if missing:
            notes.append(f"{' and '.join(missing)}: nothing to measure, as there is no GPU.")
    return (*notes, *(note for section in sections for note in section.notes))


def _why_nothing(
    machine: Machine, requested: Sequence[Benchmark], notes: Sequence[str]
) -> InputError:
    name = f"machine {machine.name!r}"
    if not machine.gpus and requested and all(b.needs_gpu for b in requested):
        return missing_part(
            machine,
            f"{name} has no GPU to copy to and from; {command('bench host')} measures host memory",
        )
    if not requested:
        return InputError(
            "no micro-benchmark is asked for; set run = true in a section of the parameter file"
        )
    why = f": {notes[-1].rstrip('.')}" if notes else ""
    return InputError(f"{name} has nothing to measure by these parameters{why}")


def _benchmarks(names: Sequence[Benchmark | str]) -> tuple[Benchmark, ...]:
    known = list(Benchmark)
    for name in names:
        if name not in known:
            raise InputError(
                f"there is no micro-benchmark {shown(str(name))}; use {', '.join(known)}"
            )
    return tuple(Benchmark(name) for name in names)


def _require_parts(machine: Machine, only: Only) -> None:
    for what, wanted, known in (
        ("NUMA node", only.nodes, [n.index for n in machine.nodes]),
        ("GPU", only.gpus, [g.index for g in machine.gpus]),
    ):
        for index in wanted or ():
            if index not in known:
                has = ", ".join(map(str, known)) or "none"
                raise missing_part(
                    machine, f"there is no {what} {index} in machine {machine.name!r}; it has {has}"
                )


@dataclass(frozen=True, slots=True)
class SuiteSection:
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


def plan_suite(
    machine: Machine,
    parameters: Parameters,
    benchmarks: Sequence[Benchmark] | None = None,
    only: Only = EVERYTHING,
    free_bytes: Mapping[str, int] | None = None,
) -> tuple[SuiteSection, ...]:
    """Return the sections of a suite.

    Parameters
    ----------
    benchmarks
        Those to plan, whatever the parameters say; None is those that they run.
    free_bytes
        Memory that may be taken, by part; None is all that the machine has.
    """
    axes = Axes(machine, parameters, only, free_bytes)
    requested = [b for b in Benchmark if benchmarks is None or b in benchmarks]
    wanted = [b for b in requested if benchmarks is not None or getattr(parameters, b).run]
    return tuple(
        SuiteSection(b, planned.experiments, notes + planned.notes, _samples(b, parameters))
        for b in wanted
        for planned in (_PLANNERS[b](axes),)
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
    if not core_nodes(machine):
        notes.append("no node has a core that this process may use: no thread can be placed.")
    return tuple(notes)


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


def suite_seconds(
    machine: Machine, sections: Sequence[SuiteSection], budget_seconds: float
) -> float:
    """Return the seconds that a suite may take."""
    return sum(
        _point_seconds(machine, experiment, budget_seconds, section.samples)
        for section in sections
        for experiment in section.experiments
    )


def _point_seconds(
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


def _duration_text(seconds: float) -> str:
    """Return a time as people say it.

    >>> _duration_text(40), _duration_text(300), _duration_text(9000)
    ('about 40 s', 'about 5 min', 'about 2.5 h')
    """
    if seconds < 100:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
