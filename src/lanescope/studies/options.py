"""How the fields of a dataclass become a command line and a Python call; options that many have."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lanescope.codec.fields import shown
from lanescope.errors import InputError
from lanescope.kinds import plain_hint
from lanescope.units.values import Size, Value, Whole

#: No machine that is known has more of one kind.
MOST_PARTS = 1023


@dataclass(frozen=True, slots=True)
class Option:
    """How an option of a study stands on the command line.

    Attributes
    ----------
    value
        Its name, and what its text may be.
    default
        The default as a user would write it; None where the help says it.
    repeated
        Whether it may be given several times.
    old
        Names that it had before: they are taken for one more version, with a note.
    metavar
        What the help calls its value; None for what values of that kind are called.
    """

    value: Value
    help: str
    default: str | None = None
    repeated: bool = False
    old: tuple[str, ...] = ()
    metavar: str | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """How a field of a study stands on the command line without the name of an option.

    Attributes
    ----------
    value
        Makes the field's value of all words.
    """

    metavar: str
    help: str
    value: Callable[[Sequence[str]], Any]


def parameter_of(name: str, default: Any, hint: Any) -> inspect.Parameter:
    """Return a field as a parameter of a Python function: by name only, if it has a default."""
    if default is dataclasses.MISSING:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Parameter(name, kind, annotation=hint)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def as_function(
    call: Callable[..., Any], parameters: Sequence[inspect.Parameter], returned: Any
) -> None:
    """Give a function parameters: their hints for checks, and plain types to be read."""
    plain = [one.replace(annotation=plain_hint(one.annotation)) for one in parameters]
    signature = inspect.Signature(plain, return_annotation=returned)
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": returned}


def options_of(options: type[Any]) -> Iterator[tuple[str, Any, Option | Argument]]:
    """Yield the name, the default and the option of each field that the command line has.

    `options` is a dataclass whose fields are annotated with `Option` or `Argument`.
    """
    yield from ((name, default, about) for name, default, _, about in fields_of(options) if about)


def fields_of(options: type[Any]) -> Iterator[tuple[str, Any, Any, Option | Argument | None]]:
    """Yield each field with its default, its type, and how it stands on the command line."""
    hints = typing.get_type_hints(options, include_extras=True)
    for field in dataclasses.fields(options):
        hint = hints[field.name]
        about = (one for one in typing.get_args(hint) if isinstance(one, Option | Argument))
        yield field.name, field.default, hint, next(about, None)


def gpu_option(help: str) -> Option:
    """Return the option for numbers of GPUs."""
    value = Whole("--gpu", 0, MOST_PARTS, "more are in no machine")
    return Option(value, f"{help}; may be repeated.", repeated=True)


def size_option(help: str, default: str | None, name: str = "--size", **bounds: Any) -> Option:
    """Return an option for the size of copies, in bytes; `bounds` as of `Size`."""
    return Option(Size(name, **bounds), help, default)


def one_run(words: Sequence[str]) -> str | None:
    """Return the run that an argument names; None without.

    Raises
    ------
    InputError
        If there are several.
    """
    if len(words) > 1:
        raise InputError(f"one run is taken, not {len(words)}: {shown(words[1])} is one too many")
    run: str | None = Value("RUN")(words[0]) if words else None
    return run
