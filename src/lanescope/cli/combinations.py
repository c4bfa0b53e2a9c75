"""Which options go together: rules beside each verb, and the command that keeps them.

An option that another one leaves without effect is refused, or a note says so; none is ignored
in silence. An option with a value that is given twice is refused, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import typer
from typer.core import TyperCommand

from lanescope.cli.terminal_text import wrapped
from lanescope.errors import InputError

Verb = TypeVar("Verb", bound=Callable[..., None])


class Rule(Protocol):
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
class Alone:
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
class Idle:
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
#: Of options that list what there is: why they stand alone.
LISTED = "prints a list and ends"
PREDICTED = Idle(
    ("--budget", "--target", "--samples", "--allow-busy"),
    "--machine",
    "results for a described machine are predicted and not sampled",
)


def combines(*rules: Rule) -> Callable[[Verb], Verb]:
    """Give a verb the rules of its options."""

    def with_rules(verb: Verb) -> Verb:
        verb.rules = rules  # type: ignore[attr-defined]  # read by `Combined`
        return verb

    return with_rules


class Combined(TyperCommand):
    """A command that keeps its verb's rules; see `combines`."""

    def make_parser(self, ctx: Any) -> Any:
        """Refuse an option that is given twice and has one value."""
        return once_each(super().make_parser(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Name what an option takes where only the compiled core knows: ``{names}`` in its help."""
        param: Any
        for param in self.params:
            if "{names}" in (getattr(param, "help", None) or ""):
                known = param.type_descriptor.parameter_info.parser.known()
                param.help = param.help.replace("{names}", ", ".join(known))
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Check what was given together around the verb."""
        with keeping_rules(ctx):
            return super().invoke(ctx)


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
