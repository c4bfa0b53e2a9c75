"""The copies of a round, by direction, kind of memory and whether the call waits."""

from __future__ import annotations

import numpy as np

from lanescope.model.advice.lanes import IN, OUT, Lane
from lanescope.model.advice.phase import CopyKind
from lanescope.model.advice.rounds import Rounds
from lanescope.model.transfer.parameters import Way
from lanescope.watch.codes import IntArray, MemoryKind

_WAYS = {IN: Way.H2D, OUT: Way.D2H}


def copy_kinds(lane: Lane, rounds: Rounds, which: IntArray) -> tuple[CopyKind, ...]:
    """Return the kinds of copies of some rounds, those that most rounds lack left out."""
    number = np.full(len(lane), -1)
    for place, one in enumerate(which.tolist()):
        number[rounds.first[one] : rounds.last[one]] = place
    chosen = np.flatnonzero((number >= 0) & (lane.kind <= OUT))
    keys = np.stack((lane.kind, lane.memory, lane.asynchronous.astype(np.int8)), axis=1)[chosen]
    kinds, inverse = np.unique(keys, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    found = [
        _kind(tuple(kind), lane, chosen[inverse == place], number, which.size)
        for place, kind in enumerate(kinds.tolist())
    ]
    return tuple(kind for kind in found if kind.bytes > 0)


def _kind(
    key: tuple[int, ...], lane: Lane, rows: IntArray, number: IntArray, count: int
) -> CopyKind:
    sizes, seconds = lane.bytes[rows], (lane.end_ns - lane.start_ns)[rows] * 1e-9
    per_round = [
        float(np.median(np.bincount(number[rows], weights, count)))
        for weights in (None, sizes.astype(np.float64), seconds)
    ]
    return CopyKind(
        _WAYS[key[0]],
        MemoryKind(key[1]),
        bool(key[2]),
        per_round[0],
        int(sizes.min()),
        int(np.median(sizes)),
        int(sizes.max()),
        per_round[1],
        per_round[2],
    )


def median_copies(lane: Lane, rounds: Rounds, which: IntArray) -> tuple[float, float]:
    """Return the median bytes of a round in each direction."""
    found = []
    for kind in (IN, OUT):
        moved = np.add.reduceat(np.where(lane.kind == kind, lane.bytes, 0), rounds.first)
        found.append(float(np.median(moved[which])))
    return found[0], found[1]
