"""What Python programs and notebooks call; the command line calls the same."""

from __future__ import annotations

import threading

from lanescope.calls import checked
from lanescope.copies import Experiment
from lanescope.copies.requirements import (
    require_parts,
)
from lanescope.engine.base import Backend
from lanescope.engine.sampling import Plan, measure_one
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.results.result import Result
from lanescope.studies.analysis import AnalysisFunction, analysis_function
from lanescope.studies.registry import analysis_named, study_named
from lanescope.studies.running import (
    backend_for,
    resolve_machine,
)
from lanescope.studies.study import StudyFunction, study_function

#: Measurements at the same time would share cores and links, and each would be too slow.
_measuring = threading.RLock()


def __getattr__(name: str) -> StudyFunction | AnalysisFunction:
    """Return a study or an analysis as a function."""
    made: StudyFunction | AnalysisFunction
    if (study := study_named(name)) is not None:
        made = checked(study_function(study))
    elif (analysis := analysis_named(name)) is not None:
        made = checked(analysis_function(analysis))
    else:
        raise AttributeError(f"module 'lanescope.api' has no attribute {name!r}")
    globals()[name] = made
    return made


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
