"""Options that several verbs share, with their bounds, and rules of which options go together.

The options of a verb that has many are a dataclass, of which `of_options` makes its command.

An option that another one leaves without effect is refused, or a note says so; none is ignored
in silence. An option with a value that is given twice is refused, too.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer
from typer.core import TyperCommand

from lanescope.cli.terminal_text import wrapped
from lanescope.errors import InputError
from lanescope.units.values import (
    Duration,
    File,
    Folder,
    InFile,
    Percent,
    Real,
    Size,
    Value,
    Whole,
)

if TYPE_CHECKING:
    from lanescope.engine.sampling import Plan

T = TypeVar("T")
Verb = TypeVar("Verb", bound=Callable[..., None])
#: No machine that is known has more of one kind.
_MOST_PARTS = 1023
#: Nobody waits longer for one set of copies.
_LONGEST_BUDGET_SECONDS = 3600


def flag(name: str, help: str, *others: str) -> Any:
    """Return an option without a value; `others` are more names of it."""
    return typer.Option(name, *others, help=help)


def option(
    value: Value, help: str, *names: str, metavar: str | None = None, shown: str | None = None
) -> Any:
    """Return an option that takes a kind of value.

    Parameters
    ----------
    names
        Other ones than the value's own.
    metavar
        What the help calls the value; None for what its kind is called.
    shown
        The default as a user would write it, for the help; None where that says it.
    """
    return typer.Option(
        *names,
        value.option,
        metavar=metavar or value.metavar,
        help=help if shown is None else f"{help.removesuffix('.')}; default {shown}.",
        parser=value,
        show_default=False,
    )


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a command: what Typer wants to know of it."""

    name: str
    hint: Any
    default: Any = None


