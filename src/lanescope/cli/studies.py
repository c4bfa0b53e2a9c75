"""Each study as a command: its own options, then those that all studies have.

GPUs of several nodes may take part in some of them; these are started by MPI.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperCommand

from lanescope.cli.options import (
    LISTED,
    NOT_STORED,
    ONE_FORMAT,
    PREDICTED,
    BaselineOption,
    BusyOption,
    Combined,
    CsvOption,
    Exclusive,
    JsonOption,
    MachineOption,
    NoPageOption,
    NoStoreOption,
    OutOption,
    Parameter,
    StrictOption,
    WithinOption,
    budget_option,
    combines,
    flag,
    option,
    plan_of,
    samples_option,
    target_option,
    with_parameters,
)
from lanescope.cli.own_process import start_driver
from lanescope.cli.terminal_text import wrapped
from lanescope.errors import InputError
from lanescope.studies import analysis_named, study_named
from lanescope.units.values import Value

if TYPE_CHECKING:
    from lanescope.copies import Experiment
    from lanescope.engine.sampling import Plan
    from lanescope.fleet.remote_processes import RemoteNodes
    from lanescope.store.run import Run
    from lanescope.studies.study import Argument, Option, Study


class LateCommand(TyperCommand):
    """A command whose function is imported when it is used; its callback is a `stand_in`."""

    @functools.cached_property
    def _made(self) -> Any:
        verb = cast(Any, self.callback).load()
        alone = typer.Typer(add_completion=False)
        alone.command(
            self.name,
            cls=Combined,
            help=help_of(verb),
            epilog=self.epilog,
            context_settings=dict(self.context_settings),
        )(verb)
        return typer.main.get_command(alone)

    @property
    def params(self) -> Any:
        """The parameters of the command itself."""
        return self._made.params

    @params.setter
    def params(self, value: Any) -> None:
        pass  # those of the stand-in

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Parse by the command itself, which is then what runs."""
        return self._made.make_context(*arguments, **more)


def stand_in(load: Callable[[], Callable[..., None]], summary: str) -> Callable[[], None]:
    """Return what stands for a command until it is used, and `load` gives its function."""

    def verb() -> None: ...

    verb.__doc__ = summary
    verb.load = load  # type: ignore[attr-defined]  # read by `LateCommand`
    return verb


def help_of(verb: Callable[..., None]) -> str:
    """Return a docstring up to its attributes, a paragraph a line, as the help has it."""
    about = (inspect.getdoc(verb) or "").partition("\nAttributes\n")[0]
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in about.split("\n\n"))


def command_named(verb: str) -> Callable[..., None]:
    """Return a study or an analysis as a function that Typer makes a command of."""
    if (study := study_named(verb)) is not None:
        command = command_of(study)
        command.__doc__ = study.__doc__
        return command
    from lanescope.cli.analyses import analysis_command

    analysis = analysis_named(verb)
    assert analysis is not None, verb
    command = analysis_command(analysis)
    command.__doc__ = analysis.__doc__
    return command


ListOption = Annotated[bool, flag("--list", "List the cases and end.")]


def own_parameters(options: type[Any]) -> Iterator[Parameter]:
    """Yield the fields of a dataclass as parameters, and old names of options as hidden ones."""
    from lanescope.studies import Argument, options_of

    for name, default, about in options_of(options):
        needed = default is dataclasses.MISSING
        if isinstance(about, Argument):
            made = typer.Argument(metavar=about.metavar, help=about.help)
            hint: Any = list[str] if needed else list[str] | None
            yield Parameter(name, Annotated[hint, made], ... if needed else None)
            continue
        if isinstance(default, bool):
            made = flag(about.value.option, about.help)
            yield Parameter(name, Annotated[bool, made], default)
            continue
        made = option(about.value, about.help, metavar=about.metavar, shown=about.default)
        hint = list[str] if about.repeated else str
        yield Parameter(name, Annotated[hint | None, made], None if default == () else default)
        for old in about.old:
            hidden = typer.Option(old, parser=Value(old), hidden=True, show_default=False)
            yield Parameter(_old_name(old), Annotated[str | None, hidden])


