"""What Python programs and notebooks call; the command line calls the same."""

from __future__ import annotations

import threading

from lanescope.backend.base import Backend
from lanescope.experiment import Experiment
from lanescope.experiment.requirements import (
    require_parts,
)
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.measurement.result import Result
from lanescope.measurement.sampling import Plan, measure_one
from lanescope.running import (
    backend_for,
    resolve_machine,
)
from lanescope.studies.check import Check
from lanescope.studies.copy import Copies
from lanescope.studies.latency import Latency
from lanescope.studies.nvbandwidth import Bench
from lanescope.studies.small import Small
from lanescope.studies.sms import Sms
from lanescope.studies.study import study_function
from lanescope.studies.sweep import Sweep

#: Measurements at the same time would share cores and links, and each would be too slow.
_measuring = threading.RLock()


bench = study_function(Bench)
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
