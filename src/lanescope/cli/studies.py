"""Each study as a command: its own options, then those that all studies have."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from lanescope.cli.combinations import (
    LISTED,
    ONE_FORMAT,
    PREDICTED,
    Alone,
    Combined,
    Excludes,
    combines,
)
from lanescope.cli.examples import epilog
from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    JsonOption,
    MachineOption,
    NoPageOption,
    NoStoreOption,
    OutOption,
    StrictOption,
    WithinOption,
    budget_option,
    option,
    plan_of,
    samples_option,
    target_option,
)
from lanescope.studies.registry import STUDIES, study_named

if TYPE_CHECKING:
    from lanescope.backend.sampling import Plan
    from lanescope.experiment import Experiment
    from lanescope.run.run import Run
    from lanescope.studies.study import Argument, Option, Study


_NOT_STORED = Excludes("--no-store", ("--out", "--no-page"), "stores nothing, and so has no page")


class StudyCommand(TyperCommand):
    """The command of a study, which is imported when the command is used."""

    @functools.cached_property
    def _made(self) -> Any:
        study = study_named(str(self.name))
        assert study is not None, "registered by the table of studies"
        alone = typer.Typer(add_completion=False)
        command = command_of(study)
        group = STUDIES[study.verb].group
        examples = epilog(f"{group} {self.name}".strip())
        alone.command(self.name, cls=Combined, help=_help(study), epilog=examples)(command)
        return typer.main.get_command(alone)

    @property
    def params(self) -> Any:
        """The parameters of the study's command."""
        return self._made.params

    @params.setter
    def params(self, value: Any) -> None:
        pass  # those of the place holder

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Parse by the study's command, which is then what runs."""
        return self._made.make_context(*arguments, **more)


def place_holder(verb: str) -> Callable[[], None]:
    """Return what stands for a study until it is used."""

    def study() -> None: ...

    study.__doc__ = STUDIES[verb].summary
    return study


ListOption = Annotated[bool, typer.Option("--list", help="List the cases and end.")]


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a command: what Typer wants to know of it."""

    name: str
    hint: Any
    default: Any = None


def command_of(study: type[Study]) -> Callable[..., None]:
    """Return a study as a function that Typer makes a command of."""
    from lanescope.studies.study import options_of

    def command(**given: Any) -> None:
        _run(study, given)

    parameters = [_own(*each) for each in options_of(study)] + _shared(study)
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # Typer reads it
        [
            inspect.Parameter(
                p.name, inspect.Parameter.KEYWORD_ONLY, default=p.default, annotation=p.hint
            )
            for p in parameters
        ]
    )
    command.__annotations__ = {p.name: p.hint for p in parameters}
    rules = [ONE_FORMAT, _NOT_STORED, *((PREDICTED,) if study.predicted else ())]
    if study.listable:
        names = [_name(about) for _, _, about in options_of(study)]
        of_estimate = ("--budget", "--target") if study.estimates else ()
        rules.append(Alone("--list", (*names, "--machine", *of_estimate), LISTED))
    return combines(*rules)(command)


def _name(about: Option | Argument) -> str:
    from lanescope.studies.study import Argument

    return about.metavar.strip("[].") if isinstance(about, Argument) else about.value.option


def _own(name: str, default: Any, about: Option | Argument) -> _Parameter:
    from lanescope.studies.study import Argument

    hint: Any
    if isinstance(about, Argument):
        made = typer.Argument(metavar=about.metavar, help=about.help)
        hint, default = (
            (list[str], ...) if default is dataclasses.MISSING else (list[str] | None, None)
        )
        return _Parameter(name, Annotated[hint, made], default)
    made = option(about.value, metavar=about.metavar, help=about.help, shown=about.default)
    hint = list[str] if about.repeated else str
    return _Parameter(name, Annotated[hint | None, made], default)


def _shared(study: type[Study]) -> list[_Parameter]:
    plan = study.sampling
    of_what = f" for {study.of_what}" if study.of_what else ""
    budget = budget_option(f"Sampling time{of_what}, at most.", str(plan.budget_seconds))
    target = target_option(f"{plan.target:.1%}".replace(".0", ""))
    return [
        *(
            (_Parameter("samples", Annotated[int | None, samples_option()]),)
            if study.takes_samples
            else ()
        ),
        _Parameter("budget", Annotated[float, budget], plan.budget_seconds),
        _Parameter("target", Annotated[float, target], plan.target),
        _Parameter("within", WithinOption),
        *((_Parameter("machine", MachineOption),) if study.predicted else ()),
        *((_Parameter("list_them", ListOption, False),) if study.listable else ()),
        _Parameter("out", OutOption),
        _Parameter("no_page", NoPageOption, False),
        _Parameter("no_store", NoStoreOption, False),
        _Parameter("json", JsonOption, False),
        _Parameter("csv", CsvOption, False),
        _Parameter("strict", StrictOption, False),
        _Parameter("allow_busy", BusyOption, False),
    ]


def _help(study: type[Study]) -> str:
    """Return a study's docstring up to its attributes, a paragraph a line."""
    about = (inspect.getdoc(study) or "").partition("\nAttributes\n")[0]
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in about.split("\n\n"))


def _run(study: type[Study], given: dict[str, Any]) -> None:
    from lanescope.studies.study import Argument, options_of

    own = {
        name: about.value(given.pop(name) or ()) if isinstance(about, Argument) else given.pop(name)
        for name, _, about in options_of(study)
    }
    samples = given.pop("samples", None)
    plan = plan_of(given.pop("target"), given.pop("budget"), given.pop("within"), samples=samples)
    carry_out(study(**own), plan, **given)


def carry_out(
    study: Study,
    plan: Plan,
    *,
    machine: str | None = None,
    list_them: bool = False,
    out: Path | None,
    json: bool,
    csv: bool,
    strict: bool,
    allow_busy: bool,
    resume: bool = False,
    no_page: bool = False,
    no_store: bool = False,
) -> None:
    """Carry out a study, or list what it would measure; ends with an exit code."""
    from lanescope.cli.output import progress_on_terminal, show_run
    from lanescope.running import resolve_machine
    from lanescope.studies.study import run_study

    if list_them:
        listing = study.listing(resolve_machine(machine), plan)
        for line in listing.lines:
            print(line)
        for note in listing.notes:
            print(note, file=sys.stderr)
        return
    with contextlib.ExitStack() as stack:
        if no_store:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory())) / study.verb
        begun: list[Experiment] = []
        with progress_on_terminal() as show:

            def progress(experiment: Experiment, number: int, total: int) -> None:
                begun.append(experiment)
                if show is not None:
                    show(experiment, number, total)

            run = run_study(
                study,
                machine,
                plan=plan,
                allow_busy=allow_busy,
                out=out,
                progress=progress,
                resume=resume,
            )
        if resume and not begun:
            print(f"nothing is left to measure: {out} holds all points", file=sys.stderr)
        if no_store:
            run = replace(run, folder=None)
        elif study.estimates:
            _write_plots(run, plan)
    page = not (no_page or no_store)
    raise typer.Exit(show_run(run, json=json, csv=csv, strict=strict, page=page))


def _write_plots(run: Run, plan: Plan) -> None:
    from lanescope.cli.output import write_plots

    if plan.within_seconds is not None:
        print(
            f"no plots: --within has no time for them; 'lanescope report {run.folder} --plots DIR' "
            "draws them",
            file=sys.stderr,
        )
    elif not run.manifest.machine.described:
        write_plots(run)
