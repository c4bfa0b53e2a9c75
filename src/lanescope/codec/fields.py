"""Builds values of declared types from plain ones, checking every field on the way.

A number is zero or more, finite, and no larger than any quantity can be, unless its type says
otherwise: `Positive`, `Signed` and `Moment` are such types.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from lanescope.errors import InputError

T = TypeVar("T")
Trail = tuple[str | int, ...]
Decode = Callable[[Any], Any]

#: A 64-bit column holds no more; and no quantity is larger or smaller than these.
_MOST_WHOLE = 2**63 - 1
_LARGEST, _SMALLEST = 1e30, 1e-30
_SHOWN = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """What a number or a text must be beside its type."""

    words: str
    holds: Callable[[Any], bool]


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text) is not None
    except ValueError:
        return False


_ANY = Bound("a number", lambda value: True)
_NOT_NEGATIVE = Bound("zero or more", lambda value: value >= 0)
#: Seconds, bytes, rates: what is divided by.
Positive = Annotated[float, Bound("above zero", lambda value: value > 0)]
PositiveInt = Annotated[int, Bound("above zero", lambda value: value > 0)]
Signed = Annotated[float, _ANY]
#: ISO 8601.
Moment = Annotated[str, Bound("a time such as 2026-11-21T10:00:00+01:00", _is_moment)]


class FieldError(ValueError):
    """A field is unknown, missing, or of the wrong kind.

    Attributes
    ----------
    table, number
        The table and its number from 0 where it is one of several; ``""`` for
        the top of the file.
    field
        The field's name.
    inside
        The field that holds the table with the wrong field, or None.
    """

    def __init__(
        self,
        problem: str,
        field: str,
        table: str = "",
        number: int | None = None,
        inside: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.field = field
        self.table = table
        self.number = number
        self.inside = inside

    @property
    def in_full(self) -> str:
        """The problem behind the place of its table, such as ``cases[2].matrices[0]``."""
        number = "" if self.number is None else f"[{self.number}]"
        parts = [part for part in (self.table + number, self.inside) if part]
        return f"{'.'.join(parts)}: {self}" if parts else str(self)


class _WrongError(ValueError):
    """What is wrong, and where; `_named` makes a `FieldError` of it.

    Attributes
    ----------
    text
        Follows the field's name in the sentence; with `alone` it is the whole sentence.
    """

    def __init__(self, text: str, trail: Trail = (), *, alone: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.trail = trail
        self.alone = alone

    def inside(self, part: str | int) -> _WrongError:
        """Return the same one level further out."""
        return _WrongError(self.text, (part, *self.trail), alone=self.alone)


def build(
    cls: type[T], table: Any, name: str = "", number: int | None = None, *, others: bool = False
) -> T:
    """Return an instance of a dataclass from a table of its fields.

    Parameters
    ----------
    name, number
        The table's own in its file, for messages.
    others
        Whether it and the tables in it may have fields that their dataclasses do not have; they
        are not looked at.

    Raises
    ------
    FieldError
        If a field is unknown, missing or of the wrong kind.
    """
    own: Trail = (name,) if name else ()
    own += () if number is None else (number,)
    with _named(own):
        value: T = _table_decoder(typing.cast(Any, cls), others)(table)
        return value


def decode(hint: Any, value: Any, name: str = "") -> Any:
    """Return a plain value as one of a type, such as ``tuple[Process, ...]``; see `build`."""
    with _named((name,) if name else ()):
        return _decoder(hint, others=False)(value)


def from_attributes(kind: type[T], *sources: object, **own: Any) -> T:
    """Return a dataclass of what others have by the names of its fields, the first that has it.

    Parameters
    ----------
    own
        Fields that are not taken from others.
    """
    taken = {
        field.name: getattr(source, field.name)
        for field in dataclasses.fields(kind)  # type: ignore[arg-type]
        if field.name not in own
        for source in reversed(sources)
        if hasattr(source, field.name)
    }
    return kind(**taken, **own)


def shown(value: object) -> str:
    """Return a value as a message shows it: in one line, and not longer than that."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > _MOST_WHOLE:
        return "a number of very many digits"
    text = ascii(value) if isinstance(value, str) and not is_text(value) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@contextmanager
def _named(own: Trail) -> Iterator[None]:
    try:
        yield
    except _WrongError as error:
        raise _field_error(error, (*own, *error.trail)) from error


def _field_error(error: _WrongError, trail: Trail) -> FieldError:
    """Return an error with the place of its field as the file's format names it."""
    last = max((i for i, part in enumerate(trail) if isinstance(part, str)), default=0)
    field = str(trail[last]) if trail else ""
    name = _path(trail[last:])
    behind = error.text if error.text.startswith(":") else f" {error.text}"
    whole = error.alone or (behind.startswith(":") and not name)  # says itself what it is of
    subject = f"field {name!r}" if name else "it"
    problem = error.text.removeprefix(": ") if whole else subject + behind
    listed = len(trail) > 1 and isinstance(trail[1], int) and last > 1
    table = str(trail[0]) if listed else ""
    number = int(trail[1]) if listed else None
    inside = trail[2:last] if listed else trail[:last]
    return FieldError(problem, field, table, number, _path(inside) or None)


