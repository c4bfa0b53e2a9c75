"""The micro-benchmarks of TARUC: each as a study, and a suite of them by a parameter file."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from lanescope.backend.sampling import Plan
from lanescope.calls import checked, shown
from lanescope.codec.fields import FieldError
from lanescope.errors import InputError
from lanescope.experiment import Caches, Memory, Pattern
from lanescope.experiment.requirements import missing_part
from lanescope.experiment.taruc import (
    Benchmark,
    Only,
    Parameters,
    Section,
    plan_suite,
    require_sound,
)
from lanescope.experiment.taruc.benchmark import TITLES
from lanescope.experiment.taruc.estimate import point_seconds, seconds_text, suite_seconds
from lanescope.experiment.taruc.file import DEFAULT, ParameterFile, parameters_named
from lanescope.experiment.taruc.suite import SUITE, machine_notes
from lanescope.experiment.taruc.text import parameters_text
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.machine.free_memory import free_bytes
from lanescope.run.run import Run
from lanescope.running import Progress
from lanescope.studies.options import MOST_PARTS, size_option
from lanescope.studies.study import Option, Study, Work, run_study
from lanescope.units.sizes import Size, size_of, size_text
from lanescope.units.values import OneOf, Whole

#: Points are many, and each is known well enough soon.
PLAN = Plan(target=0.01, budget_seconds=0.03)


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
            notes=suite_notes(machine, sections),
            parameters=self.file.text,
        )

    def listing(self, machine: Machine, plan: Plan) -> Iterator[str]:
        """Yield a line for each point, with what it may take."""
        sections = self._sections(machine)
        for section in sections:
            for experiment in section.experiments:
                seconds = point_seconds(machine, experiment, plan.budget_seconds, section.samples)
                yield f"{experiment.name:56} {seconds:7.2f} s  {experiment.title}"
        for note in suite_notes(machine, sections):
            print(f"note: {note}", file=sys.stderr)
        count = sum(len(section.experiments) for section in sections)
        seconds = suite_seconds(machine, sections, plan.budget_seconds)
        print(f"{count} points, {seconds_text(seconds)} by rule of thumb", file=sys.stderr)

    def _sections(self, machine: Machine) -> tuple[Section, ...]:
        return suite_sections(machine, self.file.parameters, self.benchmarks, self.only)


def _caches() -> Iterable[str]:
    return Caches


def _memory() -> Iterable[str]:
    return Memory


def _pattern() -> Iterable[str]:
    return Pattern


_Smallest = Annotated[Size | None, size_option("Smallest size.", None, "--min")]
_Largest = Annotated[Size | None, size_option("Largest size.", None, "--max")]
_Steps = Annotated[
    int,
    Option(
        Whole("--steps-per-decade", 1, 100, "more sizes are hardly different"),
        "N",
        "Sizes for each power of ten.",
        "1",
    ),
]
_Memories = Annotated[
    Sequence[Memory] | None,
    Option(
        OneOf("--memory", _memory),
        "KIND",
        "Kind of memory, such as pageable, pinned or huge; may be repeated; default: those that "
        "the machine has.",
        repeated=True,
    ),
]
_Patterns = Annotated[
    Sequence[Pattern] | None,
    Option(
        OneOf("--pattern", _pattern),
        "NAME",
        "repeated, ascending, descending or random blocks; may be repeated; default: all, up to "
        "the size of the caches.",
        repeated=True,
    ),
]
_Nodes = Annotated[
    Sequence[int] | None,
    Option(
        Whole("--node", 0, MOST_PARTS, "more are in no machine"),
        "N",
        "NUMA node of the memory; may be repeated; default: all.",
        repeated=True,
    ),
]
_Gpus = Annotated[
    Sequence[int] | None,
    Option(
        Whole("--gpu", 0, MOST_PARTS, "more are in no machine"),
        "N",
        "GPU; may be repeated; default: all.",
        repeated=True,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBenchmark(Study):
    """One of them, with options instead of a parameter file."""

    sampling: ClassVar[Plan] = PLAN
    of_what: ClassVar[str] = "one point"
    listable: ClassVar[bool] = True
    estimates: ClassVar[bool] = True

    def work(self, machine: Machine) -> Work:
        """Return the points of the micro-benchmark."""
        return self._suite().work(machine)

    def listing(self, machine: Machine, plan: Plan) -> Iterator[str]:
        """Yield a line for each point, with what it may take."""
        return self._suite().listing(machine, plan)

    def _suite(self) -> Suite:
        return Suite(parameter_file(self._parameters()), (Benchmark(self.verb),), self._only())

    def _parameters(self, **more: Any) -> Parameters:
        """Return the parameters of the suite with the range of this micro-benchmark."""
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        default = Parameters()
        section = getattr(default, self.verb)
        first = size_of(given["smallest"]) if given["smallest"] else section.min_bytes
        last = size_of(given["largest"]) if given["largest"] else section.max_bytes
        if first > last:
            raise InputError(
                f"sizes go from --min {size_text(first)} to --max {size_text(last)}, which is "
                "less; give both, the smaller one as --min"
            )
        ranged = replace(section, min_bytes=first, max_bytes=last, **more)
        steps = given["steps"]
        return replace(default, tag=self.verb, steps_per_decade=steps, **{self.verb: ranged})

    def _only(self) -> Only:
        names = {"memories", "patterns", "caches", "nodes", "gpus"}
        mine = names & {field.name for field in dataclasses.fields(self)}
        given = {name: getattr(self, name) for name in mine}
        return Only(**{n: tuple(dict.fromkeys(v)) if v else None for n, v in given.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Overhead(MicroBenchmark):
    """Measure what allocating, first touching and releasing memory costs.

    By kind of memory, the memory's NUMA node or GPU, the node of the thread, and size: 100 B
    to 1.5 GB unless told otherwise.
    """

    verb: ClassVar[str] = Benchmark.OVERHEAD
    title: ClassVar[str] = TITLES[Benchmark.OVERHEAD]

    smallest: _Smallest = None
    largest: _Largest = None
    steps: _Steps = 1
    memories: _Memories = None
    nodes: _Nodes = None
    gpus: _Gpus = None


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Host(MicroBenchmark):
    """Measure copies of blocks by one thread between NUMA nodes.

    By source, destination and the thread's node, kind of memory, access pattern and state of
    the caches, and size: 10 B to 1.5 GB unless told otherwise.
    """

    verb: ClassVar[str] = Benchmark.HOST
    title: ClassVar[str] = TITLES[Benchmark.HOST]

    smallest: _Smallest = None
    largest: _Largest = None
    steps: _Steps = 1
    memories: _Memories = None
    patterns: _Patterns = None
    caches: Annotated[
        Sequence[Caches] | None,
        Option(
            OneOf("--caches", _caches),
            "STATE",
            "warm or flushed; default both where it matters.",
            repeated=True,
        ),
    ] = None
    nodes: _Nodes = None


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class HostDev(MicroBenchmark):
    """Measure copies of blocks between host memory and GPUs, each way.

    By GPU, the memory's and the thread's node, kind of memory, access pattern and size, by a
    thread that waits (sync) and by events on the GPU (async).
    """

    verb: ClassVar[str] = Benchmark.HOSTDEV
    title: ClassVar[str] = TITLES[Benchmark.HOSTDEV]

    smallest: _Smallest = None
    largest: _Largest = None
    steps: _Steps = 1
    memories: _Memories = None
    patterns: _Patterns = None
    nodes: _Nodes = None
    gpus: _Gpus = None


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Peer(MicroBenchmark):
    """Measure copies from GPU to GPU: peer, by unified addresses, staged through the host.

    Both directions of each pair, inside each GPU, and by size.
    """

    verb: ClassVar[str] = Benchmark.PEER
    title: ClassVar[str] = TITLES[Benchmark.PEER]

    smallest: _Smallest = None
    largest: _Largest = None
    steps: _Steps = 1
    gpus: _Gpus = None


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Nurma(MicroBenchmark):
    """Measure single loads of memory: strided and in random order, dependent and independent.

    By the memory's and the thread's NUMA node, kind of memory (huge pages apart), stride, and
    number of loads: --min and --max are 8 bytes for each, 80 B to 80 MB unless told otherwise.
    """

    verb: ClassVar[str] = Benchmark.NURMA
    title: ClassVar[str] = TITLES[Benchmark.NURMA]

    smallest: Annotated[Size | None, size_option("Smallest size.", None, "--min", least=8)] = None
    largest: Annotated[Size | None, size_option("Largest size.", None, "--max", least=8)] = None
    steps: _Steps = 1
    gap: Annotated[
        Size | None,
        size_option(
            "From load to load, beside 8B, 64B, 4KiB and 64KiB; default 5256B.",
            None,
            "--gap",
            least=8,
            multiple=8,
        ),
    ] = None
    block: Annotated[
        Size | None,
        size_option(
            "Memory that loads stay in; default: twice the last-level cache.",
            None,
            "--block",
            least=8,
        ),
    ] = None
    memories: _Memories = None
    nodes: _Nodes = None

    def _parameters(self, **more: Any) -> Parameters:
        gap = size_of(self.gap) if self.gap else Parameters().nurma.gap_bytes
        block = size_of(self.block) if self.block else None
        return MicroBenchmark._parameters(self, gap_bytes=gap, block_bytes=block)


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Contention(MicroBenchmark):
    """Measure what many cost each other: at memory channels, between sockets, over PCIe.

    Threads from 1 to twice the cores on one node and all; threads on another node's memory,
    each way and both; GPUs alone, in pairs and all, from near and far memory, 1 to 4 streams.
    """

    verb: ClassVar[str] = Benchmark.CONTENTION
    title: ClassVar[str] = TITLES[Benchmark.CONTENTION]

    array: Annotated[
        Size | None,
        size_option(
            "Array of each thread; default: all together four times the caches.",
            None,
            "--array",
            least=8,
        ),
    ] = None
    copy: Annotated[
        Size | None, size_option("Copy of each stream; default 64MB.", None, "--copy")
    ] = None
    nodes: _Nodes = None
    gpus: _Gpus = None

    def _parameters(self, **more: Any) -> Parameters:
        default = Parameters()
        array = size_of(self.array) if self.array else None
        section = replace(
            default.contention,
            memory_bytes=array,
            socket_bytes=array,
            pcie_bytes=size_of(self.copy) if self.copy else default.contention.pcie_bytes,
        )
        return replace(default, tag=self.verb, contention=section)


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


def suite_sections(
    machine: Machine,
    parameters: Parameters,
    benchmarks: Sequence[Benchmark] | None = None,
    only: Only | None = None,
) -> tuple[Section, ...]:
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
        asked = benchmarks or tuple(s.benchmark for s in sections)
        raise _why_nothing(machine, asked, suite_notes(machine, sections))
    return sections


def suite_notes(machine: Machine, sections: Sequence[Section]) -> tuple[str, ...]:
    """Return what is left out of a suite, in sentences."""
    notes = list(machine_notes(machine))
    if not machine.gpus:
        missing = [str(s.benchmark) for s in sections if s.benchmark.needs_gpu]
        if missing:
            notes.append(f"{' and '.join(missing)}: nothing to measure, as there is no GPU.")
    return (*notes, *(note for section in sections for note in section.notes))


def _why_nothing(machine: Machine, asked: Sequence[Benchmark], notes: Sequence[str]) -> InputError:
    name = f"machine {machine.name!r}"
    if not machine.gpus and asked and all(b.needs_gpu for b in asked):
        return missing_part(
            machine,
            f"{name} has no GPU to copy to and from; 'lanescope bench host' measures host memory",
        )
    if not asked:
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
                raise InputError(
                    f"there is no {what} {index} in machine {machine.name!r}; it has {has}"
                )
