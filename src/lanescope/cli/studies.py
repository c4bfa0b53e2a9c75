"""Each study as a command: its own options, then those that all studies have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lanescope.cli.combinations import ONE_FORMAT, PREDICTED, combines
from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    JsonOption,
    MachineOption,
    OutOption,
    StrictOption,
    WithinOption,
    budget_option,
    option,
    plan_of,
    target_option,
)
from lanescope.studies.study import Option, Study, options_of


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a command: what Typer wants to know of it."""

    name: str
    hint: Any
    default: Any = None


def command_of(study: type[Study]) -> Callable[..., None]:
    """Return a study as a function that Typer makes a command of."""

    def command(**given: Any) -> None:
        _run(study, given)

    parameters = [_own(*each) for each in options_of(study)] + _shared(study)
    command.__doc__ = _help(study)
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # Typer reads it
        [
            inspect.Parameter(
                p.name, inspect.Parameter.KEYWORD_ONLY, default=p.default, annotation=p.hint
            )
            for p in parameters
        ]
    )
    command.__annotations__ = {p.name: p.hint for p in parameters}
    return combines(ONE_FORMAT, *((PREDICTED,) if study.predicted else ()))(command)


def _own(name: str, default: Any, about: Option) -> _Parameter:
    made = option(about.value, metavar=about.metavar, help=about.help, shown=about.default)
    hint = list[str] if about.repeated else str
    return _Parameter(name, Annotated[hint | None, made], default)


def _shared(study: type[Study]) -> list[_Parameter]:
    plan = study.sampling
    budget = budget_option(f"Sampling time for {study.of_what}, at most.", str(plan.budget_seconds))
    return [
        _Parameter("budget", Annotated[float, budget], plan.budget_seconds),
        _Parameter("target", Annotated[float, target_option(f"{plan.target:.1%}")], plan.target),
        _Parameter("within", WithinOption),
        *((_Parameter("machine", MachineOption),) if study.predicted else ()),
        _Parameter("out", OutOption),
        _Parameter("json", JsonOption, False),
        _Parameter("csv", CsvOption, False),
        _Parameter("strict", StrictOption, False),
        _Parameter("allow_busy", BusyOption, False),
    ]


def _help(study: type[Study]) -> str:
    """Return a study's docstring up to its attributes."""
    return (inspect.getdoc(study) or "").partition("\nAttributes\n")[0]


def _run(study: type[Study], given: dict[str, Any]) -> None:
    from lanescope.cli.output import progress_on_terminal, show_run
    from lanescope.studies.study import run_study

    own = {name: given[name] for name, _, _ in options_of(study)}
    plan = plan_of(given["target"], given["budget"], given["within"])
    with progress_on_terminal() as progress:
        run = run_study(
            study(**own),
            given.get("machine"),
            plan=plan,
            allow_busy=given["allow_busy"],
            out=given["out"],
            progress=progress,
        )
    shown = {name: given[name] for name in ("json", "csv", "strict")}
    raise typer.Exit(show_run(run, **shown))
