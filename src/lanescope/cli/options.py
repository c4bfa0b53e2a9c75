"""Options that several verbs share, and the bounds of their values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanescope.units.values import (
    Duration,
    File,
    Folder,
    Percent,
    Real,
    Size,
    Value,
    Whole,
)

if TYPE_CHECKING:
    from lanescope.engine.sampling import Plan

#: No machine that is known has more of one kind.
_MOST_PARTS = 1023
#: Nobody waits longer for one set of copies.
_LONGEST_BUDGET_SECONDS = 3600


def option(value: Value, *names: str, metavar: str, help: str, shown: str | None = None) -> Any:
    """Return an option that takes a kind of value.

    Parameters
    ----------
    names
        Other ones than the value's own.
    shown
        The default as a user would write it, for the help; None where that says it.
    """
    return typer.Option(
        *names,
        value.option,
        metavar=metavar,
        help=help if shown is None else f"{help.removesuffix('.')}; default {shown}.",
        parser=value,
        show_default=False,
    )


MachineOption = Annotated[
    str | None,
    option(
        Value("--machine"),
        metavar="FILE_OR_NAME",
        help="Work on a described machine (a machine file, or a shipped name such as h200-x2): "
        "results are predicted.",
    ),
]
OutOption = Annotated[
    Path | None,
    option(Folder("--out"), metavar="DIR", help="Run folder to write; default: a new one."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print the results as CSV.")]
NoPageOption = Annotated[bool, typer.Option("--no-page", help="Write no page.")]
NoStoreOption = Annotated[
    bool, typer.Option("--no-store", help="Store nothing: neither a run folder nor a page.")
]
IndexOption = Annotated[
    Path | None,
    option(
        File("--index", ()),
        metavar="FILE",
        help="The history, an SQLite file; default: $LANESCOPE_HISTORY, else beside the runs "
        "folder.",
    ),
]
BaselineOption = Annotated[
    str | None,
    option(
        Value("--baseline"),
        metavar="RUN",
        help="Compare with an earlier run, a folder or name, or with 'history': exit code 1 where "
        "a path got slower by more than 2 % for certain.",
    ),
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Exit with 3 when something could not be measured.")
]
ExpectOption = Annotated[
    str | None,
    option(
        Value("--expect"),
        metavar="FILE.toml",
        help="Compare this machine with a machine file, as saved by 'topo --save': exit with 4 "
        "where a part is missing or different.",
    ),
]
ExpectGpusOption = Annotated[
    int | None,
    option(
        Whole("--expect-gpus", 0, _MOST_PARTS, "more are in no machine"),
        metavar="N",
        help="Exit with 4 unless so many GPUs can be used.",
    ),
]
WITHIN = Duration("--within", 1, 30 * 86_400_000_000_000, "above 0 and up to 30 days")
WithinOption = Annotated[
    int | None,
    option(
        WITHIN,
        metavar="TIME",
        help="Time for the whole command, such as 15s or 2min: cases share it, the first ones come "
        "first, and those that it does not suffice for are not measured.",
    ),
]
BusyOption = Annotated[
    bool, typer.Option("--allow-busy", help="Measure GPUs that other processes use, too.")
]


def budget_option(help: str, shown: str, most: float = _LONGEST_BUDGET_SECONDS) -> Any:
    """Return the option for sampling time in seconds; `shown` is its default."""
    value = Real("--budget", "seconds", most, "an hour" if most == 3600 else "for each point")
    return option(value, metavar="SECONDS", help=help, shown=shown)


def target_option(shown: str) -> Any:
    """Return the option for the confidence interval, a share; `shown` is its default."""
    return option(
        Percent("--target"),
        metavar="PERCENT",
        help="Stop when half of the 95 % confidence interval of the median is below this.",
        shown=shown,
    )


def size_option(name: str, help: str, *names: str, shown: str | None = None, **bounds: Any) -> Any:
    """Return an option for a size in bytes."""
    return option(Size(name, **bounds), *names, metavar="SIZE", help=help, shown=shown)


def samples_option(*names: str) -> Any:
    """Return the option for a number of samples."""
    return option(
        Whole("--samples", 1, 1_000_000, "every sample is stored"),
        *names,
        metavar="N",
        help="Samples of each copy; default: until the target is reached.",
    )


def part_option(name: str, help: str, shown: str | None = None) -> Any:
    """Return an option for the number of a GPU or a NUMA node."""
    value = Whole(name, 0, _MOST_PARTS, "more are in no machine")
    return option(value, metavar="N", help=help, shown=shown)


def plan_of(
    target: float,
    budget: float,
    within_ns: int | None,
    *,
    samples: int | None = None,
    verify: bool = True,
) -> Plan:
    """Return how precisely to measure; what --within gives has run since the process began."""
    from lanescope import interruption
    from lanescope.engine.sampling import Plan

    seconds = None if within_ns is None else within_ns * 1e-9
    return Plan(target, budget, samples, verify, seconds).begun(interruption.began_at())
