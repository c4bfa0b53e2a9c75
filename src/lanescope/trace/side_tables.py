"""What a trace tells beside its operations, for those that have it.

Managed memory; of copies, what their calls were passed, and the stacks of Python around these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, ClassVar, Self

import numpy as np

from lanescope.trace.codes import IntArray
from lanescope.trace.operations import KINDS, Operations
from lanescope.trace.spool_records import FIRST_STACK
from lanescope.trace.stored_columns import Rows, in_memory


class ManagedKind(IntEnum):
    """What the driver did for managed memory, by CUPTI's numbers."""

    TO_GPU = 1
    FROM_GPU = 2
    CPU_FAULT = 3
    GPU_FAULT = 4
    BETWEEN_GPUS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Managed(Rows):
    """Migrations and faults of managed memory.

    Attributes
    ----------
    kind
        `ManagedKind`.
    start_ns, end_ns
        Nanoseconds since 1970; the end of a fault of a CPU is 0.
    value
        Bytes of a migration; faults of a page.
    address
        Of the first page.
    device
        The machine's number of the GPU; -1 for a fault of a CPU.
    """

    pid: IntArray
    kind: IntArray
    start_ns: IntArray
    end_ns: IntArray
    value: IntArray
    address: IntArray
    device: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class HostCopies(Rows):
    """What calls that copy were passed.

    Attributes
    ----------
    correlation
        Number that the call and its operation share within a process.
    source, destination
        Addresses; those from 2^63 on come out negative.
    node
        NUMA node of the host's first page; -1 where the kernel did not tell.
    hash
        Of the bytes that were copied, where `hashed` is 1.
    read_begin_ns, read_ns
        When a thread of the program began to read them, and how long that held it up; 0 where it
        did not, and in watches of versions that did not tell.
    same_bytes
        Of a copy to a GPU that was read: bytes in parts of 4 KiB that the last copy to its place,
        or the last one of its size, has brought at the same offsets; parts of which all words are
        the same do not count. 0 of less than 64 KiB, and in watches of versions that did not tell.
    """

    pid: IntArray
    correlation: IntArray
    source: IntArray
    destination: IntArray
    bytes: IntArray
    node: IntArray
    hash: IntArray
    hashed: IntArray
    read_begin_ns: IntArray
    read_ns: IntArray
    same_bytes: IntArray


def with_addresses(operations: Operations, called: HostCopies) -> tuple[Operations, HostCopies]:
    """Return the copies whose addresses are known, in the order of time, and those.

    One call is one copy: where several operations share a number, those of a graph say, they
    are left out.
    """
    if not len(called):
        return Operations.empty(), called
    columns = ("pid", "correlation", "bytes", "device", *KINDS)
    # in memory, as all that the calls were passed is
    operations = in_memory(operations.where(lambda o: o.is_copy & (o.correlation > 0), *columns))
    places = np.arange(len(operations))
    key = _key(operations.pid, operations.correlation)
    alone, first, count = np.unique(key, return_index=True, return_counts=True)
    alone, places = alone[count == 1], places[first[count == 1]]
    wanted = _key(called.pid, called.correlation)
    at = np.searchsorted(alone, wanted)
    known = at < alone.size
    known[known] = alone[at[known]] == wanted[known]
    with_address = np.flatnonzero(known)
    # a call that was told of twice, as the driver's and as the runtime's: the latter says more
    _, last = np.unique(wanted[with_address][::-1], return_index=True)
    with_address = with_address[::-1][last]
    rows = places[at[with_address]]
    order = np.argsort(operations.start_ns[rows], kind="stable")
    return operations.rows(rows[order]), called.rows(with_address[order])


def _key(pid: IntArray, correlation: IntArray) -> IntArray:
    return (pid << 32) + correlation


class NoLine(IntEnum):
    """Why a copy has no line, by numbers that stand in the column of stacks."""

    OVER_BUDGET = -1
    NO_ROOM = -2
    NO_PYTHON = -3
    UNKNOWN_PYTHON = -4
    UNREADABLE = -5


#: Stands in place of a line.
WHY: Mapping[NoLine, str] = {
    NoLine.OVER_BUDGET: "(left out, so that it costs the program at most 1 %)",
    NoLine.NO_ROOM: "(of more stacks than have room)",
    NoLine.NO_PYTHON: "(no Python code in the thread that called)",
    NoLine.UNKNOWN_PYTHON: "(a version of Python that cannot be read)",
    NoLine.UNREADABLE: "(Python's frames could not be read)",
}


@dataclass(frozen=True, eq=False)
class PythonLines(Rows):
    """Stacks of Python that copies of all processes were called from, a row for each such copy.

    Attributes
    ----------
    start_ns, correlation
        Start of the call, and the number that it and its operation share.
    stack
        Index into `stacks`, or a `NoLine`.
    stacks
        A line for each frame, the innermost first: ``p`` or ``l`` for the program's own code or a
        library's, the line's number, a tab, the function, a tab, the file.
    spent_ns
        What reading them took in the program's threads, in sum.
    """

    coded: ClassVar[tuple[str, str]] = ("stack", "stacks")
    reserved: ClassVar[Sequence[int]] = sorted(NoLine)

    pid: IntArray
    start_ns: IntArray
    correlation: IntArray
    stack: IntArray
    stacks: tuple[str, ...] = ()
    spent_ns: int = 0

    @staticmethod
    def by_codes(texts: Mapping[int, str], spent_ns: int, **columns: Any) -> PythonLines:
        """Return rows whose stacks are codes of a spool; a stack without a text had no room."""
        codes, which = np.unique(columns.pop("stack"), return_inverse=True)
        places = {code: place for place, code in enumerate(texts)}
        known = {-reason: reason for reason in map(int, NoLine)}
        found = [
            places.get(code, NoLine.NO_ROOM)
            if code >= FIRST_STACK
            else known.get(code, NoLine.UNREADABLE)
            for code in codes.tolist()
        ]
        stack = np.array(found, np.int64)[which.reshape(-1)]
        return PythonLines.of(tuple(texts.values()), spent_ns, stack=stack, **columns)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several one after the other, with one list of stacks."""
        return replace(super().concat(parts), spent_ns=sum(part.spent_ns for part in parts))


@dataclass(frozen=True, slots=True)
class Frame:
    """A function that was running, and the line that it had come to."""

    file: str
    line: int
    function: str
    is_library: bool

    @property
    def text(self) -> str:
        """Return it as it is shown: the file's last two names, the line, the function."""
        file = self.file if self.file.startswith("<") else "/".join(self.file.split("/")[-2:])
        return f"{file}:{self.line} {self.function}"


def frames_of(stack: str) -> tuple[Frame, ...]:
    """Return the frames of a stack's text, the innermost first; what is none is left out."""
    found = []
    for row in stack.split("\n"):
        head, *rest = row.split("\t")
        if len(rest) == 2 and head[:1] in ("p", "l") and head[1:].isdecimal():
            found.append(Frame(rest[1], int(head[1:]), rest[0], head[0] == "l"))
    return tuple(found)
