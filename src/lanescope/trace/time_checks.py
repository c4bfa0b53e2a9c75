"""Leaves out and counts what a watch holds whose times cannot be.

A clock that is set while a program runs, a driver's bug or a damaged file give times before the
watch began, after it ended, or an end before its begin. One of them says nothing of the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns
from typing import TypeVar

import numpy as np

from lanescope.errors import InputError
from lanescope.trace.codes import BoolArray, IntArray
from lanescope.trace.operations import Operations
from lanescope.trace.probe import Probe
from lanescope.trace.side_tables import Managed
from lanescope.trace.stored_columns import SortedRows, StoredColumn, each_in_a_thread, pieces_of
from lanescope.trace.timeline import Counters, Process, Ranges

__all__ = ["FAR_NS", "TimeWindow", "impossible_note"]

#: Clocks of GPUs and hosts differ, and sources end a moment after the watch: so far from it what
#: they tell can be.
MARGIN_NS = 60 * 10**9
#: Of a watch whose end nobody saw, no record is so far from its start.
FAR_NS = 366 * 86_400 * 10**9

#: Of a watch that goes on, or was killed, records are no later than the clock says, which may have
#: been set back meanwhile.
_CLOCKS_DIFFER_NS = 86_400 * 10**9

#: Times that are looked at together with as many behind them.
_TIMES = 1 << 18

_Timed = TypeVar("_Timed", Ranges, Managed)


@dataclass(slots=True)
class TimeWindow:
    """When records can be, and how many were left out as they are at other times.

    Attributes
    ----------
    start_ns, end_ns
        Of the watch, nanoseconds since 1970; the end is None when nobody saw it.
    left_out
        Records so far.
    latest_ns
        Where nobody saw the end: no record is later, as the spools were written before.
    """

    start_ns: int
    end_ns: int | None
    left_out: int = field(default=0)
    latest_ns: int | None = None

    @classmethod
    def without_end(cls, start_ns: int, spools: Iterable[Path]) -> TimeWindow:
        """Return that of a watch whose end nobody saw, by when its spools were written."""
        times = [time_ns()]
        for path in spools:
            with contextlib.suppress(OSError):  # it was just removed
                times.append(path.stat().st_mtime_ns)
        return cls(start_ns, None, latest_ns=max(start_ns, *times) + _CLOCKS_DIFFER_NS)

    def holds(self, start_ns: IntArray, end_ns: IntArray) -> BoolArray:
        """Return where something that begins and ends at these times can be."""
        first = self.start_ns - MARGIN_NS
        last = self.start_ns + FAR_NS if self.latest_ns is None else self.latest_ns
        if self.end_ns is not None:
            last = self.end_ns + MARGIN_NS
        found: BoolArray = (first <= start_ns) & (start_ns <= end_ns) & (end_ns <= last)
        return found

    def operations(self, rows: Operations) -> Operations:
        """Return those that can be, in memory; a call that cannot be is not known."""
        possible = self._possible_rows(self.holds(rows.start_ns, rows.end_ns))
        if not possible.all():
            rows = rows.rows(possible)
        called = rows.call_start_ns != 0
        wrong = called & ~self.holds(rows.call_start_ns, rows.call_end_ns)
        if not wrong.any():
            return rows
        begins, ends = (np.where(wrong, 0, one) for one in (rows.call_start_ns, rows.call_end_ns))
        return dataclasses.replace(rows, call_start_ns=begins, call_end_ns=ends)

    def all_counters(self, every: Sequence[Counters]) -> tuple[Counters, ...]:
        """Return what `counters` does of several."""

        def possible(one: Counters) -> tuple[Counters, int]:
            own = dataclasses.replace(self, left_out=0)
            return own.counters(one), own.left_out

        found = each_in_a_thread(possible, every, sum(map(len, every)))
        self.left_out += sum(left_out for _, left_out in found)
        return tuple(one for one, _ in found)

    def counters(self, one: Counters) -> Counters:
        """Return the records that can be; raises `InputError` as `SortedRows` does.

        Of the time of what is left out nothing is known, nor of the record behind it, which
        begins there.
        """
        if all(possible.all() for _, possible in self._growing(one.end_ns)):
            return one
        names = ["end_ns", "rx_bytes", "tx_bytes", "known"]
        names += ["own"] if one.own is not None else []
        if not isinstance(one.end_ns, StoredColumn):
            return self._chosen(one, names)
        types = {name: getattr(one, name).dtype for name in names}
        rows = SortedRows(types, "end_ns", one.end_ns.folder)
        before = True
        for part, possible in self._growing(one.end_ns):
            columns = {name: getattr(one, name)[part] for name in names}
            columns["known"] = columns["known"] & np.concatenate(([before], possible[:-1]))
            rows.add({name: column[possible] for name, column in columns.items()})
            before = bool(self._possible_rows(possible)[-1])
        return dataclasses.replace(one, **rows.columns())

    def _chosen(self, one: Counters, names: Sequence[str]) -> Counters:
        """Return the records that can be of columns in memory."""
        parts = [possible for _, possible in self._growing(one.end_ns)]
        possible = self._possible_rows(np.concatenate(parts))
        columns = {name: getattr(one, name) for name in names}
        columns["known"] = columns["known"] & np.concatenate(([True], possible[:-1]))
        return dataclasses.replace(one, **{n: column[possible] for n, column in columns.items()})

    def _growing(self, times: IntArray) -> Iterator[tuple[slice, BoolArray]]:
        """Yield parts of some times, and which of each can be and grow: as many as can be.

        Those of a part and of the one behind it are looked at together, so that one late time at
        the end of a part does not stand against all that follow.
        """
        latest = self.start_ns - MARGIN_NS
        behind = times[:_TIMES]
        for part in pieces_of(len(times), _TIMES):
            own, behind = behind, times[part.stop : part.stop + _TIMES]
            if self._all_grow(own, behind, latest):
                possible = np.ones(own.size, np.bool_)
            else:
                both = np.concatenate((own, behind))
                possible = _in_order(both, self.holds(both, both) & (both >= latest))[: own.size]
            if possible.any():
                latest = int(own[possible][-1])
            yield part, possible

    def _all_grow(self, own: IntArray, behind: IntArray, latest: int) -> bool:
        """Whether all times of two parts can be and grow: then the outer ones tell."""
        last = behind[-1:] if behind.size else own[-1:]
        edges = np.concatenate((own[:1], last))
        return bool(
            own[0] >= latest
            and self.holds(edges, edges).all()
            and np.all(own[1:] >= own[:-1])
            and np.all(behind[1:] >= behind[:-1])
            and np.all(own[-1] <= behind[:1])
        )

    def probe(self, one: Probe) -> Probe:
        """Return the records of a probe that can be."""
        begins = one.begin_ns
        possible = _in_order(begins, self.holds(begins, begins))
        if self._possible_rows(possible).all():
            return one
        return one.rows(possible)

    def timed(self, rows: _Timed) -> _Timed:
        """Return the ranges that can be, or what managed memory did; an end of 0 is not known."""
        ends = np.where(rows.end_ns == 0, rows.start_ns, rows.end_ns)
        possible = self._possible_rows(self.holds(rows.start_ns, ends))
        return rows if possible.all() else rows.rows(possible)

    def _possible_rows(self, possible: BoolArray) -> BoolArray:
        self.left_out += int(possible.size - np.count_nonzero(possible))
        return possible


def _in_order(times: IntArray, possible: BoolArray) -> BoolArray:
    """Return which of the times that are kept already grow, as many of them as can be."""
    rows = np.flatnonzero(possible)
    if np.all(times[rows][1:] >= times[rows][:-1]):
        return possible
    ends: list[int] = []  # the least end of a growing row of each length, and its place
    places: list[int] = []
    before = np.full(rows.size, -1)
    for place, time in enumerate(times[rows].tolist()):
        length = bisect_right(ends, time)
        before[place] = places[length - 1] if length else -1
        ends[length : length + 1] = [time]
        places[length : length + 1] = [place]
    found = np.zeros(times.size, np.bool_)
    place = places[-1]
    while place >= 0:
        found[rows[place]] = True
        place = int(before[place])
    return found


def require_own_time(path: Path, stored: Sequence[Sized], possible: Iterable[int]) -> None:
    """Refuse a file with a part of which no record is of the time of the watch.

    What is stored was looked at before, so single records may be wrong, and not all.

    Parameters
    ----------
    stored
        The records of each part.
    possible
        How many of each have a time that can be.

    Raises
    ------
    InputError
        If there is such a part.
    """
    for records, count in zip(stored, possible, strict=True):
        if len(records) and not count:
            raise InputError(
                f"{path}: no record is of the time of this watch, so it is another's; name "
                "another run"
            )


def impossible_note(records: int) -> str:
    """Return a sentence on what was left out."""
    count_words = "One record was" if records == 1 else f"{records:,} records were"
    return (
        f"{count_words} left out whose times cannot be: before the watch began, after it ended, or "
        "out of order; a clock was set meanwhile, or the driver told them so."
    )


def no_room_note(processes: Sequence[Process]) -> str | None:
    """Return a sentence on what was left out of spools; None where nothing was."""
    records = sum(process.left_out for process in processes)
    if not records:
        return None
    kernels = sum(process.left_out_kernels for process in processes)
    calls = sum(process.left_out_calls for process in processes)
    counts = {"kernels": kernels, "calls": calls, "others": records - kernels - calls}
    of = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    count_words = "One trace record was" if records == 1 else f"{records:,} trace records were"
    return (
        f"{count_words} left out, kernels first and calls next ({of}), so that the disk keeps room "
        "for the program; free some space, or let spools take more by --max-spool."
    )
