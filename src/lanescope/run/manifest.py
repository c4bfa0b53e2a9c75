"""The manifest of a run folder, of whatever verb: what it was, when, and how far it came."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from lanescope.codec.fields import FieldError, decode, shown
from lanescope.codec.fields import build as build_fields
from lanescope.codec.files import fields_of, read_json, require_version
from lanescope.machine.files import machine_in_folder
from lanescope.run.folders import MANIFEST as MANIFEST
from lanescope.run.run import SCHEMA_VERSION

T = TypeVar("T")

MACHINE = "machine.toml"
_REMEDY = "name another run"
#: Fields of every manifest that not every dataclass of one has.
_ALL = ("verb", "what", "schema_version", "described")


def verb_of(folder: Path) -> str:
    """Return which verb wrote a run folder.

    Raises
    ------
    InputError
        If it is no run folder, of another schema version, or damaged.
    """
    return str(_content(folder)["verb"])


def read_manifest(kind: type[T], folder: Path) -> T:
    """Return what a run folder says about itself.

    Parameters
    ----------
    kind
        A dataclass with the machine, which has a file of its own, and the manifest's fields.

    Raises
    ------
    InputError
        As `verb_of`; with the file and the field.
    """
    content = _content(folder)
    machine = machine_in_folder(folder / MACHINE)
    with fields_of(folder / MANIFEST, _REMEDY):
        described = decode(bool, content.get("described", False), "described")
        known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
        told = {key: value for key, value in content.items() if key in known or key not in _ALL}
        told["machine"] = dataclasses.replace(machine, described=described)
        return build_fields(kind, told)


def _content(folder: Path) -> Mapping[str, Any]:
    path = folder / MANIFEST
    content = read_json(path, inner=1)
    with fields_of(path, _REMEDY):
        if not isinstance(content, dict):
            raise FieldError(f"it holds {shown(content)}, not a table", "")
        for field in ("schema_version", "verb"):
            if field not in content:
                raise FieldError(f"field {field!r} is missing", field)
        writer = content.get("tool_version")
        require_version(content["schema_version"], SCHEMA_VERSION, path, writer=writer)
        decode(str, content["verb"], "verb")
    return content
