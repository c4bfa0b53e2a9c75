"""Who moved the bytes: traced copies by size, process, stream, thread, path and line of Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lanescope.trace.codes import UNKNOWN_THREAD, DirectionCode, IntArray, MemoryKind
from lanescope.trace.operations import Operations
from lanescope.trace.side_tables import WHY, Frame, NoLine, PythonLines, frames_of
from lanescope.trace.timeline import NO_RANGE, OpenRanges, Process, Ranges
from lanescope.units.sizes import bandwidth_gbs

#: Pieces are brought together when there are so many groups: 32 MB.
_MOST_PENDING = 1 << 20
#: Codes below this are told apart by a table, which is ten times quicker than sorting.
_MOST_CODES = 1 << 18
_Keys = npt.NDArray[np.uint64]


def groups_of(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return which combinations of values there are, a row each, and that of each row.

    Columns are not empty.
    """
    code, codes = np.zeros(columns[0].size, np.int64), 1
    for column in columns:
        least, most = int(column.min()), int(column.max())
        place = column - least
        if codes * (most - least + 1) > _MOST_CODES:
            values, place = np.unique(column, return_inverse=True)
            least, most = 0, values.size - 1
        code, codes = code * (most - least + 1) + place, codes * (most - least + 1)
        if codes > _MOST_CODES:
            values, code = np.unique(code, return_inverse=True)
            codes = values.size
    first = np.full(codes, -1)
    first[code[::-1]] = np.arange(code.size)[::-1]
    there = first >= 0
    keys = np.stack([column[first[there]] for column in columns], axis=1).astype(np.int64)
    return keys, (np.cumsum(there) - 1)[code]


class KeyedSums:
    """Sums of columns of whole numbers for each key; memory grows with the keys alone."""

    def __init__(self) -> None:
        self._parts: list[IntArray] = []  # rows: key, sums
        self._pending = 0

    def add(self, keys: IntArray, columns: Sequence[IntArray]) -> None:
        """Add values, each to the sum of its key."""
        self._parts.append(_grouped(np.stack((keys, *columns))))
        self._pending += self._parts[-1].shape[1]
        if self._pending > _MOST_PENDING:
            self._parts, self._pending = [_grouped(np.concatenate(self._parts, axis=1))], 0

    def sums(self, columns: int) -> tuple[IntArray, IntArray]:
        """Return the keys in order, and a row of sums for each of so many columns."""
        if not self._parts:
            return np.empty(0, np.int64), np.empty((columns, 0), np.int64)
        whole = _grouped(np.concatenate(self._parts, axis=1))
        return whole[0], whole[1:]


def _grouped(rows: IntArray) -> IntArray:
    ordered = rows[:, np.argsort(rows[0], kind="stable")]
    if not ordered.shape[1]:
        return ordered
    first = np.flatnonzero(np.diff(ordered[0], prepend=ordered[0, 0] - 1))
    return np.concatenate((ordered[:1, first], np.add.reduceat(ordered[1:], first, axis=1)))


#: Programs with copies of every size have as many groups as copies: only so many are kept.
MOST_GROUPS = 1000
#: What tells those apart who moved bytes.
_KEYS = {
    "process": ("pid",),
    "stream": ("pid", "context", "stream"),
    "thread": ("pid", "thread"),
    "path": ("direction", "host_memory"),
}
#: What `Share.by` can be.
DIRECTIONS_TO_ASK = ("process", "stream", "thread", "range", "path")


@dataclass(frozen=True, slots=True)
class CopyGroup:
    """Copies of one size, direction and kind of host memory.

    Attributes
    ----------
    direction, memory
        Such as ``h2d`` and ``pageable``; the memory is None between GPUs.
    asynchronous
        As their calls are flagged.
    bytes
        Of each of them.
    count, total_bytes, seconds
        How many there are, and their bytes and GPU time in sum.
    gbs
        Their mean rate in GB/s; None where no time was seen.
    """

    direction: str
    memory: str | None
    asynchronous: bool
    bytes: int
    count: int
    total_bytes: int
    seconds: float
    gbs: float | None


@dataclass(frozen=True, slots=True)
class Share:
    """Traced bytes of one process, stream, thread, range or path.

    Attributes
    ----------
    by
        One of `DIRECTIONS_TO_ASK`.
    share
        Of all traced bytes that moved.
    """

    by: str
    name: str
    count: int
    total_bytes: int
    share: float


