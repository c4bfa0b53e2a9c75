"""What all spools have, a line of JSON first and damage; and the records in those of traces.

The layouts of records are those of native/src/inject/spool_format.hpp. What of a watch that was
killed, or goes on, is damaged is counted and named; the rest is shown.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from lanescope.codec.fields import FieldError, build, shown
from lanescope.codec.files import (
    fields_of,
    open_file,
    opened_folder,
    parse_json,
    require_version,
)
from lanescope.errors import InputError

#: No first line of counters is longer.
LONGEST_HEADER = 4096
#: What a sampler says at its end is shorter.
_LONGEST_SIDECAR = 1 << 20
_REMEDY = "watch the program again"
T = TypeVar("T")
Table = npt.NDArray[np.void]
#: A flag of operations.
TIMES_UNKNOWN = 1
#: Flags of losses: left out so that the disk does not fill up; and what all of them are.
NO_ROOM, KERNELS, CALLED, ONLY_COUNTED = 1, 2, 4, 8
#: A flag of calls: counted, so that their times are estimates.
COUNTED = 1
#: A flag of ends: the trace ended before the process did.
CUT_SHORT = 1
#: A flag of host copies.
HASH_KNOWN = 1
#: Of any kind: texts are cut off before.
LONGEST_RECORD = 1 << 20
HEAD = np.dtype([("kind", "<u2"), ("flags", "<u2"), ("size", "<u4")])
OPERATIONS = np.dtype(
    [
        ("head", HEAD),
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("bytes", "<i8"),
        ("what", "<u4"),
        ("copy_kind", "u1"),
        ("source_kind", "u1"),
        ("destination_kind", "u1"),
        ("asynchronous", "u1"),
        ("source_device", "<i4"),  # 0xFFFFFFFF, the host, becomes -1
        ("destination_device", "<i4"),
        ("device", "<i4"),
        ("context", "<u4"),
        ("stream", "<u4"),
        ("correlation", "<u4"),
        ("name", "<u4"),
        ("count", "<u4"),
        ("reserved", "<u4", 2),
    ]
)
CALLS = np.dtype(
    [
        ("head", HEAD),
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("correlation", "<u4"),
        ("thread", "<u4"),
        ("name", "<u4"),
        ("result", "<u4"),
    ]
)
EDGES = np.dtype(
    [
        ("head", HEAD),
        ("at_ns", "<i8"),
        ("id", "<u8"),
        ("thread", "<u4"),
        ("name", "<u4"),
        ("domain", "<u4"),
        ("kind", "<u4"),
    ]
)
MANAGED = np.dtype(
    [
        ("head", HEAD),
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("value", "<i8"),
        ("address", "<i8"),
        ("kind", "<u4"),
        ("device", "<i4"),
    ]
)
HOST_COPIES = np.dtype(
    [
        ("head", HEAD),
        ("source", "<i8"),
        ("destination", "<i8"),
        ("bytes", "<i8"),
        ("hash", "<i8"),
        ("correlation", "<u4"),
        ("node", "<i4"),
        ("read_begin_ns", "<i8"),
        ("read_ns", "<i8"),
        ("same_bytes", "<i8"),
    ]
)
#: Of the codes of stacks this is the number of the first stack; those below say why there is none.
FIRST_STACK = 16
LINES = np.dtype([("head", HEAD), ("start_ns", "<i8"), ("correlation", "<u4"), ("stack", "<u4")])
COUNTS = np.dtype([("head", HEAD), ("at_ns", "<i8"), ("records", "<u8")])
PUSH, POP, START, END = range(4)


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


class RecordKind(IntEnum):
    """Kinds of records."""

    OPERATION = 1
    STRING = 2
    CALL = 3
    LOSS = 4
    END = 5
    NOTE = 6
    RANGE = 7
    MANAGED = 8
    HOST_COPY = 9
    GPU = 10
    STACK = 11
    LINE = 12
    LINE_COST = 13


class RecordRun(NamedTuple):
    """Records of one kind and size that stand behind each other."""

    at: int
    size: int
    many: int


def text_record(kind: RecordKind, number: int, text: str) -> bytes:
    """Return a string, a note (number 0) or a GPU's address as a record of a spool."""
    content = text.encode()
    padded = content + bytes(-len(content) % 8)
    head = np.array((kind, 0, HEAD.itemsize + 8 + len(padded)), HEAD)
    numbers = np.array((number, len(content)), "<u4,<u4")
    return head.tobytes() + numbers.tobytes() + padded


