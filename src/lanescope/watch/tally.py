"""Groups of rows, by the values of columns, and sums over them, fed piece by piece."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lanescope.watch.codes import IntArray

#: Pieces are brought together when there are so many groups: 32 MB.
_MOST_PENDING = 1 << 20
#: Codes below this are told apart by a table, which is ten times quicker than sorting.
_MOST_CODES = 1 << 18


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


class Tally:
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
