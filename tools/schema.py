"""Writes docs/schema from the dataclasses: python tools/schema.py.

JSON schemas (https://json-schema.org/draft/2020-12) of what commands print as JSON.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import types
import typing
from enum import Enum
from pathlib import Path
from typing import Any

from lanescope.operators import NodeLine
from lanescope.studies.node_report import NodeReport
from lanescope.studies.runs.export import ExportedRun

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schema"
SCHEMAS = {"run": ExportedRun, "node": NodeReport, "fleet-line": NodeLine}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema_of(cls: type[Any], title: str) -> dict[str, Any]:
    """Return the schema of what a dataclass is as JSON.

    All fields are required. More may come in later versions, so that others are allowed.
    """
    definitions: dict[str, Any] = {}
    root = _schema(cls, definitions)
    name = root["$ref"].rpartition("/")[2]
    own = definitions.pop(name)
    return {"$schema": DIALECT, "title": title, **own, "$defs": dict(sorted(definitions.items()))}


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _schema(arguments[0], definitions)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_schema(one, definitions) for one in arguments]}
    if origin is tuple:
        kinds = [_schema(one, definitions) for one in arguments if one is not Ellipsis]
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": kinds[0]}
        many = {"minItems": len(kinds), "maxItems": len(kinds)}
        return {"type": "array", "prefixItems": kinds, **many}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if hint is type(None):
        return {"type": "null"}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [one.value for one in hint]}
    if dataclasses.is_dataclass(hint):
        return _table(typing.cast(Any, hint), definitions)
    return {"type": _PLAIN[hint]}


def _table(cls: type[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = {"$ref": f"#/$defs/{cls.__name__}"}
    if cls.__name__ in definitions:
        return reference
    definitions[cls.__name__] = {}  # of a type that holds itself
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = [field.name for field in dataclasses.fields(cls)]
    about = _about(cls)
    properties = {
        name: _schema(hints[name], definitions)
        | ({"description": about[name]} if name in about else {})
        for name in fields
    }
    definitions[cls.__name__] = {
        "type": "object",
        "description": (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " "),
        "properties": properties,
        "required": fields,
    }
    return reference


def _about(cls: type[Any]) -> dict[str, str]:
    """Return what a class' docstring says of each attribute."""
    _, _, text = (inspect.getdoc(cls) or "").partition("\nAttributes\n")
    found: dict[str, str] = {}
    for names, words in re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?|\n(?=    ))+)", text, re.M):
        found |= {name: " ".join(words.split()) for name in names.split(", ")}
    return found


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, cls in SCHEMAS.items():
        text = json.dumps(schema_of(cls, f"lanescope {name}"), indent=1)
        (FOLDER / f"{name}.json").write_text(f"{text}\n")
