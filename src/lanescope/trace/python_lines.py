"""Stacks of Python that the copies of a watch were called from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np

from lanescope.trace.codes import IntArray
from lanescope.trace.trace_records import FIRST_STACK


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


@dataclass(frozen=True, slots=True, eq=False)
class PythonLines:
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

    pid: IntArray
    start_ns: IntArray
    correlation: IntArray
    stack: IntArray
    stacks: tuple[str, ...] = ()
    spent_ns: int = 0

    @staticmethod
    def of(stacks: Sequence[str] = (), spent_ns: int = 0, **columns: Any) -> PythonLines:
        """Return rows from columns or anything like them."""
        given = {name: np.asarray(columns[name]).astype(np.int64) for name in COLUMNS}
        return PythonLines(**given, stacks=tuple(stacks), spent_ns=spent_ns)

    @staticmethod
    def empty() -> PythonLines:
        """Return no rows."""
        return PythonLines.of((), 0, **dict.fromkeys(COLUMNS, ()))

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

    @staticmethod
    def concat(parts: Sequence[PythonLines]) -> PythonLines:
        """Return the rows of several one after the other, with one list of stacks."""
        numbers: dict[str, int] = {}
        columns: dict[str, list[Any]] = {name: [np.empty(0, np.int64)] for name in COLUMNS}
        for part in parts:
            renamed = [numbers.setdefault(text, len(numbers)) for text in part.stacks]
            table = np.array([*renamed, *sorted(NoLine)], np.int64)  # the latter from the end
            for name in COLUMNS:
                column = getattr(part, name)
                columns[name].append(table[column] if name == "stack" else column)
        joined = {name: np.concatenate(found) for name, found in columns.items()}
        return PythonLines.of(tuple(numbers), sum(part.spent_ns for part in parts), **joined)

    def __len__(self) -> int:
        return int(self.pid.size)


#: Every column, in the order of the fields.
COLUMNS = tuple(f.name for f in fields(PythonLines) if f.name not in ("stacks", "spent_ns"))


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