def _path(trail: Trail) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in trail)
    return "".join(parts).removeprefix(".")


@functools.cache
def _decoder(hint: Any, others: bool) -> Decode:
    """Return what makes a value of a type of a plain one; finding that out is slow."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        bounds = [one for one in arguments[1:] if isinstance(one, Bound)]
        # others are for calls: `lanescope.kinds`
        return _plain_decoder(arguments[0], *bounds) if bounds else _decoder(arguments[0], others)
    if origin in (types.UnionType, typing.Union):
        return _union_decoder(arguments, others)
    if origin is tuple:
        return _list_decoder(arguments, others)
    if origin is dict:
        return _dict_decoder(arguments[1], others)
    if dataclasses.is_dataclass(hint):
        return _table_decoder(typing.cast(Any, hint), others)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _enum_decoder(hint)
    if hint is Any:
        return lambda value: value
    return _plain_decoder(hint, _NOT_NEGATIVE if hint in (int, float) else _ANY)


@functools.cache
def _table_decoder(cls: type[Any], others: bool) -> Decode:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = {
        f.name: (_decoder(hints[f.name], others), _is_needed(f)) for f in dataclasses.fields(cls)
    }

    def decoded(table: Any) -> Any:
        if isinstance(table, cls):  # was read before, from another file
            return table
        if not isinstance(table, dict):
            raise _WrongError(f"is {shown(table)}, not a table")
        if not others:
            _require_known(table, fields)
        values = {}
        for key, (convert, needed) in fields.items():
            if key in table:
                try:
                    values[key] = convert(table[key])
                except _WrongError as error:
                    raise error.inside(key) from error
            elif needed:
                raise _WrongError("is missing", (key,))
        try:
            return cls(**values)
        except (ValueError, InputError) as error:
            raise _WrongError(f": {error}") from error

    return decoded


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _require_known(table: dict[Any, Any], fields: dict[str, Any]) -> None:
    for key in table:
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(fields)}"
            raise _WrongError(f"unknown field {shown(key)}; {hint}", (str(key),), alone=True)


def _union_decoder(arguments: tuple[Any, ...], others: bool) -> Decode:
    kinds = [_decoder(argument, others) for argument in arguments if argument is not type(None)]
    nothing = type(None) in arguments

    def decoded(value: Any) -> Any:
        if value is None and nothing:
            return None
        for kind in kinds[:-1]:
            try:
                return kind(value)
            except _WrongError:
                continue
        return kinds[-1](value)

    return decoded


def _list_decoder(arguments: tuple[Any, ...], others: bool) -> Decode:
    many = len(arguments) == 2 and arguments[1] is Ellipsis
    kinds = [_decoder(argument, others) for argument in arguments if argument is not Ellipsis]

    def decoded(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _WrongError("must be a list")
        if not many and len(value) != len(kinds):
            raise _WrongError(f"must have {len(kinds)} entries, not {len(value)}")
        found = []
        for number, entry in enumerate(value):
            try:
                found.append(kinds[0 if many else number](entry))
            except _WrongError as error:
                raise error.inside(number) from error
        return tuple(found)

    return decoded


def _dict_decoder(hint: Any, others: bool) -> Decode:
    kind = _decoder(hint, others)

    def decoded(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _WrongError(f"is {shown(value)}, not a table")
        found = {}
        for key, entry in value.items():
            try:
                found[key] = kind(entry)
            except _WrongError as error:
                raise error.inside(key) from error
        return found

    return decoded


def _enum_decoder(hint: type[StrEnum]) -> Decode:
    def decoded(value: Any) -> Any:
        if not isinstance(value, str) or value not in list(hint):
            raise _WrongError(f"is {shown(value)}, not one of {', '.join(hint)}")
        return hint(value)

    return decoded


_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _plain_decoder(hint: type[Any], bound: Bound) -> Decode:
    holds = bound.holds

    def decoded(value: Any) -> Any:
        # most values of most files: samples
        if hint is float and type(value) is float and _is_quantity(value) and holds(value):
            return value
        if hint is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) <= _MOST_WHOLE else value
        if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
            raise _WrongError(f"is {shown(value)}, not {_WORDS.get(hint, hint)}")
        if hint is str:
            _require_text(value)
        elif hint in (int, float):
            _require_quantity(value)
        if not bound.holds(value):
            raise _WrongError(f"is {shown(value)}; it must be {bound.words}")
        return value

    return decoded


def _require_quantity(value: float) -> None:
    if isinstance(value, int):
        if abs(value) > _MOST_WHOLE:
            raise _WrongError(f"is {shown(value)}, which is too large")
    elif not math.isfinite(value):
        raise _WrongError(f"is {value!r}, not a finite number")
    elif value and not _is_quantity(value):
        raise _WrongError(f"is {value!r}, which no quantity is")


def _is_quantity(value: float) -> bool:
    return _SMALLEST <= abs(value) <= _LARGEST


def _require_text(value: str) -> None:
    if not is_text(value):
        raise _WrongError(f"is {shown(value)}, which is no text")


def is_text(value: str) -> bool:
    """Whether a text can be written: JSON can hold halves of characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
