"""Rows in the order of one column, sorted on the disk where they are many.

Rows come in any order and are sorted some at a time into runs, which lie one after the other in a
file without a name. Nothing is merged before it is read: keys cut all runs into slices of the
order, each as large as what is worked on at once, and a slice is read out of its runs and sorted.
"""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from lanescope.errors import InputError
from lanescope.trace.stored_columns import Column, StoredColumn

#: So many rows are sorted at once; fewer stay in memory.
MOST_ROWS = 1 << 18
#: About so many rows make a slice of the order.
SLICE = 1 << 16
#: Of each run so far apart rows tell their key, by which slices are cut.
_APART = 1 << 10
#: Slices that are held: whoever works piece by piece needs the one at work and the one before.
_HELD = 2


def scratch_file(folder: Path | None) -> BinaryIO:
    """Return a file without a name, of which nothing is left when this process is killed.

    Parameters
    ----------
    folder
        Where it should be made; among temporary files where that cannot be written to.

    Raises
    ------
    OSError
        If there cannot be one.
    """
    writable = folder is not None and os.access(folder, os.W_OK)
    return tempfile.TemporaryFile(dir=folder if writable else None)


@contextmanager
def _sorting_in(folder: Path | None) -> Iterator[None]:
    """Turn the system's errors into one sentence; raises `InputError`."""
    try:
        yield
    except OSError as error:
        place = folder or tempfile.gettempdir()
        raise InputError(
            f"records cannot be sorted in {place}: {os.strerror(error.errno or errno.EIO)}; "
            "free some space there, and run 'lanescope report' on the run"
        ) from error


class SortedRows:
    """Takes rows in any order, and returns their columns in the order of one of them.

    Parameters
    ----------
    types
        Of each column.
    by
        The column by which rows are ordered; those with the same value stay as they came.
    folder
        Where rows are written to that are too many: see `scratch_file`.
    """

    def __init__(
        self, types: Mapping[str, npt.DTypeLike], by: str, folder: Path | None = None
    ) -> None:
        self._layout, self._by, self._folder = np.dtype(list(types.items())), by, folder
        self._waiting: list[Column] = []
        self._count = 0
        self._file: BinaryIO | None = None
        self._runs: list[_Run] = []

    def add(self, columns: Mapping[str, Column]) -> None:
        """Add rows; raises `InputError` if there is no room for them."""
        rows = np.empty(columns[self._by].size, self._layout)
        for name in self._layout.names or ():
            rows[name] = columns[name]
        self._waiting.append(rows)
        self._count += rows.size
        if self._count > MOST_ROWS:
            self._write()

    def columns(self) -> dict[str, Any]:
        """Return all columns, as arrays or stored; nothing may be added after it."""
        names = self._layout.names or ()
        if self._file is None:
            rows = self._sorted()
            return {name: np.ascontiguousarray(rows[name]) for name in names}
        self._write()
        records = _Merged(self._file, self._layout, self._by, self._runs, self._folder)
        return {
            name: StoredColumn(records, name, 0, records.rows, self._layout[name], SLICE)
            for name in names
        }

    def _sorted(self) -> Column:
        waiting = self._waiting or [np.empty(0, self._layout)]
        self._waiting, self._count = [], 0
        return _in_order(np.concatenate(waiting), self._by)

    def _write(self) -> None:
        """Write what waits as a run."""
        rows = self._sorted()
        if not rows.size:
            return
        with _sorting_in(self._folder):
            if self._file is None:
                self._file = scratch_file(self._folder)
            self._file.write(rows.data)
            self._file.flush()
        begin = self._runs[-1].end if self._runs else 0
        keys = np.append(rows[self._by][::_APART], rows[self._by][-1])
        self._runs.append(_Run(begin, begin + rows.size, keys))


def _in_order(rows: Column, by: str) -> Column:
    keys = rows[by]
    if np.all(keys[1:] >= keys[:-1]):
        return rows
    return rows[np.argsort(keys, kind="stable")]


class _Run:
    """Rows in order that lie one after the other, and the keys of some: each `_APART`, the last."""

    def __init__(self, begin: int, end: int, keys: Column) -> None:
        self.begin, self.end, self.keys = begin, end, keys


class _Merged:
    """The rows of all runs in one order."""

    def __init__(
        self,
        file: BinaryIO,
        layout: np.dtype[np.void],
        by: str,
        runs: list[_Run],
        folder: Path | None,
    ) -> None:
        self._file, self._layout, self._by = file, layout, by
        self.folder = folder
        weakref.finalize(self, file.close)
        self._slices = self._cut(runs)
        sizes = [sum(end - begin for begin, end in parts) for parts in self._slices]
        self._edges = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).tolist()
        self._held: OrderedDict[int, Column] = OrderedDict()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self._edges[-1])

    def read(self, name: str, begin: int, end: int) -> Column:
        """Return consecutive values of a column."""
        number, parts = bisect_right(self._edges, begin) - 1, []
        while begin < end:
            first, stop = self._edges[number], min(self._edges[number + 1], end)
            parts.append(self._slice(number)[name][begin - first : stop - first])
            begin, number = stop, number + 1
        return np.concatenate(parts)  # a copy, so that no slice is held by its user

    def _cut(self, runs: list[_Run]) -> list[list[tuple[int, int]]]:
        """Return for each slice of the order which rows of the runs are in it."""
        keys = np.sort(np.concatenate([run.keys for run in runs]))
        cuts = np.unique(keys[SLICE // _APART :: SLICE // _APART])
        slices: list[list[tuple[int, int]]] = [[] for _ in range(cuts.size + 1)]
        for run in runs:
            blocks = np.searchsorted(run.keys, cuts)
            low, high = np.searchsorted(blocks, (0, run.keys.size - 1), "right").tolist()
            inner = zip(blocks[low:high].tolist(), cuts[low:high].tolist(), strict=True)
            places = [run.begin, *(self._place(run, block, cut) for block, cut in inner), run.end]
            for number, (begin, end) in enumerate(pairwise(places), low):
                if begin < end:
                    slices[number].append((begin, end))
        return [parts for parts in slices if parts]

    def _place(self, run: _Run, block: int, cut: int) -> int:
        """Return the first row of a run whose key is not below the cut, from its block."""
        begin = run.begin + (block - 1) * _APART
        rows = self._read(begin, min(begin + _APART, run.end))
        return begin + int(np.searchsorted(rows[self._by], cut))

    def _slice(self, number: int) -> Column:
        if number not in self._held:
            if len(self._held) >= _HELD:
                self._held.popitem(last=False)
            parts = [self._read(*part) for part in self._slices[number]]
            self._held[number] = _in_order(np.concatenate(parts), self._by)
        self._held.move_to_end(number)
        return self._held[number]

    def _read(self, begin: int, end: int) -> Column:
        size = self._layout.itemsize
        content = os.pread(self._file.fileno(), (end - begin) * size, begin * size)
        return np.frombuffer(content, self._layout)
