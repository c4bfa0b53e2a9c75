"""What Python programs and notebooks call; the command line calls the same."""

from __future__ import annotations

import dataclasses
import io
import threading
from dataclasses import dataclass
from typing import Any

from lanescope.calls import checked
from lanescope.copies import Experiment
from lanescope.copies.requirements import require_parts
from lanescope.document.blocks import Block, Drawing
from lanescope.engine.base import Backend
from lanescope.engine.sampling import Plan, measure_one
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.results import Result
from lanescope.studies import analysis_named, study_named
from lanescope.studies.analysis import AnalysisFunction, AnalysisResult, analysis_function
from lanescope.studies.running import backend_for, resolve_machine
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


@dataclass(frozen=True, slots=True, repr=False)
class Topology(AnalysisResult):
    """A machine: its text is a tree, a notebook shows its picture."""

    machine: Machine

    def __repr__(self) -> str:
        """Return the tree that ``lanescope topo`` prints."""
        from rich.console import Console

        from lanescope.report.terminal import machine_tree

        console = Console(file=io.StringIO(), width=120)
        with console.capture() as captured:
            console.print(machine_tree(self.machine))
        return captured.get().rstrip()

    def blocks(self) -> list[Block]:
        """Return the picture."""
        return [Drawing(self.svg(), wide=True)]

    def svg(self) -> str:
        """Return the picture as SVG."""
        from lanescope.report.topology_svg import topology_svg

        return topology_svg(self.machine)

    def as_dict(self) -> dict[str, Any]:
        """Return the machine as ``lanescope topo --json`` prints it."""
        return dataclasses.asdict(self.machine)


def topo(machine: Machine | StrPath | None = None) -> Topology:
    """Return what is in a machine and how it is linked.

    Parameters
    ----------
    machine
        None for this machine; a `Machine`, a machine file or a shipped name.

    Raises
    ------
    InputError
        If there is none of that name, or its file is damaged.
    """
    return Topology(resolve_machine(machine))
