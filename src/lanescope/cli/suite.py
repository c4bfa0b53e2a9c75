"""What the micro-benchmarks of TARUC and their suite share: plan, list, run, show."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lanescope.cli.combinations import LISTED, ONE_FORMAT, PREDICTED, Excludes
from lanescope.cli.options import plan_of
from lanescope.errors import InputError

if TYPE_CHECKING:
    from lanescope.experiment.taruc import Benchmark, Only, Parameters

#: What goes together in each of them.
SUITE_RULES = (
    ONE_FORMAT,
    PREDICTED,
    Excludes("--list", ("--json", "--csv", "--out", "--strict", "--allow-busy"), LISTED),
)


@dataclass(frozen=True, slots=True)
class Common:
    """The options of every micro-benchmark, as they were given."""

    machine: str | None
    out: Path | None
    budget: float
    target: float
    within: int | None
    list_points: bool
    json: bool
    csv: bool
    strict: bool
    allow_busy: bool
    resume: bool = False


def sized(name: str, smallest: int | None, largest: int | None, steps: int, **more: Any) -> Any:
    """Return parameters with the range of one micro-benchmark.

    Raises
    ------
    InputError
        If the range is empty.
    """
    from lanescope.experiment.sizes import size_text
    from lanescope.experiment.taruc import Parameters

    default = Parameters()
    section = getattr(default, name)
    first, last = smallest or section.min_bytes, largest or section.max_bytes
    if first > last:
        raise InputError(
            f"sizes go from --min {size_text(first)} to --max {size_text(last)}, which is less; "
            "give both, the smaller one as --min"
        )
    ranged = replace(section, min_bytes=first, max_bytes=last, **more)
    return replace(default, tag=name, steps_per_decade=steps, **{name: ranged})


def run_benchmarks(
    parameters: Parameters | str | None,
    benchmarks: tuple[Benchmark, ...] | None,
    only: Only | None,
    common: Common,
) -> None:
    """Run micro-benchmarks, or list their points; ends with an exit code."""
    from lanescope import suites
    from lanescope.cli.output import progress_on_terminal, show_run, write_plots

    if common.resume and not common.list_points:
        _note_new(common.out)
    plan = plan_of(common.target, common.budget, common.within)
    if common.list_points:
        _list(parameters, benchmarks, only, common.machine, plan)
        return
    before = _results_before(common) if common.resume else 0
    with progress_on_terminal() as progress:
        run = suites.taruc(
            common.machine,
            parameters=parameters,
            benchmarks=benchmarks,
            only=only,
            plan=plan,
            allow_busy=common.allow_busy,
            out=common.out,
            resume=common.resume,
            progress=progress,
        )
    finished = bool(before) and len(run.results) == before
    if finished:
        print(f"nothing is left to measure: {common.out} holds all points", file=sys.stderr)
    if common.within is not None:
        print(
            f"no plots: --within has no time for them; 'lanescope report {run.folder} --plots DIR' "
            "draws them",
            file=sys.stderr,
        )
    elif not run.manifest.machine.described:
        write_plots(run)
    raise typer.Exit(show_run(run, json=common.json, csv=common.csv, strict=common.strict))


def _note_new(folder: Path | None) -> None:
    """Say that a run begins where --resume finds none, as it may be a slip of the pen."""
    from lanescope.run.store import MANIFEST

    if folder is not None and not (folder / MANIFEST).is_file():
        print(f"note: there is no run in {folder} to go on with: it is begun", file=sys.stderr)


def _results_before(common: Common) -> int:
    """Return the points of a finished run in the folder that a run is to go on with."""
    from lanescope.run.run import State
    from lanescope.run.store import MANIFEST, read_run

    if common.out is None or not (common.out / MANIFEST).is_file():
        return 0
    stored = read_run(common.out)
    return len(stored.results) if stored.manifest.state is State.COMPLETE else 0


def _list(parameters: Any, benchmarks: Any, only: Any, machine: str | None, plan: Any) -> None:
    from lanescope import suites
    from lanescope.experiment.taruc.estimate import point_seconds, seconds_text, suite_seconds
    from lanescope.running import resolve_machine

    resolved = resolve_machine(machine)
    wanted = suites.parameter_file(parameters).parameters
    sections = suites.suite_sections(resolved, wanted, benchmarks, only)
    for section in sections:
        for experiment in section.experiments:
            seconds = point_seconds(resolved, experiment, plan.budget_seconds, section.samples)
            print(f"{experiment.name:56} {seconds:7.2f} s  {experiment.title}")
    for note in suites.suite_notes(resolved, sections):
        print(f"note: {note}", file=sys.stderr)
    count = sum(len(section.experiments) for section in sections)
    seconds = suite_seconds(resolved, sections, plan.budget_seconds)
    print(f"{count} points, {seconds_text(seconds)} by rule of thumb", file=sys.stderr)