def count_record(kind: RecordKind, at_ns: int, records: int, flags: int = 0) -> bytes:
    """Return a loss, or the end, as a record of a spool."""
    return np.array(((kind, flags, COUNTS.itemsize), at_ns, records), COUNTS).tobytes()


def append_whole(path: Path, content: bytes) -> bool:
    """Append all of it to a spool or nothing; return whether that worked."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with opened_folder(path.parent, inner=1) as folder:
            descriptor = os.open(path.name, flags, 0o644, dir_fd=folder)
        with open(descriptor, "ab", buffering=0) as file:
            before = os.fstat(descriptor).st_size
            if file.write(content) == len(content):
                return True
            file.truncate(before)  # no half a record in the middle
    except (OSError, InputError):
        pass
    return False


def cut_spool(path: Path, length: int) -> None:
    """Shorten a spool to its whole records, so that those that are appended can be read."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError, InputError), opened_folder(path.parent, inner=1) as folder:
        descriptor = os.open(path.name, flags, dir_fd=folder)
        try:
            os.ftruncate(descriptor, length)
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class WholeRecords:
    """The places of a spool's whole records by their kind, and where the last of them ends."""

    content: bytes
    runs: Mapping[int, Sequence[RecordRun]]
    end: int = 0

    @property
    def damaged(self) -> int:
        """Bytes behind the last whole record, where they are no record that was cut off."""
        rest = len(self.content) - self.end
        size = int.from_bytes(self.content[self.end + 4 : self.end + 8], "little")
        cut_off = rest < HEAD.itemsize or (rest < size <= LONGEST_RECORD and size % 8 == 0)
        return 0 if cut_off else rest

    @classmethod
    def found_in(cls, content: bytes, begin: int) -> WholeRecords:
        """Return the places of the records from `begin` to the first that is not whole."""
        runs: dict[int, list[RecordRun]] = {}
        at, end = begin, len(content)
        while at + HEAD.itemsize <= end:
            kind = int.from_bytes(content[at : at + 2], "little")
            size = int.from_bytes(content[at + 4 : at + 8], "little")
            if size < HEAD.itemsize or size % 8 or at + size > end:
                break  # cut off, or damaged: what follows cannot be told
            run = RecordRun(at, size, _run(content, at, size, end))
            runs.setdefault(kind, []).append(run)
            at += size * run.many
        return cls(content, runs, at)

    def table(self, kind: RecordKind, layout: np.dtype[np.void]) -> Table:
        """Return the records of a kind that has a fixed layout."""
        return np.concatenate(
            [
                np.ndarray((run.many,), layout, self.content, run.at, (run.size,))
                for run in self.runs.get(kind, ())
                if run.size >= layout.itemsize
            ]
            or [np.empty(0, layout)]
        )

    def texts(self, kind: RecordKind) -> list[tuple[int, str]]:
        """Return the numbers and the texts of strings or notes."""
        found = []
        for run in self.runs.get(kind, ()):
            for place in range(run.at, run.at + run.size * run.many, run.size):
                identity = int.from_bytes(self.content[place + 8 : place + 12], "little")
                length = int.from_bytes(self.content[place + 12 : place + 16], "little")
                text = self.content[place + 16 : place + min(16 + length, run.size)]
                found.append((identity, text.decode("utf-8", "replace")))
        return found


def _run(content: bytes, at: int, size: int, end: int) -> int:
    """Return how many records behind each other have the kind and size of the one at `at`."""
    reach, count = 16, 1
    while True:  # in growing steps: most runs are short, some are very long
        most = min(reach, (end - at) // size)
        heads = np.ndarray((most,), HEAD, content, at, (size,))
        other = (heads["kind"] != heads["kind"][0]) | (heads["size"] != size)
        count = int(other.argmax()) if other.any() else most
        if count < most or most < reach:
            return count
        reach *= 16
