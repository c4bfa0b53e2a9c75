"""NVTX ranges of watched programs, and which of them an operation was asked for in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lanescope.trace.codes import UNKNOWN_THREAD, BoolArray, IntArray
from lanescope.trace.operations import Operations
from lanescope.trace.stored_columns import Rows

#: Stands for what was asked for in no range.
NO_RANGE = "(in no range)"


@dataclass(frozen=True, slots=True, eq=False)
class Ranges(Rows):
    """Ranges of all processes, one row each; columns of equal length.

    Attributes
    ----------
    pid, thread
        Who opened it, by the numbers of the operating system.
    start_ns, end_ns
        Nanoseconds since 1970; the end is 0 of one that was open when its trace ended.
    pushed
        Whether it was pushed, and so is its thread's alone; else it was started, and is the
        process's.
    name
        Index into `names`.
    names
        Each with its domain before it, as in ``domain:name``, unless that is the default one.
    """

    types: ClassVar[Mapping[str, type[np.generic]]] = {"pushed": np.bool_}
    coded: ClassVar[tuple[str, str]] = ("name", "names")

    pid: IntArray
    thread: IntArray
    start_ns: IntArray
    end_ns: IntArray
    pushed: BoolArray
    name: IntArray
    names: tuple[str, ...] = ()


class OpenRanges:
    """Tells which range was open when; made once for all pieces of long watches."""

    def __init__(self, ranges: Ranges) -> None:
        pushed, started = ranges.pushed, ~ranges.pushed
        self._pushed = {
            (pid, thread): _Steps.of(
                ranges, pushed & (ranges.pid == pid) & (ranges.thread == thread)
            )
            for pid, thread in _distinct(ranges.pid[pushed], ranges.thread[pushed])
        }
        self._started = {
            pid: _Steps.of(ranges, started & (ranges.pid == pid))
            for pid in np.unique(ranges.pid[started]).tolist()
        }
        numbers = {name: number for number, name in enumerate(dict.fromkeys(ranges.names), 1)}
        code = np.array([numbers[name] for name in ranges.names], np.int64)
        #: Names, of which the first stands for no range.
        self.names = ["", *numbers]
        self._told = np.append(code[ranges.name], 0)  # a row of -1 finds the last

    def rows(self, operations: Operations) -> IntArray:
        """Return the row of the range that each operation was asked for in; -1: none is known.

        That is the range which the calling thread pushed last and had not popped when it made the
        call; else the one that any thread of the process started last and had not ended. Of what
        has no known call, such as a migration, only the latter is known, at its own start.
        """
        found = np.full(len(operations), -1, np.int64)
        if not self._pushed and not self._started:
            return found
        called = operations.call_start_ns > 0
        at_ns = np.where(called, operations.call_start_ns, operations.start_ns)
        by_thread = called & (operations.thread != UNKNOWN_THREAD)
        for (pid, thread), steps in self._pushed.items():
            mine = by_thread & (operations.pid == pid) & (operations.thread == thread)
            found[mine] = steps.open_at(at_ns[mine])
        for pid, steps in self._started.items():
            mine = (found < 0) & (operations.pid == pid)
            found[mine] = steps.open_at(at_ns[mine])
        return found

    def codes(self, operations: Operations) -> IntArray:
        """Return the number of each operation's range among `names`."""
        codes: IntArray = self._told[self.rows(operations)]
        return codes


def _distinct(pid: IntArray, thread: IntArray) -> Iterator[tuple[int, int]]:
    pairs = np.unique(np.stack((pid, thread), axis=1), axis=0)
    yield from (tuple(pair) for pair in pairs.tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Which row of the ranges begun last is open from each time on; -1: none is."""

    times: IntArray
    rows: IntArray

    @staticmethod
    def of(ranges: Ranges, chosen: BoolArray) -> _Steps:
        own = np.flatnonzero(chosen)
        times, inner = _steps(ranges.start_ns[own], ranges.end_ns[own])
        return _Steps(times, np.where(inner >= 0, own[inner], -1))

    def open_at(self, at_ns: IntArray) -> IntArray:
        place = np.searchsorted(self.times, at_ns, "right") - 1
        found: IntArray = np.where(place >= 0, self.rows[place], -1)
        return found


def _steps(start_ns: IntArray, end_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Return times, and which interval begun last is open from each on; -1: none is.

    Ranges of several domains, and those that one thread starts and another ends, can cross.
    """
    closed = np.flatnonzero(end_ns > 0)
    times = np.concatenate((start_ns, end_ns[closed]))
    events = np.concatenate((np.arange(start_ns.size), ~closed))
    order = np.lexsort((events < 0, times))
    stack: list[int] = []
    ended: set[int] = set()
    inner: list[int] = []
    for event in events[order].tolist():
        if event >= 0:
            stack.append(event)
        else:
            ended.add(~event)
        while stack and stack[-1] in ended:
            ended.discard(stack.pop())
        inner.append(stack[-1] if stack else -1)
    return times[order], np.array(inner, np.int64)


def range_name(domain: str, name: str) -> str:
    """Return how a range is called, with its domain if that has a name."""
    name = name or "(unnamed)"
    return f"{domain}:{name}" if domain else name
