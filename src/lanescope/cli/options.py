"""Options that several verbs share, and how their texts become values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.errors import InputError

if TYPE_CHECKING:
    from lanescope.measurement.sampling import Plan

MachineOption = Annotated[
    str | None,
    typer.Option(
        "--machine",
        metavar="FILE_OR_NAME",
        help="Work on a described machine (a machine file, or a shipped name such as h200-x2): "
        "results are predicted.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Run folder to write; default: a new one."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the run as JSON.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print the results as CSV.")]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Exit with 3 when something could not be measured.")
]
ExpectOption = Annotated[
    str | None,
    typer.Option(
        "--expect",
        metavar="FILE.toml",
        help="Compare this machine with a machine file, as saved by 'topo --save': exit with 4 "
        "where a part is missing or different.",
    ),
]
ExpectGpusOption = Annotated[
    int | None,
    typer.Option(
        "--expect-gpus",
        min=0,
        max=1024,
        metavar="N",
        help="Exit with 4 unless so many GPUs can be used.",
    ),
]
BusyOption = Annotated[
    bool, typer.Option("--allow-busy", help="Measure GPUs that other processes use, too.")
]
TargetOption = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="PERCENT",
        help="Stop when half of the 95 % confidence interval of the median is below this.",
    ),
]
WithinOption = Annotated[
    str | None,
    typer.Option(
        "--within",
        metavar="TIME",
        help="Time for the whole command, such as 15s or 2min: cases share it, the first ones come "
        "first, and those that it does not suffice for are not measured.",
    ),
]

_MOST_WITHIN_SECONDS = 30 * 24 * 3600


def plan_of(
    target: str,
    budget: float,
    within: str | None,
    *,
    samples: int | None = None,
    verify: bool = True,
) -> Plan:
    """Return how precisely to measure; what --within gives has run since the process began.

    Raises
    ------
    InputError
        If one of the texts and numbers cannot be used.
    """
    from lanescope import interruption
    from lanescope.measurement.sampling import Plan

    seconds = None if within is None else parse_within(within)
    plan = Plan(parse_percent(target), parse_budget(budget), samples, verify, seconds)
    return plan.begun(interruption.began_at())


def parse_within(text: str) -> float:
    """Return the seconds that a command may take.

    Raises
    ------
    InputError
        If the text is no time, or longer than 30 days.
    """
    from lanescope.measurement.durations import parse_seconds

    seconds = parse_seconds(text, "--within")
    if seconds > _MOST_WITHIN_SECONDS:
        raise InputError(f"--within {text!r} is longer than 30 days; give for example 2min")
    return seconds


def parse_percent(text: str) -> float:
    """Return a share: 0.005 for ``0.5%`` or ``0.5``.

    Raises
    ------
    InputError
        If it is no number, or not between 0 and 100.
    """
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = 0.0
    if not 0 < value < 100:
        raise InputError(f"{text!r} is not a percentage between 0 and 100; write for example 0.5%")
    return value / 100


def parse_budget(seconds: float) -> float:
    """Return a time budget.

    Raises
    ------
    InputError
        If it is not above zero, or longer than an hour.
    """
    if not 0 < seconds <= 3600:
        raise InputError(
            f"--budget {seconds:g} is not between 0 and 3600 seconds; give for example 1"
        )
    return seconds


def require_one_format(json: bool, csv: bool) -> None:
    """Refuse two output formats at once.

    Raises
    ------
    InputError
        If both are asked for.
    """
    if json and csv:
        raise InputError(
            "--json and --csv exclude each other; the run folder holds both kinds of data"
        )
