"""What Python programs and notebooks call; the command line calls the same."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from lanescope._version import __version__
from lanescope.backend.base import Backend
from lanescope.backend.memory import free_bytes
from lanescope.backend.model import ModelBackend
from lanescope.errors import InputError
from lanescope.experiment import Experiment, Memory, Submission
from lanescope.experiment.case import Case
from lanescope.experiment.cases import CaseOptions, build_cases, choose
from lanescope.experiment.catalogue import (
    CHECK_BYTES,
    check_experiments,
    select,
    sweep_experiments,
)
from lanescope.experiment.experiment import experiment_of
from lanescope.experiment.fit import fitting_size, needed_bytes
from lanescope.experiment.grammar import parse_copies
from lanescope.experiment.notation import DEFAULT_BYTES
from lanescope.experiment.sm import sm_shapes
from lanescope.experiment.small import COUNTS, small_experiments, stepped_sizes
from lanescope.experiment.sms import paced_experiments, sms_experiments
from lanescope.machine import Gpu, Machine
from lanescope.measurement.result import Result
from lanescope.measurement.sampling import Plan, measure_all, measure_one
from lanescope.model.sms import sm_curves
from lanescope.run.folders import new_run_folder
from lanescope.run.run import Manifest, Run, State
from lanescope.run.store import RunWriter

#: Told before each experiment: the experiment, its number from 1, and how many there are.
Progress = Callable[[Experiment, int, int], None]


def backend_for(machine: Machine, *, allow_busy: bool = False, affinity: bool = True) -> Backend:
    """Return what runs experiments on a machine: itself, or a prediction."""
    if machine.described:
        return ModelBackend(machine)
    from lanescope.backend.native import NativeBackend

    return NativeBackend(machine, allow_busy=allow_busy, affinity=affinity)


def resolve_machine(machine: Machine | str | None) -> Machine:
    """Return this machine for None, a described one for a file or a shipped name."""
    from lanescope.machine import discover, machine_named

    if machine is None:
        return discover()
    return machine_named(machine) if isinstance(machine, str) else machine


def check(
    machine: Machine | str | None = None,
    *,
    cases: Sequence[str] = (),
    size_bytes: int = CHECK_BYTES,
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Measure every path of a machine and judge it.

    Parameters
    ----------
    machine
        None for this machine; a `Machine`, a machine file or a shipped name
        for a described one, whose results are predicted.
    cases
        Patterns of experiment names such as ``h2d/*``; all for none.
    size_bytes
        Size of one copy to, from or between GPUs.
    plan
        How precisely to measure.
    allow_busy
        Measure GPUs that other processes use, too.
    out
        Run folder; None makes one under the runs folder.
    progress
        Called before each experiment.

    Returns
    -------
    Run
        Stored as it grows: a killed check can be read back from its folder.

    Raises
    ------
    InputError
        If an argument cannot be used or the folder cannot be written.

    Examples
    --------
    >>> run = check("h200-x2", cases=["h2d/g0"])  # doctest: +SKIP
    >>> run.results[0].copies[0].gbs  # doctest: +SKIP
    58.45...
    """
    resolved = resolve_machine(machine)
    _require_fits(resolved, size_bytes)
    experiments = select(check_experiments(resolved, size_bytes), cases)
    if not experiments:
        raise InputError(f"machine {resolved.name!r} has no path to measure; give it nodes or GPUs")
    setup = _Setup("check", allow_busy, out, progress)
    return _run(resolved, experiments, plan or Plan(), setup)