def copy_groups(operations: Operations) -> tuple[CopyGroup, ...]:
    """Return the groups with the most bytes and those with the most copies, by bytes."""
    tally = KeyedSums()
    for piece in operations.pieces():
        found = piece.rows(piece.is_copy)
        key = ((found.bytes * 8 + found.direction) * 8 + found.host_memory) * 2 + found.asynchronous
        tally.add(key, (np.ones(len(found), np.int64), found.end_ns - found.start_ns))
    keys, (counts, lasted_ns) = tally.sums(2)
    sizes = keys >> 7
    largest = np.union1d(_largest(sizes * counts), _largest(counts))
    groups = []
    for key, count, lasted in zip(
        *(c[largest].tolist() for c in (keys, counts, lasted_ns)), strict=True
    ):
        size, direction, memory = key >> 7, key >> 4 & 7, MemoryKind(key >> 1 & 7)
        seconds = lasted * 1e-9
        groups.append(
            CopyGroup(
                DirectionCode(direction).label,
                memory.label if memory else None,
                bool(key & 1),
                size,
                count,
                size * count,
                seconds,
                bandwidth_gbs(size * count, seconds) if lasted > 0 else None,
            )
        )
    return tuple(sorted(groups, key=lambda g: (-g.total_bytes, -g.count, g.bytes)))


def _largest(column: IntArray) -> IntArray:
    """Return the rows with the largest values, in any order."""
    if column.size <= MOST_GROUPS:
        return np.arange(column.size)
    return np.argpartition(column, column.size - MOST_GROUPS)[-MOST_GROUPS:]


def attribution(
    operations: Operations, processes: Sequence[Process], ranges: Ranges | None = None
) -> tuple[Share, ...]:
    """Return who moved what, for each way to ask the largest first.

    Parameters
    ----------
    ranges
        NVTX ranges of the processes; those of one name count as one.
    """
    commands = {process.pid: process.command for process in processes}
    tallies: dict[str, dict[tuple[int, ...], list[int]]] = {by: {} for by in _KEYS}
    for piece in operations.pieces():
        found = piece.rows(piece.moves)
        for by, names in _KEYS.items():
            rows = found.rows(found.thread != UNKNOWN_THREAD) if by == "thread" else found
            _add(tallies[by], [getattr(rows, name).astype(np.int64) for name in names], rows.bytes)
    total = sum(moved for _, moved in tallies["process"].values())
    shares: list[Share] = []
    for by, tally in tallies.items():
        shares += sorted(
            (
                Share(by, _name(by, key, commands), count, moved, moved / total if total else 0.0)
                for key, (count, moved) in sorted(tally.items())
            ),
            key=lambda share: -share.total_bytes,
        )
    return (*shares, *_range_shares(operations, ranges, total))


def _range_shares(operations: Operations, ranges: Ranges | None, total: int) -> list[Share]:
    if ranges is None or not len(ranges) or not total:
        return []
    tally: dict[str, tuple[int, int]] = {}
    opened = OpenRanges(ranges)
    names = opened.names
    for piece in operations.pieces():
        found = piece.rows(piece.moves)
        code = opened.codes(found)
        counts, sums = np.bincount(code, minlength=len(names)), np.zeros(len(names), np.int64)
        np.add.at(sums, code, found.bytes)
        for i in np.flatnonzero(counts).tolist():
            name = names[i] or NO_RANGE
            count, moved = tally.get(name, (0, 0))
            tally[name] = (count + int(counts[i]), moved + int(sums[i]))
    named = [
        Share("range", name, count, moved, moved / total) for name, (count, moved) in tally.items()
    ]
    return sorted(named, key=lambda share: -share.total_bytes)


def _add(tally: dict[tuple[int, ...], list[int]], columns: list[IntArray], moved: IntArray) -> None:
    """Add rows and their bytes to counts and sums by the values of some columns."""
    if not moved.size:
        return
    keys, group = groups_of(columns)
    counts = np.bincount(group, minlength=len(keys))
    sums = np.zeros(len(keys), np.int64)  # whole numbers: floats lose bytes above 9 PB
    np.add.at(sums, group, moved)
    for key, count, total in zip(keys.tolist(), counts.tolist(), sums.tolist(), strict=True):
        so_far = tally.setdefault(tuple(key), [0, 0])
        so_far[0] += count
        so_far[1] += total


def _name(by: str, key: tuple[int, ...], commands: dict[int, str]) -> str:
    if by == "path":
        memory = MemoryKind(key[1])
        return DirectionCode(key[0]).label + (f" {memory.label}" if memory else "")
    if by == "process":
        return f"{key[0]} {commands.get(key[0], '')}".rstrip()
    if by == "stream":
        return f"process {key[0]}, context {key[1]}, stream {key[2]}"
    return f"process {key[0]}, thread {key[1]}"


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
    tally = KeyedSums()
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
    direction = DirectionCode(key >> 3 & 7).label
    kind = memory.label if memory else None
    return LineCopies(*origin, direction, kind, count, total_bytes, lasted_ns * 1e-9)


def _keys(pid: IntArray, correlation: IntArray, start_ns: IntArray) -> _Keys:
    """Return what distinguishes calls: a number of a process may be another process's later."""
    key = (pid.astype(np.uint64) << np.uint64(32)) + correlation.astype(np.uint64)
    mixed: _Keys = key * np.uint64(0x9E3779B97F4A7C15) + start_ns.astype(np.uint64)
    return mixed
