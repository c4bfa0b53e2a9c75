"""What the micro-benchmarks of TARUC and their suite share: plan, list, run, show."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lanescope.cli.options import plan_of, require_one_format
from lanescope.errors import InputError

if TYPE_CHECKING:
    from lanescope.experiment.taruc import Benchmark, Only, Parameters

#: Sampling time for one point, and the half-width that ends it sooner.
BUDGET, TARGET = 0.03, "1%"


@dataclass(frozen=True, slots=True)
class Common:
    """The options of every micro-benchmark, as they were given."""

    machine: str | None
    out: Path | None
    budget: float
    target: str
    within: str | None
    list_points: bool
    json: bool
    csv: bool
    strict: bool
    allow_busy: bool
    resume: bool = False


def sized(name: str, smallest: str | None, largest: str | None, steps: int, **more: Any) -> Any:
    """Return parameters with the range of one micro-benchmark, from texts."""
    from lanescope.cli.suite_options import size
    from lanescope.experiment.taruc import Parameters

    default = Parameters()
    section = getattr(default, name)
    ranged = replace(
        section,
        min_bytes=size(smallest) or section.min_bytes,
        max_bytes=size(largest) or section.max_bytes,
        **more,
    )
    return replace(default, tag=name, steps_per_decade=steps, **{name: ranged})


def run_benchmarks(
    parameters: Parameters | str | None,
    benchmarks: tuple[Benchmark, ...] | None,
    only: Only | None,
    common: Common,
) -> None:
    """Run micro-benchmarks, or list their points; ends with an exit code."""
    from lanescope import suites
    from lanescope.cli.output import exit_code, progress_on_terminal, show_run, write_plots

    require_one_format(common.json, common.csv)
    if common.resume and common.out is None:
        raise InputError("--resume goes on with a run folder; name it with --out")
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
    show_run(run, json=common.json, csv=common.csv, strict=common.strict)
    raise typer.Exit(exit_code(run, strict=common.strict))


#: What options of ``bench`` a suite takes, too.
_OF_SUITES = frozenset(
    (
        *("params", "resume", "list_cases", "budget", "target", "within", "machine", "out", "json"),
        *("csv", "strict", "allow_busy"),
    )
)


def run_suite(parameters: str | None, given: set[str], common: Common) -> None:
    """Run the suite of ``bench --params``; `given` are the options that were named.

    Raises
    ------
    InputError
        If there are options of cases among them.
    """
    if parameters is None:
        raise InputError("--resume goes on with a suite; name its parameter file with --params")
    if of_cases := sorted(given - _OF_SUITES):
        raise InputError(
            f"--params runs a suite and {_option(of_cases[0])} belongs to nvbandwidth's cases; "
            "leave one of them out"
        )
    run_benchmarks(parameters, None, None, common)


def _option(name: str) -> str:
    """Return a parameter as it is written on the command line."""
    written = {"prefix": "--testcasePrefixes", "buffer_mib": "--bufferSize", "form": "--format"}
    return written.get(name, f"--{name.replace('_', '-')}")


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