def sweep(
    machine: Machine | str | None = None,
    *,
    sizes: Sequence[int] | None = None,
    gpus: Sequence[int] | None = None,
    memories: Sequence[Memory] = (Memory.PINNED, Memory.PAGEABLE),
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Measure copies of many sizes between host and GPU, each way.

    Parameters
    ----------
    sizes
        Bytes; None doubles from 16 B to 2 GiB or what memory allows.
    gpus
        Numbers of the GPUs; None takes the first.
    memories
        Kinds of host memory.

    The other parameters and the result are those of `check`.
    """
    resolved = resolve_machine(machine)
    chosen = _gpus(resolved, gpus)
    if sizes is None:
        from lanescope.experiment.sizes import doubling_sizes

        sizes = doubling_sizes(16, largest_sweep_bytes(resolved, chosen))
    experiments = sweep_experiments(resolved, chosen, sizes, memories)
    setup = _Setup("sweep", allow_busy, out, progress)
    return _run(resolved, experiments, plan or Plan(budget_seconds=0.2), setup)


def bench(
    machine: Machine | str | None = None,
    *,
    cases: Sequence[str] = (),
    prefixes: Sequence[str] = (),
    options: CaseOptions | None = None,
    plan: Plan | None = None,
    allow_busy: bool = False,
    affinity: bool = True,
    out: Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Measure cases of nvbandwidth: copy engines and kernels, one way, both ways, all at once.

    A set of copies that several cases share is measured once. Copies that do not
    fit into memory are made smaller; the run's notes say so.

    Parameters
    ----------
    cases
        Names or numbers of `lanescope.experiment.cases.case_list`; all for none.
    prefixes
        Beginnings of such names.
    options
        Size and kind of memory.
    affinity
        Bind submitting threads to the CPUs next to the memory.

    The other parameters and the result are those of `check`.
    """
    resolved = resolve_machine(machine)
    names = choose(cases, prefixes)
    if not resolved.gpus:
        raise InputError(
            f"machine {resolved.name!r} has no GPU, and every case takes one; 'lanescope check' "
            "measures host memory, --machine works on a described machine"
        )
    wanted = options or CaseOptions()
    size, notes = fitting_size(
        wanted.bytes,
        lambda size: build_cases(resolved, names, replace(wanted, bytes=size)).experiments,
        free_bytes(resolved),
    )
    built = build_cases(resolved, names, replace(wanted, bytes=size))
    setup = _Setup("bench", allow_busy, out, progress, affinity, notes, built.cases)
    return _run(resolved, built.experiments, plan or Plan(), setup)


def copy(
    copies: str,
    machine: Machine | str | None = None,
    *,
    size_bytes: int = DEFAULT_BYTES,
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Measure copies that run at the same time, given as text.

    Parameters
    ----------
    copies
        Such as ``h0 -> g0 @ce, g1 -> h0 @sm:16``; see `lanescope.experiment.grammar`.
    size_bytes
        Size of a copy that names none.

    The other parameters and the result are those of `check`.

    Raises
    ------
    InputError
        If the text means nothing or contradicts itself; nothing is allocated then.
    """
    resolved = resolve_machine(machine)
    experiment = experiment_of(parse_copies(copies, resolved, size_bytes))
    sm_shapes(experiment.copies, resolved)
    _require_room(resolved, experiment)
    setup = _Setup("copy", allow_busy, out, progress)
    return _run(resolved, [experiment], plan or Plan(), setup)


def latency(
    machine: Machine | None = None,
    *,
    gpus: Sequence[int] | None = None,
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Measure the latencies of GPUs: loads, calls and round trips, alone and under load.

    Parameters
    ----------
    gpus
        Numbers of the GPUs; None takes the first.

    The other parameters and the result are those of `check`. Latencies are not
    predicted, so that a described machine has none.
    """
    from lanescope.experiment.latency import latency_experiments

    resolved = resolve_machine(machine)
    if resolved.described:
        raise InputError(f"machine {resolved.name!r} is described; latencies are only measured")
    if not resolved.gpus:
        raise InputError(
            f"machine {resolved.name!r} has no GPU to take latencies of; "
            "'lanescope check' measures host memory"
        )
    experiments = latency_experiments(resolved, _gpus(resolved, gpus))
    plan = plan or Plan(budget_seconds=0.5)
    return _run(resolved, experiments, plan, _Setup("latency", allow_busy, out, progress))


def small(
    machine: Machine | None = None,
    *,
    sizes: Sequence[int] | None = None,
    counts: Sequence[int] = COUNTS,
    methods: Sequence[Submission] = tuple(Submission),
    gpus: Sequence[int] | None = None,
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Map small copies between host and GPU, each way; see `small_experiments`.

    Parameters
    ----------
    sizes
        Bytes of a piece; None goes from 4 B to 4 MiB by steps of four.
    counts
        Numbers of pieces.
    methods
        Ways of handing them over.
    gpus
        Numbers of the GPUs; None takes the first.

    The other parameters and the result are those of `check`. A described machine
    cannot be mapped: nothing predicts what a call costs.
    """
    resolved = resolve_machine(machine)
    if not resolved.gpus or resolved.described:
        raise InputError(
            f"machine {resolved.name!r} has no GPU here to copy to and from; "
            "'lanescope check' measures host memory"
        )
    chosen = stepped_sizes() if sizes is None else sizes
    experiments = small_experiments(resolved, _gpus(resolved, gpus), chosen, counts, methods)
    setup = _Setup("small", allow_busy, out, progress)
    return _run(resolved, experiments, plan or Plan(0.01, 0.05), setup)


def sms(
    machine: Machine | None = None,
    *,
    gpus: Sequence[int] | None = None,
    size_bytes: int = DEFAULT_BYTES,
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Find the fewest SMs that fill each path of some GPUs; see `lanescope.model.sms`.

    Parameters
    ----------
    gpus
        Numbers of the GPUs; None takes the first.
    size_bytes
        Size of each copy.

    The other parameters and the result are those of `check`.
    """
    resolved = resolve_machine(machine)
    if not resolved.gpus or resolved.described:
        raise InputError(
            f"machine {resolved.name!r} has no GPU here whose SMs could copy; "
            "'lanescope check' measures host memory"
        )
    experiments = sms_experiments(resolved, _gpus(resolved, gpus), size_bytes)

    def then(results: Sequence[Result]) -> Sequence[Experiment]:
        plateaus = {curve.way: curve.plateau_gbs for curve in sm_curves(results)}
        return paced_experiments(resolved, plateaus, size_bytes)

    setup = _Setup("sms", allow_busy, out, progress, then=then)
    return _run(resolved, experiments, plan or Plan(budget_seconds=0.3), setup)


def measure(
    experiment: Experiment,
    machine: Machine | str | None = None,
    *,
    backend: Backend | None = None,
    plan: Plan | None = None,
) -> Result:
    """Measure one experiment and return its result.

    Parameters
    ----------
    experiment
        Copies that run at the same time.
    machine
        See `check`.
    backend
        What runs it; None chooses by the machine.
    plan
        How precisely to measure.

    Raises
    ------
    InputError
        If the machine has not the parts that the experiment names.
    """
    resolved = resolve_machine(machine)
    _require_parts(resolved, experiment)
    results: list[Result] = []
    chosen = backend or backend_for(resolved)
    measure_one(experiment, chosen, resolved, plan or Plan(), results.append)
    return results[0]


def largest_sweep_bytes(machine: Machine, gpus: Sequence[Gpu]) -> int:
    """Return 2 GiB, or less where a quarter of some memory is less."""
    sizes = [2 << 30]
    sizes += [gpu.memory_bytes // 4 for gpu in gpus if gpu.memory_bytes is not None]
    if machine.described:
        sizes += [node.memory_bytes // 4 for node in machine.nodes if node.memory_bytes]
    else:
        from lanescope.backend.memory import available_host_bytes

        sizes += [(available_host_bytes() or sizes[0] * 4) // 4]
    return min(sizes)


def _require_parts(machine: Machine, experiment: Experiment) -> None:
    known = [n.id for n in machine.nodes] + [g.id for g in machine.gpus]
    for copy in experiment.copies:
        for part in (copy.source.part, copy.destination.part):
            if part not in known:
                raise InputError(
                    f"there is no {part} in machine {machine.name!r}; it has {', '.join(known)}"
                )


def _require_fits(machine: Machine, size_bytes: int) -> None:
    """Refuse copies that no memory on their way could hold twice, there and back at once."""
    for gpu in machine.gpus:
        node = machine.nearest_node(gpu)
        for part, memory in ((gpu.id, gpu.memory_bytes), (node.id, node.memory_bytes)):
            if memory is not None and size_bytes > memory // 2:
                raise InputError(
                    f"a copy of {size_bytes >> 20} MiB does not fit twice into the "
                    f"{memory >> 20} MiB of {part}; give a smaller size"
                )


def _require_room(machine: Machine, experiment: Experiment) -> None:
    """Refuse copies that together take more memory than a part of the machine has."""
    sizes = {node.id: node.memory_bytes for node in machine.nodes}
    sizes |= {gpu.id: gpu.memory_bytes for gpu in machine.gpus}
    for part, needed in needed_bytes([experiment]).items():
        memory = sizes[part]
        if memory is not None and needed > memory:
            raise InputError(
                f"the copies take {needed >> 20} MiB of {part} at once, which has "
                f"{memory >> 20} MiB; give smaller sizes"
            )


def _gpus(machine: Machine, indices: Sequence[int] | None) -> list[Gpu]:
    """The GPUs with these numbers, each once; the first one for None."""
    if not machine.gpus:
        raise InputError(
            f"machine {machine.name!r} has no GPU to sweep; "
            "'lanescope check' measures host memory, --machine works on a described machine"
        )
    known = {gpu.index: gpu for gpu in machine.gpus}
    wanted = [machine.gpus[0].index] if indices is None else indices
    for index in wanted:
        if index not in known:
            numbers = ", ".join(map(str, known))
            raise InputError(
                f"there is no GPU {index} in machine {machine.name!r}; it has {numbers}"
            )
    return [known[index] for index in dict.fromkeys(wanted)]


@dataclass(frozen=True, slots=True)
class _Setup:
    """What a run is, apart from what it measures first.

    Attributes
    ----------
    then
        Told the results, it returns what to measure next.
    """

    verb: str
    allow_busy: bool
    out: Path | None
    progress: Progress | None
    affinity: bool = True
    notes: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    then: Callable[[Sequence[Result]], Sequence[Experiment]] | None = None


def _run(machine: Machine, experiments: Sequence[Experiment], plan: Plan, setup: _Setup) -> Run:
    manifest = Manifest(
        verb=setup.verb,
        command=_command(setup.verb),
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        tool_version=__version__,
        machine=machine,
        notes=setup.notes,
        cases=setup.cases,
    )
    writer = RunWriter(setup.out or new_run_folder(setup.verb), manifest)
    numbers = {e.name: i for i, e in enumerate(experiments, start=1)}

    def on_start(experiment: Experiment) -> None:
        if setup.progress is not None:
            setup.progress(experiment, numbers[experiment.name], len(numbers))

    try:
        backend = backend_for(machine, allow_busy=setup.allow_busy, affinity=setup.affinity)
        measure_all(experiments, backend, machine, plan, writer.add, on_start)
        if setup.then is not None:
            further = setup.then(writer.run.results)
            known = len(numbers)
            numbers |= {e.name: known + i for i, e in enumerate(further, start=1)}
            measure_all(further, backend, machine, plan, writer.add, on_start)
    except (KeyboardInterrupt, SystemExit):
        writer.finish(State.INTERRUPTED)
        raise
    return writer.finish(State.COMPLETE)


def _command(verb: str) -> str:
    if Path(sys.argv[0]).name in ("lanescope", "__main__.py"):
        return shlex.join(["lanescope", *sys.argv[1:]])
    return f"lanescope.{verb}()"
