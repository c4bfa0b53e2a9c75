"""Which lines of Python copied what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lanescope.trace.attribution import Tally
from lanescope.trace.codes import Direction, IntArray, MemoryKind
from lanescope.trace.operations import Operations
from lanescope.trace.python_lines import WHY, Frame, NoLine, PythonLines, frames_of

_Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class LineCopies:
    """Copies of one direction and kind of host memory that one line of Python called for.

    Attributes
    ----------
    line
        The innermost frame of the program's own code; of a library where none is. None where it is
        not known.
    caller
        The program's own frame that called the former's function, where it is known.
    innermost
        The frame that called for the copy, where that is not `line`.
    why
        Why the line is not known; None where it is.
    direction, memory
        Such as ``h2d`` and ``pageable``; the memory is None between GPUs.
    count, total_bytes, seconds
        How many there are, their bytes, and how long they took, as far as that is known.
    """

    line: Frame | None
    caller: Frame | None
    innermost: Frame | None
    why: str | None
    direction: str
    memory: str | None
    count: int
    total_bytes: int
    seconds: float


#: What distinguishes copies: line, its caller, innermost frame; why there is no line.
_Origin = tuple[Frame | None, Frame | None, Frame | None, str | None]


def _origin(stack: str) -> _Origin:
    frames = frames_of(stack)
    if not frames:
        return None, None, None, WHY[NoLine.UNREADABLE]
    own = [frame for frame in frames if not frame.is_library]
    line, caller = own[0] if own else frames[0], own[1] if len(own) > 1 else None
    return line, caller, None if line is frames[0] else frames[0], None


class CalledFrom:
    """Finds which stacks operations were called from; made once for all pieces of long watches."""

    #: Stands for no stack that was wanted, where others are `PythonLines.stack`.
    NOT_WANTED = min(NoLine) - 1

    def __init__(self, lines: PythonLines) -> None:
        keys = _keys(lines.pid, lines.correlation, lines.start_ns)
        order = np.argsort(keys, kind="stable")
        self._keys, self._stacks = keys[order], lines.stack[order]

    def stacks(self, operations: Operations) -> IntArray:
        """Return for each operation an index into the stacks, a `NoLine`, or `NOT_WANTED`."""
        if not len(self._keys):
            return np.full(len(operations), self.NOT_WANTED, np.int64)
        wanted = _keys(operations.pid, operations.correlation, operations.call_start_ns)
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        there = (self._keys[place] == wanted) & (operations.correlation > 0)
        return np.where(there, self._stacks[place], self.NOT_WANTED)


def line_texts(lines: PythonLines) -> list[str]:
    """Return the line of each stack with its whole path; then of each reason, and of none, empty.

    What `CalledFrom.stacks` returns finds its own, a number below 0 from the end.
    """
    found = [_origin(stack)[0] for stack in lines.stacks]
    texts = [f"{one.file}:{one.line} {one.function}" if one else "" for one in found]
    return [*texts, *[""] * (1 + len(NoLine))]


def copies_by_line(operations: Operations, lines: PythonLines) -> tuple[LineCopies, ...]:
    """Return which lines copied what, that with the most bytes first."""
    if not len(lines):
        return ()
    called = CalledFrom(lines)
    of_stacks = [
        *map(_origin, lines.stacks),
        *((None, None, None, WHY[why]) for why in sorted(NoLine)),
    ]
    origins: dict[_Origin, int] = {}
    # a reason, a number below 0, finds its own from the end
    numbers = np.array([origins.setdefault(one, len(origins)) for one in of_stacks], np.int64)
    tally = Tally()
    for piece in operations.pieces():
        found = piece.rows(piece.is_copy)
        stacks = called.stacks(found)
        wanted = stacks != CalledFrom.NOT_WANTED
        found, origin = found.rows(wanted), numbers[stacks[wanted]]
        key = (origin * 8 + found.direction) * 8 + found.host_memory
        ones = np.ones(len(found), np.int64)
        tally.add(key, (ones, found.bytes, found.end_ns - found.start_ns))
    by_number = list(origins)
    columns, sums = tally.sums(3)
    rows = [
        _line_copies(by_number[key >> 6], key, *values)
        for key, values in zip(columns.tolist(), sums.T.tolist(), strict=True)
    ]
    return tuple(sorted(rows, key=lambda one: -one.total_bytes))


def _line_copies(
    origin: _Origin, key: int, count: int, total_bytes: int, lasted_ns: int
) -> LineCopies:
    memory = MemoryKind(key & 7)
    direction = Direction(key >> 3 & 7).label
    kind = memory.label if memory else None
    return LineCopies(*origin, direction, kind, count, total_bytes, lasted_ns * 1e-9)


def _keys(pid: IntArray, correlation: IntArray, start_ns: IntArray) -> _Keys:
    """Return what distinguishes calls: a number of a process may be another process's later."""
    key = (pid.astype(np.uint64) << np.uint64(32)) + correlation.astype(np.uint64)
    mixed: _Keys = key * np.uint64(0x9E3779B97F4A7C15) + start_ns.astype(np.uint64)
    return mixed
