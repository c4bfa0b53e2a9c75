"""Where rounds begin: bytes in, kernels, bytes out, and again; and which are alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.model.advice.lanes import IN, OUT, Lane
from lanescope.watch.codes import BoolArray, IntArray

#: Copies of one size and direction with less of the copied time and fewer of its direction's
#: copies are odd ones: no round begins because of them. Where such copies of a direction have
#: more of the copied time together, sizes just differ from round to round, and none is odd.
_ODD_TIME, _ODD_COUNT, _ODD_TOGETHER = 0.005, 0.1, 0.05
#: A program that returns results in fewer rounds than this share is cut where data goes in.
_LEAST_RETURNING = 0.125
#: Among copies of one direction a pause this long begins a round if it is also longer
#: than all that was done since the last one.
_PAUSE_NS = 50_000
#: Of a pipeline that never runs dry, so many of its parts count as one round.
MOST_PARTS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Consecutive rows of a lane that are a round each.

    Attributes
    ----------
    first, last
        Rows of the lane, `last` behind the round's.
    parts
        How many times in a round bytes went in, were worked on and came back, overlapping
        each other; 1 where nothing of the kind overlaps.
    endless
        True where the round is cut out of a pipeline that goes on.
    """

    first: IntArray
    last: IntArray
    parts: IntArray
    endless: BoolArray

    def __len__(self) -> int:
        return int(self.first.size)


def rounds(lane: Lane) -> Rounds:
    """Return the rounds of a lane, in order."""
    if not len(lane):
        none = np.empty(0, np.int64)
        return Rounds(none, none, none, none.astype(np.bool_))
    told = ~_odd(lane)
    return _joined(lane, _starts(lane, told), told)


def _odd(lane: Lane) -> BoolArray:
    """Return where a copy is one of few and little."""
    odd = np.zeros(len(lane), np.bool_)
    seconds = (lane.end_ns - lane.start_ns).astype(np.float64)
    total = float(seconds[lane.kind <= OUT].sum())
    for kind in (IN, OUT):
        mine = np.flatnonzero(lane.kind == kind)
        _, inverse = np.unique(lane.bytes[mine], return_inverse=True)
        counts, times = np.bincount(inverse), np.bincount(inverse, seconds[mine])
        rare = (times < _ODD_TIME * total) & (counts < _ODD_COUNT * mine.size)
        if float(times[rare].sum()) <= _ODD_TOGETHER * total:
            odd[mine] = rare[inverse]
    return odd


def _starts(lane: Lane, told: BoolArray) -> IntArray:
    """Return the rows at which bytes begin to go in again."""
    rows = np.flatnonzero(told)
    kind = lane.kind[rows]
    copies = kind <= OUT
    copied = kind[copies]
    returned = rows[copies][1:][(copied[1:] == IN) & (copied[:-1] == OUT)]
    into = rows[1:][(kind[1:] == IN) & (kind[:-1] != IN)]
    after = rows[1:][(kind[1:] != OUT) & (kind[:-1] == OUT)]
    most = max(into, after, key=len)
    often = returned.size and returned.size >= _LEAST_RETURNING * most.size
    chosen = returned if often else most
    starts = np.concatenate(([0], chosen[chosen > 0])).astype(np.int64)
    return _with_pauses(lane, starts)


def _with_pauses(lane: Lane, starts: IntArray) -> IntArray:
    """Cut what holds nothing but copies of one direction at its pauses, too."""
    lasts = np.append(starts[1:], len(lane))
    one_kind = np.minimum.reduceat(lane.kind, starts) == np.maximum.reduceat(lane.kind, starts)
    found = [starts]
    for place in np.flatnonzero(one_kind & (lasts - starts > 1)).tolist():
        begin, end = int(starts[place]), int(lasts[place])
        found.append(begin + _after_pauses(lane.rows(slice(begin, end))))
    return np.unique(np.concatenate(found))


def _after_pauses(lane: Lane) -> IntArray:
    """Return the rows before which a pause is longer than all that was done since the last."""
    ends = np.maximum.accumulate(lane.end_ns)
    pause = lane.start_ns[1:] - ends[:-1]
    starts, done = [], 0
    lasted = (lane.end_ns - lane.start_ns).tolist()
    for row, gap in enumerate(pause.tolist(), 1):
        done += lasted[row - 1]
        if gap > _PAUSE_NS and gap > done:
            starts.append(row)
            done = 0
    return np.array(starts, np.int64)


def _joined(lane: Lane, starts: IntArray, told: BoolArray) -> Rounds:
    """Return rounds of parts that overlap: the next goes in before the last has come back."""
    begin = np.minimum.reduceat(np.where(told, lane.start_ns, np.iinfo(np.int64).max), starts)
    end = np.maximum.accumulate(np.maximum.reduceat(np.where(told, lane.end_ns, 0), starts))
    alone = np.concatenate(([True], begin[1:] >= end[:-1]))
    chains = np.flatnonzero(alone)
    lengths = np.diff(np.append(chains, starts.size))
    cuts, parts, endless = [], [], []
    for chain, length in zip(chains.tolist(), lengths.tolist(), strict=True):
        endlessly = length > MOST_PARTS
        for part in range(0, length, MOST_PARTS):
            cuts.append(chain + part)
            parts.append(min(MOST_PARTS, length - part))
            endless.append(endlessly)
    first = starts[np.array(cuts, np.int64)]
    last = np.append(first[1:], len(lane))
    return Rounds(first, last, np.array(parts, np.int64), np.array(endless, np.bool_))


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
