"""Who moved the bytes: traced copies by size, process, stream, thread and path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lanescope.measurement.bandwidth import bandwidth_gbs
from lanescope.watch.codes import UNKNOWN_THREAD, Direction, IntArray, MemoryKind
from lanescope.watch.operations import Operations
from lanescope.watch.ranges import NO_RANGE, Ranges, range_names
from lanescope.watch.timeline import Process

#: Programs with copies of every size have as many groups as copies: only so many are kept.
MOST_GROUPS = 1000
#: What `Share.by` can be.
WAYS_TO_ASK = ("process", "stream", "thread", "range", "path")


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
        One of `WAYS_TO_ASK`.
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
    found = operations.rows(operations.is_copy)
    key = ((found.bytes * 8 + found.direction) * 8 + found.host_memory) * 2 + found.asynchronous
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    counts = np.bincount(group, minlength=first.size)
    seconds = np.bincount(group, found.seconds, first.size)
    total = found.bytes[first] * counts
    kept = np.union1d(_largest(total), _largest(counts))
    first, counts, seconds = first[kept], counts[kept], seconds[kept]
    groups = []
    for row, count, lasted in zip(first.tolist(), counts.tolist(), seconds.tolist(), strict=True):
        memory, size = MemoryKind(found.host_memory[row]), int(found.bytes[row])
        groups.append(
            CopyGroup(
                Direction(found.direction[row]).label,
                memory.label if memory else None,
                bool(found.asynchronous[row]),
                size,
                count,
                size * count,
                lasted,
                bandwidth_gbs(size * count, lasted) if lasted > 0 else None,
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
    found = operations.rows(operations.moves)
    commands = {process.pid: process.command for process in processes}
    keys: dict[str, tuple[IntArray, ...]] = {
        "process": (found.pid,),
        "stream": (found.pid, found.context, found.stream),
        "thread": (found.pid, found.thread),
        "path": (found.direction.astype(np.int64), found.host_memory.astype(np.int64)),
    }
    shares: list[Share] = []
    for by, columns in keys.items():
        rows = found
        if by == "thread":
            known = found.thread != UNKNOWN_THREAD
            rows, columns = found.rows(known), tuple(column[known] for column in columns)
        shares += _shares(by, rows, columns, commands, int(found.bytes.sum()))
    if ranges is not None and len(ranges) and len(found):
        shares += _range_shares(found, ranges)
    return tuple(shares)


def _range_shares(moved: Operations, ranges: Ranges) -> list[Share]:
    names, code = range_names(moved, ranges)
    counts = np.bincount(code, minlength=len(names))
    sums = np.zeros(len(names), np.int64)
    np.add.at(sums, code, moved.bytes)
    total = int(sums.sum())
    named = [
        Share(
            "range", names[i] or NO_RANGE, int(counts[i]), int(sums[i]), int(sums[i]) / (total or 1)
        )
        for i in np.flatnonzero(counts).tolist()
    ]
    return sorted(named, key=lambda share: -share.total_bytes)


def _shares(
    by: str,
    rows: Operations,
    columns: tuple[IntArray, ...],
    commands: dict[int, str],
    total: int,
) -> list[Share]:
    if not len(rows):
        return []
    code = np.zeros(len(rows), np.int64)  # one number for each row of columns sorts quickly
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        code = code * values.size + place
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    keys = np.stack([column[first] for column in columns], axis=1)
    counts = np.bincount(group, minlength=first.size)
    sums = np.zeros(first.size, np.int64)  # whole numbers: floats lose bytes above 9 PB
    np.add.at(sums, group, rows.bytes)
    named = [
        Share(by, _name(by, key, commands), count, moved, moved / total if total else 0.0)
        for key, count, moved in zip(keys.tolist(), counts.tolist(), sums.tolist(), strict=True)
    ]
    return sorted(named, key=lambda share: -share.total_bytes)


def _name(by: str, key: list[int], commands: dict[int, str]) -> str:
    if by == "path":
        memory = MemoryKind(key[1])
        return Direction(key[0]).label + (f" {memory.label}" if memory else "")
    if by == "process":
        return f"{key[0]} {commands.get(key[0], '')}".rstrip()
    if by == "stream":
        return f"process {key[0]}, context {key[1]}, stream {key[2]}"
    return f"process {key[0]}, thread {key[1]}"
