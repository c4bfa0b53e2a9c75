"""Columns of records that stay on the disk: of Parquet files, spools of counters, sorted rows.

Ten hours of eight GPUs at 10 kHz are 2.9e9 records, 72 GB as arrays. They are compressed to a
fraction of that in Parquet, which nothing maps into memory; a copy that could be mapped would
take the 72 GB on the disk, and would be made anew for each report. So a column here reads what
a slice asks for, and whoever works on counters does so slice by slice. What would need all of it,
such as arithmetic, is refused rather than done in memory that may not be there.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import tempfile
import threading
import weakref
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, Protocol, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from lanescope.codec.files import open_file
from lanescope.codec.parquet import Holds, open_table, require_columns, table_errors, values_of
from lanescope.errors import InputError
from lanescope.trace.codes import ANY, TRUTH, IntArray, Range

Column = npt.NDArray[Any]
_Series = TypeVar("_Series")
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
#: Records of a piece: what is worked on at once, 25 MB of counters.
PIECE = 1 << 20
#: Values that are searched in at once.
_SEARCHED = 1 << 17
#: So few records, 6 MB of counters, are arrays at once: that is quicker.
MOST_IN_MEMORY = 1 << 18
#: Row groups of each column that are kept decoded: whoever works slice by slice needs the one
#: at work and, at its edge, the one before.
_KEPT = 2
#: So many rows are sorted at once; fewer stay in memory.
MOST_ROWS = 1 << 18
#: About so many rows make a slice of the order.
SLICE = 1 << 16
#: Of each run so far apart rows tell their key, by which slices are cut.
_APART = 1 << 10
#: Slices that are held: whoever works piece by piece needs the one at work and the one before.
_HELD = 2
#: Of more records series are worked on one after the other: that needs less memory, and can be
#: interrupted.
MOST_AT_ONCE = 1 << 24
#: Threads that work on series; more of them win little and need 80 MB each.
_MOST_THREADS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Columns of equal length, a row for each record: what is known of many things of one kind.

    Fields without a default are columns, the others say something of all rows.

    Attributes
    ----------
    types
        Of columns that do not hold whole numbers of 64 bits.
    coded
        A column that holds indices into a field of texts, and that field.
    reserved
        Numbers below zero that stand in that column for something else, ascending.
    """

    types: ClassVar[Mapping[str, type[np.generic]]] = {}
    coded: ClassVar[tuple[str, str]] = ("", "")
    reserved: ClassVar[Sequence[int]] = ()

    @classmethod
    @cache  # len() asks for them
    def columns(cls) -> tuple[str, ...]:
        """Return the names of the columns, in the order of the fields."""
        every = dataclasses.fields(cls)
        return tuple(field.name for field in every if field.default is dataclasses.MISSING)

    @classmethod
    def type_of(cls, column: str) -> type[np.generic]:
        """Return what a column holds."""
        return cls.types.get(column, np.int64)

    @classmethod
    def of(cls, *about: Any, **given: Any) -> Self:
        """Return rows from columns or anything like them; `about` are the other fields."""
        columns = {n: np.asarray(given.pop(n)).astype(cls.type_of(n)) for n in cls.columns()}
        return cls(*columns.values(), *about, **given)

    @classmethod
    def empty(cls) -> Self:
        """Return no rows."""
        return cls.of(**dict.fromkeys(cls.columns(), ()))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several one after the other, with one list of texts."""
        coded, texts = cls.coded
        numbers: dict[str, int] = {}
        found: dict[str, list[Any]] = {n: [np.empty(0, cls.type_of(n))] for n in cls.columns()}
        for part in parts:
            own = [numbers.setdefault(text, len(numbers)) for text in getattr(part, texts, ())]
            table = np.array([*own, *cls.reserved], np.int64)  # the latter from the end
            for name, columns in found.items():
                column = getattr(part, name)
                columns.append(table[column] if name == coded else column)
        about = {texts: tuple(numbers)} if numbers else {}
        return cls.of(**about, **{name: np.concatenate(parts) for name, parts in found.items()})

    def rows(self, chosen: Any) -> Self:
        """Return some rows, by a mask or by their numbers."""
        columns = {name: getattr(self, name)[chosen] for name in self.columns()}
        return dataclasses.replace(self, **columns)

    def about(self) -> dict[str, Any]:
        """Return what is no column."""
        names = (field.name for field in dataclasses.fields(self))
        return {name: getattr(self, name) for name in names if name not in self.columns()}

    def __len__(self) -> int:
        return int(getattr(self, self.columns()[0]).size)


class Records(Protocol):
    """Something on the disk that holds columns of equal length."""

    @property
    def folder(self) -> Path | None:
        """Where it lies, as far as files can be made there."""

    def read(self, name: str, begin: int, end: int) -> Column:
        """Return consecutive values of a column."""


class StoredColumn:
    """Consecutive values of one column.

    Parameters
    ----------
    begin, end
        Which of the records.
    piece
        So many are read at once to search in.
    """

    def __init__(
        self,
        records: Records,
        name: str,
        begin: int,
        end: int,
        dtype: npt.DTypeLike,
        piece: int = PIECE,
    ) -> None:
        self._records, self._name, self._begin, self._piece = records, name, begin, piece
        self.size = end - begin
        self.dtype = np.dtype(dtype)
        self._firsts: dict[int, int] = {}

    def __len__(self) -> int:
        return self.size

    @property
    def folder(self) -> Path | None:
        """Where it lies, as far as files can be made there."""
        return self._records.folder

    @overload
    def __getitem__(self, chosen: slice) -> Column: ...
    @overload
    def __getitem__(self, chosen: int) -> Any: ...
    def __getitem__(self, chosen: slice | int) -> Any:
        if isinstance(chosen, slice):
            begin, end, step = chosen.indices(self.size)
            if step != 1:
                raise IndexError("a stored column is read in order; slice it without a step")
            return self._read(begin, max(begin, end))
        place = chosen + self.size if chosen < 0 else chosen
        if not 0 <= place < self.size:
            raise IndexError(f"record {chosen} of {self.size}")
        return self._read(place, place + 1)[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Column:
        """Return all of it in memory, for whoever knows that it is short."""
        return self._read(0, self.size).astype(dtype or self.dtype, copy=False)

    def tolist(self) -> list[Any]:
        """Return all of it as Python's numbers."""
        found: list[Any] = np.asarray(self).tolist()
        return found

    def any(self) -> bool:
        """Return whether any value is not 0, reading no further than that."""
        return any(bool(self[part].any()) for part in pieces_of(self.size))

    def search(self, value: int, side: Literal["left", "right"] = "left") -> int:
        """Return where a value would go into a column that grows, as `numpy.searchsorted`."""
        # by the first values of the pieces, of which one is then read
        bisect = bisect_left if side == "left" else bisect_right
        count = -(-self.size // self._piece)
        begin = max(bisect(range(count), value, key=self._first_of) - 1, 0) * self._piece
        return begin + int(np.searchsorted(self[begin : begin + self._piece], value, side))

    def _first_of(self, piece: int) -> int:
        if piece not in self._firsts:
            self._firsts[piece] = int(self[piece * self._piece])
        return self._firsts[piece]

    def _read(self, begin: int, end: int) -> Column:
        if begin == end:
            return np.empty(0, self.dtype)
        return self._records.read(self._name, self._begin + begin, self._begin + end)


def pieces_of(count: int, piece: int = PIECE) -> Iterator[slice]:
    """Yield slices that cover so many records, in order."""
    for begin in range(0, count, piece):
        yield slice(begin, min(begin + piece, count))


def each_in_a_thread(
    work: Callable[[_Item], _Result], series: Sequence[_Item], records: int
) -> list[_Result]:
    """Return what work on each of some series brings; several at once where cores are free.

    Parameters
    ----------
    work
        Reads no stored columns but those of its own series.
    records
        How many all of them have.
    """
    threads = min(len(series), len(os.sched_getaffinity(0)), _MOST_THREADS)
    if threads < 2 or not MOST_IN_MEMORY < records <= MOST_AT_ONCE:
        return list(map(work, series))
    with ThreadPoolExecutor(threads, "work on records") as pool:
        return list(pool.map(work, series))


def search(
    column: IntArray | StoredColumn, value: int, side: Literal["left", "right"] = "left"
) -> int:
    """Return where a value would go into a column that grows, wherever the column lies."""
    if isinstance(column, StoredColumn):
        return column.search(value, side)
    return int(np.searchsorted(column, value, side))


def search_all(
    column: IntArray | StoredColumn, values: IntArray, side: Literal["left", "right"] = "left"
) -> IntArray:
    """Return where each of some values would go, which grow as the column does."""
    if not isinstance(column, StoredColumn) or not values.size:
        return np.searchsorted(column, values, side)
    first, last = (column.search(int(value), side) for value in (values[0], values[-1]))
    found = np.full(values.size, first)
    other: Literal["left", "right"] = "left" if side == "right" else "right"
    for part in pieces_of(last - first, _SEARCHED):
        block = column[first + part.start : first + part.stop]
        begin, end = np.searchsorted(values, (block[0], block[-1]), other)
        found[begin:end] = first + part.start + np.searchsorted(block, values[begin:end], side)
        found[end:] = first + part.stop
    return found


def with_stored(empty: _Series, records: Records, begin: int, end: int) -> _Series:
    """Return a dataclass of columns without records as one whose columns are stored.

    Parameters
    ----------
    begin, end
        Which of the records.
    """
    columns = {
        field.name: StoredColumn(records, field.name, begin, end, column.dtype)
        for field in dataclasses.fields(empty)  # type: ignore[arg-type]
        if isinstance(column := getattr(empty, field.name), np.ndarray)
    }
    return dataclasses.replace(empty, **columns)  # type: ignore[type-var]


def in_memory(stored: _Series) -> _Series:
    """Return a dataclass of columns with all of its columns as arrays."""
    columns = {
        field.name: np.asarray(column)
        for field in dataclasses.fields(stored)  # type: ignore[arg-type]
        if isinstance(column := getattr(stored, field.name), StoredColumn)
    }
    return dataclasses.replace(stored, **columns)  # type: ignore[type-var]


def all_in_memory(series: Sequence[_Series]) -> list[_Series]:
    """Return series with all columns as arrays, where readers would hold as much of them decoded.

    Longer ones are returned as they are.
    """
    counts = [len(one) for one in series]  # type: ignore[arg-type]
    if max(counts, default=0) > _KEPT * PIECE or sum(counts) > MOST_AT_ONCE:
        return list(series)
    return each_in_a_thread(in_memory, series, sum(counts))


def folder_of(path: Path) -> Path:
    """Return the folder of a file, also of one that is only open: ``/proc/self/fd/7``."""
    return Path(os.path.realpath(path)).parent


class ParquetRecords:
    """The columns of a Parquet file.

    Parameters
    ----------
    wanted
        Its columns and between which numbers their values lie, both included.
    optional
        Those that may be missing.
    inner
        How many of the path's last names lie in a run folder: see `open_file`.
    ahead
        Whether another thread decodes what comes next of columns that are read in order.

    Raises
    ------
    InputError
        If the file cannot be read, is none, or a column is missing or of another type; and from
        `read`, if a value is missing or out of its range.
    """

    def __init__(
        self,
        path: Path,
        wanted: Mapping[str, Range],
        optional: Collection[str] = (),
        inner: int = 1,
        *,
        ahead: bool = False,
    ) -> None:
        self._path, self._wanted, self._ahead = path, wanted, ahead
        self._reading = threading.Lock()  # pyarrow's readers are for one thread at a time
        self._coming: dict[str, tuple[int, Future[Column]]] = {}
        self.folder = folder_of(path)
        self.file = open_table(path, inner)
        types = {n: Holds.TRUTH if span is TRUTH else Holds.WHOLE for n, span in wanted.items()}
        require_columns(self.file.schema_arrow, path, types, optional)
        counts = [self.file.metadata.row_group(g).num_rows for g in range(self.groups)]
        self._edges = np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).tolist()
        self._kept: dict[str, OrderedDict[int, Column]] = {}

    @property
    def groups(self) -> int:
        """How many row groups there are."""
        return int(self.file.metadata.num_row_groups)

    @property
    def rows(self) -> int:
        """How many records there are."""
        return int(self.file.metadata.num_rows)

    def read(self, name: str, begin: int, end: int) -> Column:
        """Return consecutive values of a column."""
        group, parts = bisect_right(self._edges, begin) - 1, []
        while begin < end:
            first, stop = self._edges[group], min(self._edges[group + 1], end)
            parts.append(self._group(group, name)[begin - first : stop - first])
            begin, group = stop, group + 1
        if not parts:
            return np.empty(0, bool if self._wanted.get(name, ANY) is TRUTH else np.int64)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _group(self, group: int, name: str) -> Column:
        cached = self._kept.setdefault(name, OrderedDict())
        if group not in cached:
            in_order = not group or group - 1 in cached
            if len(cached) >= _KEPT:
                cached.popitem(last=False)
            cached[group] = self._next(group, name)
            if self._ahead and in_order and group + 1 < self.groups:
                self._coming[name] = group + 1, _decoder().submit(self._checked, group + 1, name)
        cached.move_to_end(group)
        return cached[group]

    def _next(self, group: int, name: str) -> Column:
        coming, found = self._coming.pop(name, (-1, None))
        if found is None or coming != group or found.cancel():  # it waited for others' turns
            return self._checked(group, name)
        return found.result()

    def _checked(self, group: int, name: str) -> Column:
        with table_errors(self._path), self._reading:
            table = self.file.read_row_group(group, columns=[name], use_threads=False)
        values = values_of(table.column(0), self._path, name)
        if values.dtype == bool:
            return values
        low, high = self._wanted.get(name, ANY)
        if values.size and not (low <= values.min() and values.max() <= high):
            raise InputError(
                f"{self._path}: the column {name!r} holds what is not from {low} to {high}; name "
                "another run"
            )
        return values


