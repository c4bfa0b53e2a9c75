"""Many operations as few rows of lanes, piece by piece.

The longest and the largest operations stay alone; the others of a lane are merged where they are
neighbours and in the same part of the time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lanescope.watch.codes import BoolArray, IntArray, MemoryKind
from lanescope.watch.operations import Operations

#: So many of the rows are the longest and the largest operations; merged runs are between them
#: and take about as many again.
_KEPT_SHARE = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of lanes, ordered by lane and start.

    Attributes
    ----------
    lane
        Number of each row's lane.
    merged, busy_ns, pageable
        As in `lanescope.report.timeline_lanes.Lanes`.
    joinable
        The part of the time that a row may be merged in; -1 where it stays alone.
    """

    operations: Operations
    lane: IntArray
    merged: IntArray
    busy_ns: IntArray
    pageable: BoolArray
    joinable: IntArray

    def taken(self, places: IntArray) -> Rows:
        """Return some rows in another order."""
        columns = (getattr(self, field.name) for field in dataclasses.fields(self)[1:])
        return Rows(self.operations.rows(places), *(column[places] for column in columns))

    def in_order(self) -> Rows:
        """Return the rows by lane and start."""
        return self.taken(np.lexsort((self.operations.start_ns, self.lane)))

    def joined(self) -> Rows:
        """Return the rows with neighbours merged that may be."""
        if not len(self.operations):
            return self
        alike = (self.lane[1:] == self.lane[:-1]) & (self.joinable[1:] == self.joinable[:-1])
        first = np.append(True, ~alike | (self.joinable[1:] < 0))
        starts = np.flatnonzero(first)
        operations = dataclasses.replace(
            self.operations.rows(starts),
            end_ns=np.maximum.reduceat(self.operations.end_ns, starts),
            bytes=np.add.reduceat(self.operations.bytes, starts),
        )
        return Rows(
            operations,
            self.lane[starts],
            np.add.reduceat(self.merged, starts),
            np.add.reduceat(self.busy_ns, starts),
            np.logical_and.reduceat(self.pageable, starts),
            self.joinable[starts],
        )


def rows_of(operations: Operations, lane_of: Callable[[Operations], IntArray], most: int) -> Rows:
    """Return operations as rows of lanes, at most about `most`."""
    if len(operations) <= most:
        every = Operations.concat(list(operations.pieces()))
        alone = np.full(len(every), -1, np.int64)
        return _rows(every, lane_of(every), alone).in_order()
    joining = _joining(operations, lane_of, most)
    parts = [joining(piece) for piece in operations.pieces()]
    columns = (
        np.concatenate([getattr(part, field.name) for part in parts])
        for field in dataclasses.fields(Rows)[1:]
    )
    return (
        Rows(Operations.concat([part.operations for part in parts]), *columns).in_order().joined()
    )


def _rows(piece: Operations, lane: IntArray, joinable: IntArray) -> Rows:
    pageable = piece.host_memory == MemoryKind.PAGEABLE
    ones = np.ones(len(piece), np.int64)
    return Rows(piece, lane, ones, piece.end_ns - piece.start_ns, pageable, joinable)


def _joining(
    operations: Operations, lane_of: Callable[[Operations], IntArray], most: int
) -> Callable[[Operations], Rows]:
    """Return what makes rows of a piece."""
    half = max(1, int(most * _KEPT_SHARE / 2))
    largest = [np.empty(0, np.int64)] * 2
    begin, end, lanes = np.iinfo(np.int64).max, 0, set()
    for piece in operations.pieces():
        largest = [_largest(*pair, half) for pair in zip(largest, _size(piece), strict=True)]
        begin, end = min(begin, int(piece.start_ns.min())), max(end, int(piece.end_ns.max()))
        lanes |= set(np.unique(lane_of(piece)).tolist())
    chosen = [_Largest(column) for column in largest]
    parts = max(1, int(most * _KEPT_SHARE) // len(lanes))

    def join(piece: Operations) -> Rows:
        sizes = zip(chosen, _size(piece), strict=True)
        kept = np.logical_or.reduce([one.among(column) for one, column in sizes])
        part = (piece.start_ns - begin) * parts // max(1, end - begin + 1)
        return _rows(piece, lane_of(piece), np.where(kept, -1, part)).in_order().joined()

    return join


class _Largest:
    """Tells which values are among the largest; of equal ones the first."""

    def __init__(self, largest: IntArray) -> None:
        self._least = int(largest.min())
        self._equal = int((largest == self._least).sum())

    def among(self, column: IntArray) -> BoolArray:
        """Return where the values are that belong to the largest; pieces come in order."""
        found: BoolArray = column > self._least
        equal = np.flatnonzero(column == self._least)[: self._equal]
        self._equal -= equal.size
        found[equal] = True
        return found


def _size(piece: Operations) -> tuple[IntArray, IntArray]:
    """How long operations took, and how much they moved."""
    return piece.end_ns - piece.start_ns, np.where(piece.moves, piece.bytes, 0)


def _largest(found: IntArray, more: IntArray, count: int) -> IntArray:
    """Return the largest values of two columns, so many of them."""
    both = np.concatenate((found, more))
    return both if both.size <= count else np.partition(both, both.size - count)[-count:]
