"""What a study is, and how its options become a command line and a Python call.

A study is a frozen dataclass. Its fields are its options: each is annotated with its type, for
Python programs, and with an `Option`, for the command line. It plans experiments, may plan more
once these are measured, and says what the results mean: in one sentence, and as a report.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

from lanescope.codec.fields import from_attributes
from lanescope.copies import Experiment
from lanescope.copies.experiment import Case
from lanescope.document.blocks import Section
from lanescope.engine.base import Nodes
from lanescope.engine.sampling import Plan
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.results import Result
from lanescope.store.run import Run
from lanescope.studies import Argument as Argument
from lanescope.studies import Option as Option
from lanescope.studies import as_function, fields_of, parameter_of
from lanescope.studies import options_of as options_of
from lanescope.studies.running import Progress, Setup, Stage, resolve_machine, run_stages


@dataclass(frozen=True, slots=True)
class Work:
    """What a study measures on a machine.

    Attributes
    ----------
    stages
        Instead of `experiments`, some with a number of samples of their own.
    notes, cases, missing, unmeasured, parameters
        See `lanescope.store.run.Manifest`.
    affinity
        Whether submitting threads are bound to the CPUs next to the memory.
    """

    experiments: Sequence[Experiment] = ()
    stages: tuple[tuple[Sequence[Experiment], int | None], ...] = ()
    parameters: str | None = None
    notes: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    missing: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    affinity: bool = True


class Listing(NamedTuple):
    """What a study would measure, a line each, and what to know of it."""

    lines: Sequence[str]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Study:
    """Something to find out about a machine.

    Attributes
    ----------
    verb
        Its name on the command line, and in run folders.
    title
        The heading of its report, before `` of`` and the machine's name.
    sampling
        How precisely to measure where nobody says it.
    of_what
        What gets the sampling time, for the help: ``one kernel``.
    predicted
        Whether it can be carried out for a described machine.
    judges_paths
        Whether its results stand for the paths that were measured; otherwise reports list those
        paths only that could not be.
    takes_samples
        Whether the command line takes a number of samples.
    listable
        Whether the command line can list what it would measure; see `listing`.
    estimates
        Whether a listing says how long each takes, and picture files of the run are made.
    """

    verb: ClassVar[str]
    title: ClassVar[str]
    sampling: ClassVar[Plan] = Plan()
    of_what: ClassVar[str] = "one case"
    predicted: ClassVar[bool] = True
    judges_paths: ClassVar[bool] = True
    takes_samples: ClassVar[bool] = False
    listable: ClassVar[bool] = False
    estimates: ClassVar[bool] = False

    def work(self, machine: Machine) -> Work:
        """Return what to measure.

        Raises
        ------
        InputError
            If the machine has not what it takes, or an option does not fit it.
        """
        raise NotImplementedError

    def names_nodes(self) -> bool:
        """Whether its parts are named by their nodes, even where there is but one."""
        return False

    def spans_nodes(self) -> bool:
        """Whether GPUs of all nodes take part that MPI starts it on, each by its own process."""
        return self.names_nodes()

    def further(self, machine: Machine, results: Sequence[Result]) -> Sequence[Experiment]:
        """Return what to measure next, once there are results; nothing as a rule."""
        return ()

    def listing(self, machine: Machine, plan: Plan) -> Listing:
        """Return a line for each of what it would measure."""
        raise NotImplementedError

    @classmethod
    def conclusion(cls, run: Run) -> str | None:
        """Return what a run found in a sentence; None where its verdicts say it all."""
        return None

    @classmethod
    def report(cls, run: Run) -> Sequence[Section]:
        """Return what a run found beside its paths and latencies, which every report shows."""
        return ()


def run_study(
    study: Study,
    machine: Machine | StrPath | None = None,
    *,
    plan: Plan | None = None,
    allow_busy: bool = False,
    out: StrPath | None = None,
    progress: Progress | None = None,
    resume: bool = False,
    verb: str = "",
    nodes: Nodes | None = None,
) -> Run:
    """Carry out a study and return its run; see `lanescope.check` for most parameters.

    Parameters
    ----------
    resume
        Go on with the run in `out`: what it holds is not measured again.
    verb
        What the run is called, where that is not the study's name.
    nodes
        What it is carried out on, instead of a machine.
    """
    plan = (plan or study.sampling).begun()
    resolved = resolve_machine(machine) if nodes is None else nodes.machine
    work = study.work(resolved)

    def then(results: Sequence[Result]) -> Sequence[Experiment]:
        return study.further(resolved, results)

    plans_more = type(study).further is not Study.further
    setup = from_attributes(
        Setup,
        work,
        verb=verb or study.verb,
        allow_busy=allow_busy,
        out=out,
        progress=progress,
        then=then if plans_more else None,
        resume=resume,
        nodes=nodes,
    )
    stages = [
        Stage(experiments, plan if samples is None else replace(plan, samples=samples))
        for experiments, samples in work.stages or ((work.experiments, None),)
    ]
    return run_stages(resolved, stages, setup)


#: Parameters that no Python program gives.
_OF_COMMANDS = ("resume", "verb", "nodes")
_COMMON = """
    machine
        None for this machine; a `Machine`, a machine file or a shipped name
        for a described one, whose results are predicted.
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
        Stored as it grows: a killed run can be read back from its folder.

    Raises
    ------
    InputError
        If an argument cannot be used or the folder cannot be written.
    """


class StudyFunction(Protocol):
    """A study as a function."""

    def __call__(self, *positional: Any, **options: Any) -> Run:
        """Carry it out."""


def study_function(study: type[Study]) -> StudyFunction:
    """Return a study as a function, with its options and those of every study as parameters."""
    shared = inspect.signature(run_study, eval_str=True).parameters
    _, machine, *others = (p for name, p in shared.items() if name not in _OF_COMMANDS)
    own = [parameter_of(*one[:3]) for one in fields_of(study)]
    first = [one for one in own if one.default is inspect.Parameter.empty]
    parameters = [*first, machine, *(one for one in own if one not in first), *others]

    def call(*positional: Any, **given: Any) -> Run:
        given |= zip((one.name for one in (*first, machine)), positional, strict=False)
        own_names = {one.name for one in own}
        common = {name: given.pop(name) for name in list(given) if name not in own_names}
        return run_study(study(**given), **common)

    about = re.sub(r"Attributes\n    -+", "Parameters\n    ----------", study.__doc__ or "")
    call.__name__ = call.__qualname__ = study.verb
    call.__doc__ = about.rstrip() + _COMMON
    as_function(call, parameters, Run)
    return call
