"""What Python programs and notebooks call; the command line calls the same."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from lanescope.backend.base import Backend
from lanescope.backend.memory import free_bytes
from lanescope.errors import InputError
from lanescope.experiment import Experiment, Memory
from lanescope.experiment.cases import CaseOptions, build_cases, choose
from lanescope.experiment.catalogue import (
    CHECK_BYTES,
    select_cases,
    sweep_experiments,
)
from lanescope.experiment.experiment import experiment_of
from lanescope.experiment.fit import fitting_size
from lanescope.experiment.grammar import parse_copies
from lanescope.experiment.notation import DEFAULT_BYTES
from lanescope.experiment.requirements import (
    chosen_gpus,
    largest_sweep_bytes,
    missing_part,
    require_fits,
    require_parts,
    require_room,
)
from lanescope.experiment.sizes import Size, doubling_sizes, size_of
from lanescope.experiment.sm import sm_shapes
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.measurement.result import Result
from lanescope.measurement.sampling import Plan, measure_one
from lanescope.run.run import Run
from lanescope.running import (
    Progress,
    Setup,
    backend_for,
    machine_differences,
    resolve_machine,
    run_experiments,
)
from lanescope.studies.small import Small
from lanescope.studies.sms import Sms
from lanescope.studies.study import study_function

#: Measurements at the same time would share cores and links, and each would be too slow.
_measuring = threading.RLock()


def check(
    machine: Machine | StrPath | None = None,
    *,
    cases: Sequence[str] = (),
    size_bytes: Size = CHECK_BYTES,
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: StrPath | None = None,
    progress: Progress | None = None,
    expected: Machine | StrPath | None = None,
    expected_gpus: int | None = None,
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
    expected
        What the machine should be like: a `Machine`, a machine file or a shipped name.
        Differences are in the run's manifest, as `missing`.
    expected_gpus
        How many GPUs there should be that can be used.

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
    plan = (plan or Plan()).begun()
    resolved = resolve_machine(machine)
    size = size_of(size_bytes)
    require_fits(resolved, size)
    experiments = select_cases(resolved, size, cases)
    if not experiments:
        raise InputError(f"machine {resolved.name!r} has no path to measure; give it nodes or GPUs")
    setup = Setup(
        "check",
        allow_busy,
        out,
        progress,
        missing=machine_differences(resolved, expected, expected_gpus),
        unmeasured=() if resolved.gpus or cases or resolved.described else resolved.notes[:1],
    )
    return run_experiments(resolved, experiments, plan, setup)


def sweep(
    machine: Machine | StrPath | None = None,
    *,
    sizes: Sequence[Size] | None = None,
    gpus: int | Sequence[int] | None = None,
    memories: Sequence[Memory] = (Memory.PINNED, Memory.PAGEABLE),
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: StrPath | None = None,
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
    plan = (plan or Plan(budget_seconds=0.2)).begun()
    resolved = resolve_machine(machine)
    chosen = chosen_gpus(resolved, gpus)
    if sizes is None:
        wanted = doubling_sizes(16, largest_sweep_bytes(resolved, chosen))
    else:
        wanted = tuple(size_of(size) for size in sizes)
        require_fits(resolved, max(wanted, default=0), chosen)
    experiments = sweep_experiments(resolved, chosen, wanted, memories)
    setup = Setup("sweep", allow_busy, out, progress)
    return run_experiments(resolved, experiments, plan, setup)


def bench(
    machine: Machine | StrPath | None = None,
    *,
    cases: Sequence[str] = (),
    prefixes: Sequence[str] = (),
    options: CaseOptions | None = None,
    plan: Plan | None = None,
    allow_busy: bool = False,
    affinity: bool = True,
    out: StrPath | None = None,
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
    plan = (plan or Plan(budget_seconds=0.4)).begun()
    resolved = resolve_machine(machine)
    names = choose(cases, prefixes)
    if not resolved.gpus:
        raise missing_part(
            resolved,
            f"machine {resolved.name!r} has no GPU, and every case takes one; 'lanescope check' "
            "measures host memory, --machine works on a described machine",
        )
    wanted = options or CaseOptions()
    if wanted.bytes != DEFAULT_BYTES:  # what somebody chose does not shrink
        require_fits(resolved, wanted.bytes)
    size, notes = fitting_size(
        wanted.bytes,
        lambda size: build_cases(resolved, names, replace(wanted, bytes=size)).experiments,
        free_bytes(resolved),
    )
    built = build_cases(resolved, names, replace(wanted, bytes=size))
    setup = Setup("bench", allow_busy, out, progress, affinity, notes, built.cases)
    return run_experiments(resolved, built.experiments, plan, setup)


def copy(
    copies: str,
    machine: Machine | StrPath | None = None,
    *,
    size_bytes: Size = DEFAULT_BYTES,
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: StrPath | None = None,
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
    plan = (plan or Plan()).begun()
    resolved = resolve_machine(machine)
    experiment = experiment_of(parse_copies(copies, resolved, size_of(size_bytes)))
    sm_shapes(experiment.copies, resolved)
    require_room(resolved, experiment)
    setup = Setup("copy", allow_busy, out, progress)
    return run_experiments(resolved, [experiment], plan, setup)


def latency(
    machine: Machine | StrPath | None = None,
    *,
    gpus: int | Sequence[int] | None = None,
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: StrPath | None = None,
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

    plan = (plan or Plan(budget_seconds=0.5)).begun()
    resolved = resolve_machine(machine)
    if resolved.described:
        raise InputError(f"machine {resolved.name!r} is described; latencies are only measured")
    if not resolved.gpus:
        raise missing_part(
            resolved,
            f"machine {resolved.name!r} has no GPU to take latencies of; "
            "'lanescope check' measures host memory",
        )
    experiments = latency_experiments(resolved, chosen_gpus(resolved, gpus))
    return run_experiments(resolved, experiments, plan, Setup("latency", allow_busy, out, progress))


small = study_function(Small)
sms = study_function(Sms)


def measure(
    experiment: Experiment,
    machine: Machine | StrPath | None = None,
    *,
    backend: Backend | None = None,
    plan: Plan | None = None,
) -> Result:
    """Measure one experiment and return its result.

    Of several threads that call this, one measures at a time and the others wait.

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
    require_parts(resolved, experiment)
    results: list[Result] = []
    with _measuring:
        chosen = backend or backend_for(resolved)
        measure_one(experiment, chosen, resolved, (plan or Plan()).begun(), results.append)
    return results[0]