def own_values(options: type[Any], given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Take the values of a dataclass' fields from those of a command line.

    Also return notes on old names, for when the command was not refused.

    Raises
    ------
    InputError
        If an option is given by its old and its new name.
    """
    from lanescope.studies import Argument, options_of

    own, notes = {}, []
    for name, default, about in options_of(options):
        value = given.pop(name)
        if isinstance(about, Argument):
            own[name] = about.value(value or ())
            continue
        for old in about.old:
            if (other := given.pop(_old_name(old))) is not None:
                notes.append(renamed(old, about.value.option, value))
                value = other
        own[name] = default if value is None else value
    return own, notes


def _old_name(option: str) -> str:
    return f"old_{option.strip('-')}"


def renamed(old: str, new: str, value: Any) -> str:
    """Return a note on an option that is there by its old name; `value` is that of the new one.

    Raises
    ------
    InputError
        If the new one is there, too.
    """
    if value is not None:
        raise InputError(f"{old} is the old name of {new}; leave out {old}")
    return f"{old} is now {new}; the old name goes with the next version"


def note(words: str) -> None:
    """Say something beside the output."""
    print(wrapped(f"note: {words}", sys.stderr), file=sys.stderr)


def command_of(study: type[Study]) -> Callable[..., None]:
    """Return a study as a function that Typer makes a command of."""
    from lanescope.studies.study import options_of

    def command(**given: Any) -> None:
        _run(study, given)

    with_parameters(command, [*own_parameters(study), *_shared(study)])
    rules = [ONE_FORMAT, NOT_STORED, *((PREDICTED,) if study.predicted else ())]
    if study.listable:
        names = [_name(about) for _, _, about in options_of(study)]
        of_estimate = ("--budget", "--target") if study.estimates else ()
        rules.append(Exclusive("--list", (*names, "--machine", *of_estimate), LISTED))
    return combines(*rules)(command)


def _name(about: Option | Argument) -> str:
    from lanescope.studies.study import Argument

    return about.metavar.strip("[].") if isinstance(about, Argument) else about.value.option


def _shared(study: type[Study]) -> list[Parameter]:
    plan = study.sampling
    of_what = f" for {study.of_what}" if study.of_what else ""
    budget = budget_option(f"Sampling time{of_what}, at most.", str(plan.budget_seconds))
    target = target_option(f"{plan.target:.1%}".replace(".0", ""))
    return [
        *(
            (Parameter("samples", Annotated[int | None, samples_option()]),)
            if study.takes_samples
            else ()
        ),
        Parameter("budget", Annotated[float, budget], plan.budget_seconds),
        Parameter("target", Annotated[float, target], plan.target),
        Parameter("within", WithinOption),
        *((Parameter("machine", MachineOption),) if study.predicted else ()),
        *((Parameter("list_them", ListOption, False),) if study.listable else ()),
        Parameter("baseline", BaselineOption),
        Parameter("out", OutOption),
        Parameter("no_page", NoPageOption, False),
        Parameter("no_store", NoStoreOption, False),
        Parameter("json", JsonOption, False),
        Parameter("csv", CsvOption, False),
        Parameter("strict", StrictOption, False),
        Parameter("allow_busy", BusyOption, False),
    ]


def _run(study: type[Study], given: dict[str, Any]) -> None:
    own, notes = own_values(study, given)
    for each in notes:
        note(each)
    samples = given.pop("samples", None)
    target, budget, within = (given.pop(name) for name in ("target", "budget", "within"))
    plan = plan_of(study.sampling, target, budget, within, samples=samples)
    carry_out(study(**own), plan, **given)


def carry_out(
    study: Study,
    plan: Plan,
    *,
    machine: str | None = None,
    list_them: bool = False,
    baseline: str | None = None,
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
    if machine is None:
        start_driver()
    from lanescope.cli.output import (
        baseline_named,
        compared_with,
        print_blocks,
        progress_on_terminal,
        show_run,
    )
    from lanescope.studies.running import resolve_machine
    from lanescope.studies.study import run_study

    if list_them:
        listing = study.listing(resolve_machine(machine), plan)
        for line in listing.lines:
            print(line)
        for note in listing.notes:
            print(note, file=sys.stderr)
        return
    compare = None if baseline is None else baseline_named(baseline)
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(nodes_for(study, machine, allow_busy=allow_busy))
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
                nodes=nodes,
            )
        if resume and not begun:
            print(f"nothing is left to measure: {out} holds all points", file=sys.stderr)
        if no_store:
            run = replace(run, folder=None)
        elif study.estimates:
            _write_plots(run, plan)
        page = not (no_page or no_store)
        run, blocks = compared_with(compare, run)
        code = show_run(run, json=json, csv=csv, strict=strict, page=page)
        print_blocks(blocks, error=json or csv)
        raise typer.Exit(code)


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


@contextmanager
def nodes_for(
    study: Study, machine: str | None, *, allow_busy: bool
) -> Iterator[RemoteNodes | None]:
    """Yield the nodes that MPI has started a study on; None where it measures this one alone.

    Ranks but the first end here, once the first one has.

    Parameters
    ----------
    machine
        What the study is predicted for; None where it measures.
    """
    if machine is not None or not study.spans_nodes():
        yield None
        return
    from lanescope.errors import LanescopeError
    from lanescope.fleet.ranks import ranks_here
    from lanescope.fleet.remote_processes import nodes_of

    ranks = ranks_here()
    if ranks.size == 1 and not study.names_nodes():
        yield None
        return
    try:
        nodes = nodes_of(ranks, allow_busy=allow_busy)
    except LanescopeError as error:
        ranks.give_up(error)
        raise
    if nodes is None:
        raise typer.Exit(0)
    try:
        yield nodes
    except BaseException as error:
        nodes.leave(error)
        raise
    nodes.leave(None)
