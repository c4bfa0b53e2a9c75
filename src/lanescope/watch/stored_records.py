"""Parquet files and spools of counters as records of which some are read at a time."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lanescope.codec.opening import open_file
from lanescope.codec.tables import Holds, open_table, require_columns, table_errors, values_of
from lanescope.errors import InputError
from lanescope.watch.codes import ANY, TRUTH, Range
from lanescope.watch.stored import Column

#: Row groups of each column that are kept decoded: whoever works slice by slice needs the one
#: at work and, at its edge, the one before.
_KEPT = 2


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
    ) -> None:
        self._path, self._wanted = path, wanted
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
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _group(self, group: int, name: str) -> Column:
        kept = self._kept.setdefault(name, OrderedDict())
        if group not in kept:
            if len(kept) >= _KEPT:
                kept.popitem(last=False)
            kept[group] = self._checked(group, name)
        kept.move_to_end(group)
        return kept[group]

    def _checked(self, group: int, name: str) -> Column:
        with table_errors(self._path):
            table = self.file.read_row_group(group, columns=[name], use_threads=False)
        values = values_of(table.column(0), self._path, name)
        low, high = self._wanted.get(name, ANY)
        if values.size and not (low <= values.min() and values.max() <= high):
            raise InputError(
                f"{self._path}: the column {name!r} holds what is not from {low} to {high}; name "
                "another run"
            )
        return values


class SpoolRecords:
    """The records of a spool, of which each has the same layout.

    Parameters
    ----------
    offset
        Of the first record in the file, bytes.
    decoded
        Makes of records something that has their columns as attributes.
    """

    #: The latest slice of all spools: a watch has one for each GPU, and works on one at a time.
    _kept: ClassVar[tuple[SpoolRecords, int, int, Any] | None] = None

    def __init__(
        self, path: Path, layout: np.dtype[np.void], offset: int, decoded: Callable[[Column], Any]
    ) -> None:
        self._path, self._layout, self._offset, self._decoded = path, layout, offset, decoded
        self.folder = folder_of(path)

    def read(self, name: str, begin: int, end: int) -> Column:
        """Return consecutive values of a column; raises OSError."""
        # all columns of a slice are asked for, one after the other
        found = SpoolRecords._kept
        if found is None or found[0] is not self or found[1:3] != (begin, end):
            offset = self._offset + begin * self._layout.itemsize
            with open_file(self._path, inner=2) as file:
                records = np.fromfile(file, self._layout, end - begin, offset=offset)
            found = SpoolRecords._kept = (self, begin, end, self._decoded(records))
        column: Column = getattr(found[3], name)
        return column
