"""TARUC's own parameter files (``.in``): a line for each parameter, in one order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lanescope.codec.fields import FieldError, build, shown
from lanescope.errors import InputError
from lanescope.experiment.taruc.names import NAMES, Named, normalised
from lanescope.experiment.taruc.parameters import Parameters, require_sound

_WORDS = {"text": "a name", "bool": "true or false", "int": "a whole number"}
#: So that a later multiplication stays a size.
_MOST_DIGITS = 15


def parse_in_file(text: str, name: str) -> Parameters:
    """Return the parameters of a ``.in`` file; `name` is for messages.

    TARUC reads values by their order and looks at no label. Here a label must be
    the one of its line: what is missing or strange would shift all that follows.

    Raises
    ------
    InputError
        With the number of the line.
    """
    table: dict[str, Any] = {}
    lines = _lines(text)
    places: dict[tuple[str, str], int] = {}
    last = 0
    for entry in NAMES:
        number, line = next(lines, (0, ""))
        if not number:
            raise InputError(
                f"parameter file {name} ends after line {last}; {entry.label!r} is missing"
            )
        last = number
        places[entry.section, entry.key] = number
        home = table.setdefault(entry.section, {}) if entry.section else table
        home[entry.key] = _value(entry, line, f"parameter file {name}, line {number}")
    if (extra := next(lines, None)) is not None:
        raise InputError(
            f"parameter file {name}, line {extra[0]}: {shown(extra[1].strip())} stands behind the "
            "last parameter; take it out"
        )
    try:
        parameters = build(Parameters, table)
        require_sound(parameters)
    except FieldError as error:
        where = places.get((error.table or error.inside or "", error.field), 1)
        raise InputError(f"parameter file {name}, line {where}: {error}") from error
    return parameters


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield what is no heading; those and comments begin with a dash."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("-"):
            yield number, line


def _value(entry: Named, line: str, where: str) -> Any:
    label, equals, text = line.partition("=")
    value = text.strip()
    if not equals or normalised(label) != normalised(entry.label):
        raise InputError(
            f"{where}: expected '{entry.label} = {_WORDS[entry.kind]}', found {shown(line.strip())}"
        )
    if entry.kind == "text" and value:
        return value
    if entry.kind == "bool" and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if entry.kind == "int" and re.fullmatch(rf"[0-9]{{1,{_MOST_DIGITS}}}", value):
        return int(value) * entry.factor
    raise InputError(f"{where}: {entry.label!r} is {shown(value)}, not {_WORDS[entry.kind]}")
