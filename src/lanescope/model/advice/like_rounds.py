"""Which rounds are of one kind."""

from __future__ import annotations

import numpy as np

from lanescope.model.advice.lanes import IN, OUT, Lane
from lanescope.model.advice.rounds import MOST_PARTS, Rounds
from lanescope.watch.codes import IntArray

#: Rounds are alike whose bytes in each direction, and parts, differ by no more than this.
TOLERANCE = 0.1
#: Of the different rounds of a lane so many kinds are looked at, those with the most bytes.
_MOST_KINDS = 512


def like_rounds(lane: Lane, found: Rounds) -> list[IntArray]:
    """Return the numbers of the rounds of each kind; rounds without a copy are left out."""
    if not len(found):
        return []
    features = np.stack([_bytes(lane, found, kind) for kind in (IN, OUT)] + [found.parts], axis=1)
    kinds, inverse, counts = np.unique(features, axis=0, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(-1)
    weights = counts * kinds[:, :2].sum(axis=1)
    ragged = found.endless & (found.parts < MOST_PARTS)  # what is left at a pipeline's end
    weights[np.unique(inverse[ragged])] = 0
    groups: list[tuple[IntArray, list[int]]] = []
    for kind in np.argsort(-weights, kind="stable").tolist()[:_MOST_KINDS]:
        if not weights[kind]:
            continue
        for leader, members in groups:
            if _near(kinds[kind], leader):
                members.append(kind)
                break
        else:
            groups.append((kinds[kind], [kind]))
    return [np.flatnonzero(np.isin(inverse, members)) for _, members in groups]


def _near(one: IntArray, other: IntArray) -> bool:
    return bool((np.abs(one - other) <= TOLERANCE * np.maximum(one, other)).all())


def _bytes(lane: Lane, found: Rounds, kind: int) -> IntArray:
    moved = np.where(lane.kind == kind, lane.bytes, 0)
    return np.add.reduceat(moved, found.first).astype(np.int64)
