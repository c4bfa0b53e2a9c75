"""The line of JSON that spools begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from lanescope.codec.fields import FieldError, build, shown
from lanescope.codec.files import fields_of, parse_json, require_version
from lanescope.errors import InputError

#: No first line of counters is longer.
LONGEST_HEADER = 4096
_REMEDY = "watch the program again"

T = TypeVar("T")


class CutOffError(InputError):
    """A spool ends in its first line: its writer was killed before it saw anything."""


def header_of(
    path: Path, content: bytes, kind: type[T], version: int, source: str | None = None
) -> tuple[T, int]:
    """Return the first line of a spool, and where its records begin.

    Parameters
    ----------
    kind
        A dataclass of what the line says; what else it says is not looked at.
    version
        Of the layout that is read here.
    source
        Who must have written it; None is anyone.

    Raises
    ------
    CutOffError
        If there is no whole line.
    InputError
        If it is not one of such a spool.
    """
    line, newline, _ = content.partition(b"\n")
    if not newline:
        raise CutOffError(f"{path} is no spool, or is cut off in its first line; {_REMEDY}")
    name = f"the first line of {path}"
    table: Any = parse_json(line.decode("utf-8", "replace"), name)
    with fields_of(name, _REMEDY):
        if not isinstance(table, dict) or "source" not in table:
            raise FieldError("field 'source' is missing, so this is no spool", "source")
        if source is not None and table["source"] != source:
            raise FieldError(
                f"this is a spool of {shown(table['source'])}, not of {source}", "source"
            )
        require_version(table.get("version"), version, path)
        return build(kind, table, others=True), len(line) + 1
