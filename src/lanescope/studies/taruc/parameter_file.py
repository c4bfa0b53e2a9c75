"""Parameter files of a suite: TOML, or the INI of TARUC."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.resources
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lanescope.codec.fields import FieldError, build, shown
from lanescope.codec.files import line_of, parse_toml, read_text
from lanescope.errors import InputError
from lanescope.studies.taruc.parameters import (
    NAMES,
    SECTIONS,
    Named,
    Parameters,
    named,
    normalised,
    require_sound,
)
from lanescope.units.sizes import parse_size

_HEADER = """\
# Parameters of a suite for 'lanescope bench --params FILE'. Sizes are bytes, or texts
# such as "1.5GB". What is left out keeps its default. In brackets: TARUC's name.
"""
_WIDTH = 36


def parameters_text(parameters: Parameters) -> str:
    """Return a file that reads back as these parameters."""
    lines = [_HEADER + "\n".join(_text_lines(parameters, ""))]
    for entry in dataclasses.fields(parameters):
        section = getattr(parameters, entry.name)
        if dataclasses.is_dataclass(section):
            lines.append(f"\n[{entry.name}]\n" + "\n".join(_text_lines(section, entry.name)))
    return "\n".join(lines) + "\n"


def taruc_label(section: str, key: str) -> str | None:
    """Return TARUC's name of a parameter."""
    labels = [n.label for n in NAMES if (n.section, n.key) == (section, key)]
    return labels[0] if labels else None


def _text_lines(section: Any, name: str) -> list[str]:
    lines = []
    for entry in dataclasses.fields(section):
        value = getattr(section, entry.name)
        if dataclasses.is_dataclass(value):
            continue
        label = taruc_label(name, entry.name)
        words = entry.metadata["words"] + (f" [{label}]" if label else "")
        # TOML has no word for nothing: the line is there to be filled in
        line = f"# {entry.name} =" if value is None else f"{entry.name} = {_toml(value)}"
        lines.append(f"{line:{_WIDTH}} # {words}")
    return lines


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}"
    # JSON's strings are TOML's, but for the one control character it leaves as it is
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


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


#: The suite that runs when nobody names a file.
DEFAULT = "default"
_SECTION_NAMES = tuple(
    f.name for f in dataclasses.fields(Parameters) if dataclasses.is_dataclass(f.default)
)


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterFile:
    """Parameters with their text as TOML, which a run keeps."""

    parameters: Parameters
    text: str


def parameters_named(file_or_name: str) -> ParameterFile:
    """Return a suite by file (TOML or ``.in``) or by the name of one that ships.

    Raises
    ------
    InputError
        If there is none, or it is broken: with file, line and key.
    """
    path = Path(file_or_name)
    if path.suffix in (".toml", ".in") or path.is_file() or os.sep in file_or_name:
        return _read(path)
    names = suite_names()
    if file_or_name == DEFAULT:
        return ParameterFile(Parameters(), parameters_text(Parameters()))
    if file_or_name in names:
        text = _library(file_or_name).read_text(encoding="utf-8")
        return ParameterFile(parse_parameters(text, file_or_name), text)
    near = difflib.get_close_matches(file_or_name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}, or name a file"
    raise InputError(f"no suite is named {file_or_name!r}; {hint}")


def suite_names() -> list[str]:
    """Return the names of the suites that ship with lanescope."""
    return [DEFAULT, "taruc"]


def parse_parameters(text: str, name: str) -> Parameters:
    """Return the parameters that a TOML text gives; `name` is for messages.

    Keys that are left out have their defaults. Sizes are bytes or texts such as
    ``"1.5GB"``. TARUC's own names are understood, too.

    Raises
    ------
    InputError
        If the text is broken: with line and key.
    """
    table = parse_toml(text, f"parameter file {name}")
    written: dict[tuple[str, str], str] = {}
    try:
        parameters = build(Parameters, _translated(table, written))
        require_sound(parameters)
    except FieldError as error:
        section = error.table or error.inside or ""
        error.table, error.inside = "", written.get(("", section), section) or None
        error.field = written.get((section, error.field), error.field)
        where = f"parameter file {name}, line {line_of(text, error)}"
        raise InputError(f"{where}: {f'[{section}] ' if section else ''}{error}") from error
    return parameters


def _read(path: Path) -> ParameterFile:
    text = read_text(path, f"parameter file {path}")
    if path.suffix == ".in":
        parameters = parse_in_file(text, str(path))
        return ParameterFile(parameters, parameters_text(parameters))
    return ParameterFile(parse_parameters(text, str(path)), text)


def _library(name: str) -> Any:
    return importlib.resources.files("lanescope.studies.taruc") / f"{name}.toml"


def _translated(table: dict[str, Any], written: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Return a table under our names; `written` learns how a key stands in the file."""
    plain: dict[str, Any] = {}
    for key, value in table.items():
        section = key if key in _SECTION_NAMES else SECTIONS.get(normalised(key), "")
        if isinstance(value, dict) and section:
            _take(plain, "", section, {}, key, written)
            for inner, content in value.items():
                _place(plain[section], section, inner, content, written)
        elif (entry := named(key, "")) is not None and entry.section:
            home = plain.setdefault(entry.section, {})
            _place(home, entry.section, key, value, written)
        else:
            _place(plain, "", key, value, written)
    return plain


def _place(
    home: dict[str, Any], section: str, key: str, value: Any, written: dict[tuple[str, str], str]
) -> None:
    entry = named(key, section)
    factor = 1 if entry is None else entry.factor
    ours = key if entry is None else entry.key
    if ours.endswith("_bytes") and isinstance(value, str):
        try:
            value = parse_size(value)
        except InputError as error:
            raise FieldError(f"{key}: {error}", key, section) from error
    elif factor != 1 and isinstance(value, int) and not isinstance(value, bool):
        value *= factor
    _take(home, section, ours, value, key, written)


def _take(
    home: dict[str, Any],
    section: str,
    key: str,
    value: Any,
    as_written: str,
    written: dict[tuple[str, str], str],
) -> None:
    if key in home and not (isinstance(value, dict) and (section, key) not in written):
        problem = f"{as_written!r} and {written.get((section, key), key)!r} say the same"
        raise FieldError(f"{problem}; give one of them", as_written, section)
    written[section, key] = as_written
    home.setdefault(key, value)