@cache
def _decoder() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "decoder of columns")


class SpoolRecords:
    """The records of a spool, of which each has the same layout.

    Parameters
    ----------
    offset
        Of the first record in the file, bytes.
    decoded
        Makes of records something that has their columns as attributes.
    """

    #: The latest slice of all spools, thread by thread: a watch has a spool for each GPU, and a
    #: thread works on one at a time.
    _kept: ClassVar[threading.local] = threading.local()

    def __init__(
        self, path: Path, layout: np.dtype[np.void], offset: int, decoded: Callable[[Column], Any]
    ) -> None:
        self._path, self._layout, self._offset, self._decoded = path, layout, offset, decoded
        self.folder = folder_of(path)

    def read(self, name: str, begin: int, end: int) -> Column:
        """Return consecutive values of a column; raises OSError."""
        # all columns of a slice are asked for, one after the other
        found = getattr(SpoolRecords._kept, "slice", None)
        if found is None or found[0] is not self or found[1:3] != (begin, end):
            offset = self._offset + begin * self._layout.itemsize
            with open_file(self._path, inner=2) as file:
                records = np.fromfile(file, self._layout, end - begin, offset=offset)
            found = SpoolRecords._kept.slice = (self, begin, end, self._decoded(records))
        column: Column = getattr(found[3], name)
        return column


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

    They are sorted some at a time into runs, which lie one after the other in a file without a
    name. Nothing is merged before it is read: keys cut all runs into slices of the order, each as
    large as what is worked on at once, and a slice is read out of its runs and sorted.

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
