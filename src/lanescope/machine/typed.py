"""Builds frozen dataclasses from plain tables, checking every field on the way."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import types
import typing
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")


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
        self, problem: str, field: str, table: str = "", number: int | None = None
    ) -> None:
        super().__init__(problem)
        self.field = field
        self.table = table
        self.number = number
        self.inside: str | None = None


def build(cls: type[T], table: dict[str, Any], name: str = "", number: int | None = None) -> T:
    """Return an instance of a dataclass from a table of its fields.

    Raises
    ------
    FieldError
        If a field is unknown, missing or of the wrong kind.
    """
    if not isinstance(table, dict):
        raise FieldError(f"{table!r} is not a table; write [[{name}]]", name)
    hints = _hints(typing.cast(Any, cls))
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in fields:
            raise FieldError(
                f"unknown field {key!r}; {_hint(key, list(fields))}", key, name, number
            )
    values = {}
    for key, field in fields.items():
        if key in table:
            try:
                values[key] = _convert(hints[key], table[key], key)
            except FieldError as error:
                if error.number is None:  # of a table inside this one
                    error.table, error.number, error.inside = name, number, key
                raise
            except (TypeError, ValueError) as error:
                raise FieldError(f"field {key!r} {error}", key, name, number) from error
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise FieldError(f"field {key!r} is missing", key, name, number)
    return cls(**values)


@functools.cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    """Return the types of a dataclass's fields; finding them out is slow."""
    return typing.get_type_hints(cls)


def _hint(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"


def _convert(hint: Any, value: Any, key: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _convert(next(a for a in arguments if a is not type(None)), value, key)
    if origin is tuple:
        return _convert_list(arguments, value, key)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise TypeError("must be a table")
        return build(typing.cast(type[Any], hint), value, key)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        if value not in list(hint):
            raise ValueError(f"is {value!r}, not one of {', '.join(hint)}")
        return hint(value)
    return _convert_number(hint, value)


def _convert_list(arguments: tuple[Any, ...], value: Any, key: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError("must be a list")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        if dataclasses.is_dataclass(arguments[0]):
            kind = typing.cast(type[Any], arguments[0])
            return tuple(build(kind, entry, key, i) for i, entry in enumerate(value))
        return tuple(_convert(arguments[0], entry, key) for entry in value)
    if len(value) != len(arguments):
        raise ValueError(f"must have {len(arguments)} entries, not {len(value)}")
    return tuple(_convert(a, entry, key) for a, entry in zip(arguments, value, strict=True))


def _convert_number(hint: Any, value: Any) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
        raise TypeError(f"is {value!r}, not {words.get(hint, hint)}")
    if hint in (int, float) and not 0 <= value < float("inf"):
        raise ValueError(f"is {value!r}; it must be zero or more")
    return value
