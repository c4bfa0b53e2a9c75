"""What all spools have: a line of JSON at their beginning, what is said at their end, and damage.

What of a watch that was killed, or goes on, is damaged is counted and named; the rest is shown."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lanescope.codec.fields import FieldError, build, shown
from lanescope.codec.files import fields_of, open_file, parse_json, require_version
from lanescope.errors import InputError

#: No first line of counters is longer.
LONGEST_HEADER = 4096
#: What a sampler says at its end is shorter.
_LONGEST_SIDECAR = 1 << 20
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
    if not newline and not (line.isascii() and line.decode().isprintable()):
        raise InputError(f"{path} is no spool, or is damaged in its first line; {_REMEDY}")
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


@dataclass(frozen=True, slots=True)
class Said:
    """What a sampler said at its end."""

    lost_samples: int = 0
    cpu_seconds: float | None = None


def sidecar_of(spool: Path) -> Path:
    """Return where a sampler writes what it says at the end, such as ``pm.g0.bin.json``."""
    return spool.with_name(spool.name + ".json")


def read_sidecar(path: Path) -> Said:
    """Return what the sampler of a spool said at its end; nothing when it was cut off.

    Raises
    ------
    InputError
        If it said something else.
    """
    sidecar = sidecar_of(path)
    try:
        with open_file(sidecar, inner=2) as file:
            said = json.loads(file.read(_LONGEST_SIDECAR).decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return Said()
    with fields_of(sidecar, "name another run"):
        return build(Said, said, others=True)


@dataclass(slots=True)
class Damage:
    """Sentences on what is left out.

    Attributes
    ----------
    refuses
        Whether a file that is damaged is an error: before it is removed, say.
    """

    notes: list[str] = field(default_factory=list)
    refuses: bool = False

    @contextlib.contextmanager
    def leaving_out(self, path: Path) -> Iterator[None]:
        """Leave a file out that cannot be read; one without a whole first line holds nothing yet.

        Raises
        ------
        InputError, OSError
            If damage is refused.
        """
        try:
            yield
        except CutOffError:
            return
        except (InputError, OSError) as error:
            if self.refuses:
                raise
            if not path.exists():  # a watch that goes on has just removed it
                return
            self.notes.append(f"{path.name} is left out: {error}.")

    def lost(self, path: Path, what: str, count: int) -> None:
        """Note how many of something are left out of a file.

        Raises
        ------
        InputError
            If damage is refused.
        """
        if count and self.refuses:
            raise InputError(f"{path} is damaged: {count:,} {what}; name another run")
        if count:
            self.notes.append(f"{path.name} is damaged: {count:,} {what}; they are left out.")