def with_parameters(command: Callable[..., None], parameters: Sequence[Parameter]) -> None:
    """Give a function the parameters that Typer reads from it."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    made = [inspect.Parameter(p.name, keyword, default=p.default, annotation=p.hint)
            for p in parameters]  # fmt: skip
    command.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.hint for p in parameters}


def of_options(kind: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Make a function of one value the command that takes its fields.

    Parameters
    ----------
    kind
        A dataclass whose fields are declared as Typer reads parameters, each with a default; a
        field of `typer.Context` has none.
    """
    # a lambda in a hint finds names of the module; by default typing gives it those of the class
    names = vars(sys.modules[kind.__module__])
    hints = typing.get_type_hints(kind, names, {}, include_extras=True)
    parameters = [
        Parameter(one.name, hints[one.name], None if one.default is MISSING else one.default)
        for one in fields(kind)  # type: ignore[arg-type]
    ]

    def command_of(verb: Callable[[T], None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            verb(kind(**given))

        command.__doc__ = verb.__doc__
        with_parameters(command, parameters)
        return command

    return command_of


JsonOption = Annotated[bool, flag("--json", "Print the result as JSON.")]
CsvOption = Annotated[bool, flag("--csv", "Print the results as CSV.")]
NoPageOption = Annotated[bool, flag("--no-page", "Write no page.")]
NoStoreOption = Annotated[
    bool, flag("--no-store", "Store nothing: neither a run folder nor a page.")
]
StrictOption = Annotated[
    bool, flag("--strict", "Exit with 3 when something could not be measured.")
]
WITHIN = Duration("--within", 1, 30 * 86_400_000_000_000, "above 0 and up to 30 days")
BusyOption = Annotated[bool, flag("--allow-busy", "Measure GPUs that other processes use, too.")]
#: Of options that list what there is: why they stand alone.
LISTED = "prints a list and ends"


MachineOption = Annotated[
    str | None,
    option(
        Value("--machine"),
        "Work on a described machine (a machine file, or a shipped name such as h200-x2): results "
        "are predicted.",
        metavar="FILE_OR_NAME",
    ),
]
OutOption = Annotated[
    Path | None, option(Folder("--out"), "Run folder to write; default: a new one.")
]
_INDEX = "The history, an SQLite file; default: $LANESCOPE_HISTORY, else beside the runs folder."
IndexOption = Annotated[Path | None, option(InFile("--index"), _INDEX)]
GrowingIndexOption = Annotated[Path | None, option(File("--index", ()), _INDEX)]
BaselineOption = Annotated[
    str | None,
    option(
        Value("--baseline"),
        "Compare with an earlier run, a folder or name, or with 'history': exit code 1 where a "
        "path got slower by more than 2 % for certain.",
        metavar="RUN",
    ),
]
ExpectOption = Annotated[
    str | None,
    option(
        Value("--expect"),
        "Compare this machine with a machine file, as saved by 'topo --save': exit with 4 where a "
        "part is missing or different.",
        metavar="FILE.toml",
    ),
]
ExpectGpusOption = Annotated[
    int | None,
    option(
        Whole("--expect-gpus", 0, _MOST_PARTS, "more are in no machine"),
        "Exit with 4 unless so many GPUs can be used.",
    ),
]
WithinOption = Annotated[
    int | None,
    option(
        WITHIN,
        "Time for the whole command, such as 15s or 2min: cases share it, the first ones come "
        "first, and those that it does not suffice for are not measured.",
    ),
]


def budget_option(help: str, shown: str, most: float = _LONGEST_BUDGET_SECONDS) -> Any:
    """Return the option for sampling time in seconds; `shown` is its default."""
    value = Real("--budget", "seconds", most, "an hour" if most == 3600 else "for each point")
    return option(value, help, shown=shown)


def target_option(shown: str) -> Any:
    """Return the option for the confidence interval, a share; `shown` is its default."""
    return option(
        Percent("--target"),
        "Stop when half of the 95 % confidence interval of the median is below this.",
        shown=shown,
    )


def size_option(name: str, help: str, *names: str, shown: str | None = None, **bounds: Any) -> Any:
    """Return an option for a size in bytes."""
    return option(Size(name, **bounds), help, *names, shown=shown)


def samples_option(*names: str) -> Any:
    """Return the option for a number of samples."""
    return option(
        Whole("--samples", 1, 1_000_000, "every sample is stored"),
        "Samples of each copy; default: until the target is reached.",
        *names,
    )


def part_option(name: str, help: str, shown: str | None = None) -> Any:
    """Return an option for the number of a GPU or a NUMA node."""
    value = Whole(name, 0, _MOST_PARTS, "more are in no machine")
    return option(value, help, shown=shown)


def plan_of(
    plan: Plan,
    target: float | None,
    budget: float | None,
    within_ns: int | None,
    *,
    samples: int | None = None,
    verify: bool = True,
) -> Plan:
    """Return a plan with what was given; what --within gives has run since the process began.

    Where another budget is given, noisy paths take all of it.
    """
    from lanescope import interruption

    if budget not in (None, plan.budget_seconds):
        plan = replace(plan, budget_seconds=budget, noisy_seconds=None)
    seconds = None if within_ns is None else within_ns * 1e-9
    plan = replace(
        plan,
        target=plan.target if target is None else target,
        within_seconds=seconds,
        samples=samples,
        verify=verify,
    )
    return plan.begun(interruption.began_at())


class OptionRule(Protocol):
    """What must hold of the options that were given."""

    def check(self, given: Sequence[str]) -> str | None:
        """Refuse a combination; return a note on one that is odd and harms nobody.

        Raises
        ------
        InputError
            If they do not go together.
        """


@dataclass(frozen=True, slots=True)
class Needs:
    """Some options mean something beside one of others only; `because` follows their name."""

    options: tuple[str, ...]
    others: tuple[str, ...]
    because: str

    def check(self, given: Sequence[str]) -> None:
        """Refuse them alone."""
        alone = _first(self.options, given)
        if alone is not None and _first(self.others, given) is None:
            raise InputError(f"{alone} {self.because}; give {' or '.join(self.others)}, too")


@dataclass(frozen=True, slots=True)
class Excludes:
    """One option leaves no place for others."""

    option: str
    others: tuple[str, ...]
    because: str

    def check(self, given: Sequence[str]) -> None:
        """Refuse them together."""
        other = _first(self.others, given)
        if self.option in given and other is not None:
            raise InputError(f"{self.option} {self.because}; leave out {other}, or {self.option}")


@dataclass(frozen=True, slots=True)
class Exclusive:
    """One option leaves no place for any others but some."""

    option: str
    beside: tuple[str, ...]
    because: str

    def check(self, given: Sequence[str]) -> None:
        """Refuse any other one beside it."""
        others = [name for name in given if name != self.option and name not in self.beside]
        if self.option in given and others:
            raise InputError(
                f"{self.option} {self.because}; leave out {others[0]}, or {self.option}"
            )


@dataclass(frozen=True, slots=True)
class Ignored:
    """Options that one leaves without effect, `unless` another one is there; it harms nobody."""

    options: tuple[str, ...]
    beside: str
    because: str
    unless: str = ""

    def check(self, given: Sequence[str]) -> str | None:
        """Note it."""
        idle = [name for name in self.options if name in given]
        if not idle or self.beside not in given or self.unless in given:
            return None
        has = "has" if len(idle) == 1 else "have"
        return f"{' and '.join(idle)} {has} no effect: {self.because}"


NOT_STORED = Excludes("--no-store", ("--out",), "stores nothing")
ONE_FORMAT = Excludes(
    "--json", ("--csv",), "and --csv exclude each other, and the run folder holds both"
)
PREDICTED = Ignored(
    ("--budget", "--target", "--samples", "--allow-busy"),
    "--machine",
    "results for a described machine are predicted and not sampled",
)


def combines(*rules: OptionRule) -> Callable[[Verb], Verb]:
    """Give a verb the rules of its options."""

    def with_rules(verb: Verb) -> Verb:
        verb.rules = rules  # type: ignore[attr-defined]  # read by `Combined`
        return verb

    return with_rules


class KeepsRules:
    """What commands and groups have in common that keep a verb's rules; see `combines`."""

    def make_parser(self, ctx: Any) -> Any:
        """Refuse an option that is given twice and has one value."""
        return once_each(super().make_parser(ctx))  # type: ignore[misc]  # of typer's class

    def invoke(self, ctx: Any) -> Any:
        """Check what was given together around the verb."""
        with keeping_rules(ctx):
            return super().invoke(ctx)  # type: ignore[misc]


class Combined(KeepsRules, TyperCommand):
    """A command that keeps its verb's rules."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Name what an option takes where only the compiled core knows: ``{names}`` in its help."""
        param: Any
        for param in self.params:
            if "{names}" in (getattr(param, "help", None) or ""):
                known = param.type_descriptor.parameter_info.parser.known()
                param.help = param.help.replace("{names}", ", ".join(known))
        super().format_help(ctx, formatter)


def once_each(parser: Any) -> Any:
    """Make the parser of a command refuse an option with a value that is given twice."""
    parse = parser.parse_args

    def parse_once(args: list[str]) -> Any:
        options, rest, order = parse(args=args)
        given_before = set()
        for param in order:
            if id(param) in given_before:
                raise InputError(f"{_written(param)} is given twice; give it once")
            takes_many = param.multiple if hasattr(param, "multiple") else param.nargs != 1
            if not takes_many and not getattr(param, "is_flag", False):
                given_before.add(id(param))
        return options, rest, order

    parser.parse_args = parse_once
    return parser


@contextmanager
def keeping_rules(ctx: Any) -> Iterator[None]:
    """Check the options of a command before it runs; note on them after it was not refused.

    Raises
    ------
    InputError
        If some do not go together.
    """
    given = given_options(ctx)
    notes = [rule.check(given) for rule in getattr(ctx.command.callback, "rules", ())]
    try:
        yield
    except typer.Exit:  # how a verb ends that was carried out
        _print_notes(notes)
        raise
    _print_notes(notes)


def _print_notes(notes: Iterable[str | None]) -> None:
    for note in filter(None, notes):
        print(wrapped(f"note: {note}", sys.stderr), file=sys.stderr)


def given_options(ctx: Any) -> list[str]:
    """Return the options and arguments that stand on the command line, as one writes them."""
    return [
        _written(param)
        for param in ctx.command.params
        if (source := ctx.get_parameter_source(param.name)) is not None
        and source.name == "COMMANDLINE"
        and ctx.params.get(param.name) not in (None, ())
    ]


def _written(param: Any) -> str:
    """Return a parameter as users write it: the longest name, and that of an argument as shown."""
    if param.param_type_name == "argument":
        return str(param.metavar or param.name).strip("[].")
    names: list[str] = [name for name in param.opts if name.startswith("--")]
    return max(names, key=lambda name: (name == name.lower(), len(name)))


def _first(options: Sequence[str], given: Sequence[str]) -> str | None:
    return next((name for name in options if name in given), None)
