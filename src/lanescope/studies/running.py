"""How a run goes: a machine, what measures it, and where the results are stored as they come."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lanescope import interruption
from lanescope._version import __version__
from lanescope.codec.fields import from_attributes
from lanescope.copies import Experiment
from lanescope.copies.experiment import Case
from lanescope.engine.base import Backend, GivesBack, ModelBackend, Nodes
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import InputError, argument
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.prediction.stored_parameters import with_contention
from lanescope.results import Result
from lanescope.store.folder import MANIFEST, SCHEMA_VERSION, State, new_or_temporary_folder
from lanescope.store.run import Manifest, Run, command_line
from lanescope.store.store import RunWriter, read_run
from lanescope.studies.taruc.parameters import SUITE

#: Told before each experiment: the experiment, its number from 1, and how many there are.
Progress = Callable[[Experiment, int, int], None]


def backend_for(
    machine: Machine,
    *,
    allow_busy: bool = False,
    affinity: bool = True,
    nodes: Nodes | None = None,
) -> Backend:
    """Return what runs experiments on a machine: itself, the nodes it is, or a prediction."""
    if nodes is not None:
        from lanescope.engine.native import NodesBackend

        return NodesBackend(nodes)
    if machine.described:
        return ModelBackend(machine)
    from lanescope.engine.native import NativeBackend

    return NativeBackend(machine, allow_busy=allow_busy, affinity=affinity)


def resolve_machine(machine: Machine | StrPath | None) -> Machine:
    """Return this machine for None, a described one for a file or a shipped name.

    This machine comes with the contention for host memory that its newest fit measured.

    Raises
    ------
    InputError
        If there is no such file or name, or no machine can be so.
    """
    from lanescope.machine import discover, machine_named
    from lanescope.machine.files import require_sound

    if machine is None:
        return with_contention(discover())
    if not isinstance(machine, Machine):
        return machine_named(os.fspath(machine))
    require_sound(machine)
    return machine


def machine_differences(
    found: Machine, expected: Machine | StrPath | None, gpus: int | None
) -> tuple[str, ...]:
    """Return how a machine differs from what is expected; a sentence each."""
    from lanescope.machine.several import differences, gpu_count_differences

    count = () if gpus is None else gpu_count_differences(gpus, found)
    others = () if expected is None else differences(resolve_machine(expected), found)
    return count + others


@dataclass(frozen=True, slots=True)
class Setup:
    """What a run is, apart from what it measures first.

    Attributes
    ----------
    then
        Told the results, it returns what to measure next.
    missing, unmeasured
        See `Manifest`.
    parameters
        Text of a suite's parameter file.
    resume
        Go on with the run in `out`, if there is one; see `run_to_resume`.
    nodes
        What the machine is, where it is several nodes.
    """

    verb: str
    allow_busy: bool
    out: StrPath | None
    progress: Progress | None
    affinity: bool = True
    notes: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    then: Callable[[Sequence[Result]], Sequence[Experiment]] | None = None
    parameters: str | None = None
    resume: bool = False
    missing: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    nodes: Nodes | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """Experiments that are measured by one plan."""

    experiments: Sequence[Experiment]
    plan: Plan


def run_stages(machine: Machine, stages: Sequence[Stage], setup: Setup) -> Run:
    """Measure experiments one after the other and store each result at once.

    What comes `then` takes the last plan. When interrupted, the run is closed as such before the
    interruption goes its way.
    """
    manifest = from_attributes(
        Manifest,
        setup,
        command=command_line(setup.verb),
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        tool_version=__version__,
        machine=machine,
    )
    names = [e.name for stage in stages for e in stage.experiments]
    writer, done = _writer(manifest, setup, names)
    if writer is None:
        return done
    finished = finished_names(done)
    numbers = {name: i for i, name in enumerate(names, start=1)}

    def on_start(experiment: Experiment) -> None:
        if setup.progress is not None:
            setup.progress(experiment, numbers[experiment.name], len(numbers))

    left = [_left(stage, finished, len(names)) for stage in stages]
    # What comes then is not known yet; the time that it shall have is taken for half as many.
    further = sum(len(one.experiments) for one in left)
    further += len(names) // 2 if setup.then is not None else 0
    try:
        backend = backend_for(
            machine, allow_busy=setup.allow_busy, affinity=setup.affinity, nodes=setup.nodes
        )
        for stage in left:
            further -= len(stage.experiments)
            late = measure_all(
                stage.experiments, backend, machine, stage.plan, writer.add, on_start, further
            )
            writer.add_all(late)
        if setup.then is not None:
            more = setup.then(writer.run.results)
            known = len(numbers)
            numbers |= {e.name: known + i for i, e in enumerate(more, start=1)}
            late = measure_all(more, backend, machine, left[-1].plan, writer.add, on_start)
            writer.add_all(late)
    except (KeyboardInterrupt, SystemExit):
        writer.finish(State.INTERRUPTED)
        interruption.note_run_folder(str(writer.folder))
        raise
    else:
        # Unpinning goes on while a command puts the run together and shows it. A program that
        # called us has its memory back on return.
        if interruption.began_at() is not None and isinstance(backend, GivesBack):
            backend.give_back()
        return writer.finish(State.COMPLETE)
    finally:
        writer.close()


def _left(stage: Stage, finished: Collection[str], cases: int) -> Stage:
    """Return what a stage has left to measure, and until when, for so many cases in all."""
    plan = stage.plan.begun()
    if plan.deadline is not None:
        plan = replace(plan, deadline=plan.deadline.before_the_end(cases))
    return Stage([e for e in stage.experiments if e.name not in finished], plan)


def _writer(manifest: Manifest, setup: Setup, names: Sequence[str]) -> tuple[RunWriter | None, Run]:
    """Return what writes the run, and what it holds; None where nothing is left to write."""
    out = None if setup.out is None else Path(setup.out)
    if setup.resume:
        stored = run_to_resume(out, manifest)
        if stored is not None:
            left = set(names) - finished_names(stored)
            if not left and stored.manifest.state is State.COMPLETE:
                return None, stored
            return RunWriter.resumed(stored), stored
    if out is None:
        out, note = new_or_temporary_folder(setup.verb)
        manifest = replace(manifest, notes=(*manifest.notes, *note))
    return RunWriter(out, manifest, resumable=manifest.verb == SUITE), Run(manifest)


def run_to_resume(folder: Path | None, manifest: Manifest) -> Run | None:
    """Return the run of a folder that a new one, told by its manifest, may go on with.

    None where the folder holds no run yet: then it begins there.

    Raises
    ------
    InputError
        If no folder is named, or its run is of another kind, machine, version or
        other parameters.
    """
    if folder is None:
        raise InputError(
            f"{argument.resume} goes on with a run folder; name it with {argument.out}"
        )
    if not (folder / MANIFEST).is_file():
        return None  # what else is in it, the writer will judge
    run = read_run(folder)
    before = run.manifest
    remedy = f"name another folder with {argument.out}"
    if before.schema_version != SCHEMA_VERSION:
        raise InputError(
            f"{folder} was written by lanescope {before.tool_version} in run schema "
            f"{before.schema_version}, this is {SCHEMA_VERSION}; {remedy}"
        )
    if before.verb != manifest.verb:
        raise InputError(
            f"{folder} is a run of {before.verb!r}, not of {manifest.verb!r}; {remedy}"
        )
    if other := _other_part(before.machine, manifest.machine):
        raise InputError(f"{folder} is a run of another machine ({other}); {remedy}")
    if (key := _other_parameter(before.parameters, manifest.parameters)) is not None:
        raise InputError(
            f"{folder} is a run with other parameters ({key}); {remedy}, or give it the same"
        )
    return run


def finished_names(run: Run) -> set[str]:
    """Return the experiments that need not be measured again.

    One that was cut off has few samples, and one that --within had no time for has none; what
    could not be measured is not tried again.
    """
    return {
        r.experiment.name
        for r in run.results
        if r.stop is None or r.stop.reason not in ("interrupted", "time")
    }


def _other_part(before: Machine, now: Machine) -> str | None:
    """Return how two machines differ; states of links and sizes of memory may change."""
    for what, mine, theirs in (
        ("name", before.name, now.name),
        ("CPU", before.cpu, now.cpu),
        ("driver", before.driver, now.driver),
        ("nodes", _nodes(before), _nodes(now)),
        ("GPUs", _gpus(before), _gpus(now)),
        ("kind", before.described, now.described),
    ):
        if mine != theirs:
            return f"its {what} differs"
    return None


def _nodes(machine: Machine) -> list[tuple[Any, ...]]:
    return [(node.index, node.cores) for node in machine.nodes]


def _gpus(machine: Machine) -> list[tuple[Any, ...]]:
    return [(gpu.index, gpu.name, gpu.uuid, gpu.pci_address) for gpu in machine.gpus]


def _other_parameter(before: str | None, now: str | None) -> str | None:
    """Return a parameter that differs; comments and the tag may."""
    old, new = _values(before), _values(now)
    differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    return differing[0] if differing else None


def _values(text: str | None) -> dict[str, Any]:
    """Return every parameter by section and key, those left out with their defaults."""
    if text is None:
        return {}
    from lanescope.studies.taruc.parameters import parse_parameters

    values: dict[str, Any] = {}
    for key, value in dataclasses.asdict(parse_parameters(text, "of the run")).items():
        inner = {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {}
        values |= inner or {key: value}
    values.pop("tag", None)
    return values
