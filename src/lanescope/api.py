"""What Python programs and notebooks call; the command line calls the same."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from lanescope.backend.base import Backend
from lanescope.backend.memory import free_bytes
from lanescope.experiment import Experiment
from lanescope.experiment.cases import CaseOptions, build_cases, choose
from lanescope.experiment.fit import fitting_size
from lanescope.experiment.notation import DEFAULT_BYTES
from lanescope.experiment.requirements import (
    missing_part,
    require_fits,
    require_parts,
)
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.measurement.result import Result
from lanescope.measurement.sampling import Plan, measure_one
from lanescope.run.run import Run
from lanescope.running import (
    Progress,
    Setup,
    backend_for,
    resolve_machine,
    run_experiments,
)
from lanescope.studies.check import Check
from lanescope.studies.copy import Copies
from lanescope.studies.latency import Latency
from lanescope.studies.small import Small
from lanescope.studies.sms import Sms
from lanescope.studies.study import study_function
from lanescope.studies.sweep import Sweep

#: Measurements at the same time would share cores and links, and each would be too slow.
_measuring = threading.RLock()


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


check = study_function(Check)
copy = study_function(Copies)
latency = study_function(Latency)
sweep = study_function(Sweep)
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
