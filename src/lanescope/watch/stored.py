"""Columns of records that stay on the disk, and are sliced as arrays are.

Ten hours of eight GPUs at 10 kHz are 2.9e9 records, 72 GB as arrays. They are compressed to a
fraction of that in Parquet, which nothing maps into memory; a copy that could be mapped would
take the 72 GB on the disk, and would be made anew for each report. So a column here reads what
a slice asks for, and whoever works on counters does so slice by slice. What would need all of it,
such as arithmetic, is refused rather than done in memory that may not be there.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, overload

import numpy as np
import numpy.typing as npt

from lanescope.watch.codes import IntArray

Column = npt.NDArray[Any]
_Series = TypeVar("_Series")
#: Records of a piece: what is worked on at once, 25 MB of counters.
PIECE = 1 << 20
#: Values that are searched in at once.
_SEARCHED = 1 << 17
#: So few records, 6 MB of counters, are arrays at once: that is quicker.
MOST_IN_MEMORY = 1 << 18


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
        field.name: np.array(column)
        for field in dataclasses.fields(stored)  # type: ignore[arg-type]
        if isinstance(column := getattr(stored, field.name), StoredColumn)
    }
    return dataclasses.replace(stored, **columns)  # type: ignore[type-var]
