"""Medians of more values than there should be in memory at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from lanescope.watch.codes import FloatArray, IntArray

#: So many values are sorted at once.
_MOST_SORTED = 1 << 18
#: Values are told apart by so many bits at a time.
_BITS = 16


def median(count: int, pieces: Callable[[], Iterator[FloatArray]]) -> float:
    """Return the median of one or more values that are not negative.

    Parameters
    ----------
    count
        How many values there are.
    pieces
        Yields all of them, some at a time; each call does so again.
    """
    middle = (count - 1) // 2
    values, place = _around(count, pieces, middle)
    if count % 2:
        return float(values[place])
    if place + 1 < values.size:
        return float(np.mean(values[place : place + 2]))
    above, next_place = _around(count, pieces, middle + 1)
    return float(np.mean((values[place], above[next_place])))


def _around(
    count: int, pieces: Callable[[], Iterator[FloatArray]], place: int
) -> tuple[FloatArray, int]:
    """Return some values in order that follow each other, and where the one asked for is in them.

    Bits of floats that are not negative grow as they do: its first bits are found by counting.
    """
    first, shift = 0, 64
    while count > _MOST_SORTED and shift:
        shift -= _BITS
        counts = np.zeros(1 << _BITS, np.int64)
        for bits in _with_first(pieces, first, shift + _BITS):
            counts += np.bincount(bits >> shift & (1 << _BITS) - 1, minlength=counts.size)
        sums = np.cumsum(counts)
        found = int(np.searchsorted(sums, place, "right"))
        count, place = int(counts[found]), place - int(sums[found] - counts[found])
        first = first << _BITS | found
    if not shift:
        return np.array([first, first]).view(np.float64), 0 if place + 1 < count else 1
    left = np.sort(np.concatenate(list(_with_first(pieces, first, shift))))
    return left.view(np.float64), place


def _with_first(
    pieces: Callable[[], Iterator[FloatArray]], first: int, shift: int
) -> Iterator[IntArray]:
    """Yield the bits of the values whose bits from `shift` on are these."""
    for piece in pieces():
        bits = np.ascontiguousarray(piece, np.float64).view(np.int64)
        yield bits if shift == 64 else bits[bits >> shift == first]
