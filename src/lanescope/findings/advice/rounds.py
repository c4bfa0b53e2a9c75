"""The rounds of a watched program: what repeats, and how long its parts take."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lanescope.findings.advice.lanes import IN, OUT, WORK, OperationLane
from lanescope.findings.trace.copies import LOOKED_AT
from lanescope.results import FloatArray
from lanescope.trace.codes import BoolArray, IntArray
from lanescope.trace.rectangles import covered_ns, union

#: Copies of one size and direction with less of the copied time and fewer of its direction's
#: copies are odd ones: no round begins because of them. Where such copies of a direction have
#: more of the copied time together, sizes just differ from round to round, and none is odd.
_ODD_TIME, _ODD_COUNT, _ODD_TOGETHER = 0.005, 0.1, 0.05
#: A program that returns results in fewer rounds than this share is cut where data goes in.
_LEAST_RETURNING = 0.125
#: Where data goes in piece by piece, each smaller than this and behind it a kernel or two, for
#: half of all rounds or more, they are cut where results come back all the same, if so often, and
#: with no more operations in the middle one.
_SMALL_PIECE, _FEW_KERNELS, _PIECEMEAL, _FEWEST_RETURNING = 64 << 10, 2, 0.5, 8
_MOST_PIECEMEAL = 1_000
#: Among copies of one direction a pause this long begins a round if it is also longer
#: than all that was done since the last one.
_PAUSE_NS = 50_000
#: Of a pipeline that never runs dry, so many of its parts count as one round.
MOST_PARTS = 64
#: Copies of one direction that go on without a pause are cut into rounds of so many, from this
#: count on.
_IN_A_ROW, _LONG_ROW = 64, 256
#: So large a share of copies, and so many, bring what has just come back, or none is taken to.
_MOST_EQUAL, _FEWEST_EQUAL = 0.9, 3


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


def rounds(lane: OperationLane) -> Rounds:
    """Return the rounds of a lane, in order."""
    if not len(lane):
        none = np.empty(0, np.int64)
        return Rounds(none, none, none, none.astype(np.bool_))
    regular = ~_odd(lane)
    return _joined(lane, _starts(lane, regular), regular)


def _odd(lane: OperationLane) -> BoolArray:
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


def _starts(lane: OperationLane, regular: BoolArray) -> IntArray:
    """Return the rows at which bytes begin to go in again."""
    rows = np.flatnonzero(regular)
    kind = lane.kind[rows]
    copies = kind <= OUT
    copied = kind[copies]
    back = (copied[1:] == IN) & (copied[:-1] == OUT)
    behind, returned = rows[copies][:-1][back], rows[copies][1:][back]
    returned = returned[~_passed_on(lane, behind, returned)]
    into = rows[1:][(kind[1:] == IN) & (kind[:-1] != IN)]
    after = rows[1:][(kind[1:] != OUT) & (kind[:-1] == OUT)]
    most = max(into, after, key=len)
    often = returned.size and returned.size >= _LEAST_RETURNING * most.size
    short = returned.size >= _FEWEST_RETURNING and np.median(np.diff(returned)) <= _MOST_PIECEMEAL
    chosen = returned if often or (short and _is_piecemeal(lane, most)) else most
    starts = np.concatenate(([0], chosen[chosen > 0])).astype(np.int64)
    return _with_pauses(lane, starts)


def _is_piecemeal(lane: OperationLane, starts: IntArray) -> bool:
    """Whether most of the rounds that begin there are a small copy to the GPU and little work."""
    if not starts.size:
        return False
    behind = lane.rows(slice(int(starts[0]), len(lane)))
    at = starts - starts[0]
    copies, kernels = (
        np.add.reduceat((behind.kind == kind).astype(np.int64), at) for kind in (IN, WORK)
    )
    moved = np.add.reduceat(np.where(behind.kind == IN, behind.bytes, 0), at)
    small = (copies == 1) & (moved < _SMALL_PIECE) & (kernels > 0) & (kernels <= _FEW_KERNELS)
    return bool(small.mean() >= _PIECEMEAL)


def _passed_on(lane: OperationLane, back: IntArray, into: IntArray) -> BoolArray:
    """Return where bytes go in that have just come back: no round begins with its own data.

    What was read of some copies of a size counts for all. A few bytes that are the same each time
    may be so by chance.
    """
    size = lane.bytes[into]
    same = lane.bytes[back] == size
    read = same & (lane.content[back] > 0) & (lane.content[into] > 0)
    found = np.zeros(into.size, np.bool_)
    for one in np.unique(size[read]).tolist():
        mine = read & (size == one)
        equal = lane.content[back[mine]] == lane.content[into[mine]]
        values = np.unique(lane.content[into[mine]][equal]).size
        if equal.mean() >= _MOST_EQUAL and values >= (1 if one > LOOKED_AT else _FEWEST_EQUAL):
            found |= same & (size == one) & (int(mine.sum()) >= _FEWEST_EQUAL)
    return found


def _with_pauses(lane: OperationLane, starts: IntArray) -> IntArray:
    """Cut what holds nothing but copies of one direction at its pauses, too.

    What goes on for long without one is cut into equal pieces.
    """
    lasts = np.append(starts[1:], len(lane))
    one_kind = np.minimum.reduceat(lane.kind, starts) == np.maximum.reduceat(lane.kind, starts)
    found = [starts]
    for place in np.flatnonzero(one_kind & (lasts - starts > 1)).tolist():
        begin, end = int(starts[place]), int(lasts[place])
        pauses = begin + _after_pauses(lane.rows(slice(begin, end)))
        found.append(pauses)
        if lane.kind[begin] <= OUT:
            ends = [begin, *pauses.tolist(), end]
            long = [(a, b) for a, b in pairwise(ends) if b - a >= _LONG_ROW]
            found += [np.arange(a, b, _IN_A_ROW) for a, b in long]
    return np.unique(np.concatenate(found))


def _after_pauses(lane: OperationLane) -> IntArray:
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


def _joined(lane: OperationLane, starts: IntArray, regular: BoolArray) -> Rounds:
    """Return rounds of parts that overlap: one goes in before all earlier ones have come back.

    Streams may run in another order than that in which they were submitted, so each part is
    compared with all that come later.
    """
    begin = np.minimum.reduceat(np.where(regular, lane.start_ns, np.iinfo(np.int64).max), starts)
    end = np.maximum.accumulate(np.maximum.reduceat(np.where(regular, lane.end_ns, 0), starts))
    earliest = np.minimum.accumulate(begin[::-1])[::-1]
    alone = np.concatenate(([True], earliest[1:] >= end[:-1]))
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
#: Rounds of one loop whose sizes vary differ by no more than these times, and change places with
#: the others for so much of their count, and so often at least.
_MOST_TIMES, _TURNS, _LEAST_TURNS = 4, 0.5, 3
#: A lane has so many such loops at most, those with the most bytes.
_MOST_LOOPS = 8
#: Of the different rounds of a lane so many kinds are looked at, those with the most bytes.
_MOST_KINDS = 512


def like_rounds(lane: OperationLane, found: Rounds) -> list[IntArray]:
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
    return _varying(lane, found, [np.isin(inverse, members).nonzero()[0] for _, members in groups])


def _varying(lane: OperationLane, found: Rounds, groups: list[IntArray]) -> list[IntArray]:
    """Join groups whose rounds do the same with other sizes, and take turns in no order.

    Batches of graphs, or of sentences of any length, are of one loop. Where one launches far more
    kernels than the other they are two.
    """
    launches = np.add.reduceat((lane.kind == WORK).astype(np.int64), found.first)
    sizes = np.stack([*(_bytes(lane, found, kind) for kind in (IN, OUT)), launches], axis=1)
    joined: list[IntArray] = []
    for group in groups:
        for place, other in enumerate(joined[:_MOST_LOOPS]):
            medians = (np.median(sizes[one], axis=0) for one in (group, other))
            if _comparable(*medians) and _same_loop(lane, found, group, other):
                joined[place] = np.sort(np.concatenate((other, group)))
                break
        else:
            joined.append(group)
    return joined


def _comparable(one: FloatArray, other: FloatArray) -> bool:
    return bool((np.maximum(one, other) <= _MOST_TIMES * np.minimum(one, other)).all())


def _same_loop(lane: OperationLane, found: Rounds, one: IntArray, other: IntArray) -> bool:
    # the middle ones: with the last one goes what a program does at its end
    mine, theirs = (_copies_of(lane, found, int(group[group.size // 2])) for group in (one, other))
    if mine != theirs:
        return False
    number = np.sort(np.concatenate((one, other)))
    is_one = np.isin(number, one)
    turns = int((is_one[1:] != is_one[:-1]).sum())
    return turns >= max(_TURNS * min(one.size, other.size), _LEAST_TURNS)


def _copies_of(lane: OperationLane, found: Rounds, number: int) -> list[tuple[int, ...]]:
    """Return the copies of a round, without their sizes."""
    rows = lane.rows(slice(int(found.first[number]), int(found.last[number])))
    copies = rows.rows(rows.kind <= OUT)
    columns = (copies.kind, copies.memory, copies.asynchronous)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _near(one: IntArray, other: IntArray) -> bool:
    return bool((np.abs(one - other) <= TOLERANCE * np.maximum(one, other)).all())


def _bytes(lane: OperationLane, found: Rounds, kind: int) -> IntArray:
    moved = np.where(lane.kind == kind, lane.bytes, 0)
    return np.add.reduceat(moved, found.first).astype(np.int64)


#: Kernels this close after each other are one stretch of work: a launch takes a few µs.
_LAUNCH_GAP_NS = 20_000
#: Shorter pauses are what calls and launches take, which the models have.
_SHORTEST_PAUSE_NS = 50_000


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Nanoseconds of one round."""

    begin: int
    end: int
    h2d: int
    d2h: int
    work: int
    hidden: int
    idle: int
    host: int


def round_times(lane: OperationLane, after_ns: int, *, kernels: bool) -> RoundTimes:
    """Return what the time of a round went to.

    Parameters
    ----------
    lane
        The operations of the round alone.
    after_ns
        When the round before it had ended, 0 where there is none: it begins no earlier.
    kernels
        Whether kernels were traced. Where they were not, each pause may be one.
    """
    call = int(lane.call_start_ns[0])
    begin, end = int(lane.start_ns.min()), int(lane.end_ns.max())
    if call >= max(after_ns, 1) and call < begin:
        begin = call
    waited = (lane.kind <= OUT) & ~lane.asynchronous
    if waited.any():
        end = max(end, int(lane.call_end_ns[waited].max()))
    directions = [_intervals(lane, kind) for kind in (IN, OUT, WORK)]
    copied = union(*(np.concatenate(column) for column in zip(*directions[:2], strict=True)))
    work = _without_gaps(*directions[2], *copied)
    every = union(*(np.concatenate(column) for column in zip(copied, work, strict=True)))
    h2d, d2h, worked = (covered_ns(*one) for one in (*directions[:2], work))
    all_covered = int((every[1] - every[0]).sum())
    starts = np.concatenate(([begin], every[1]))
    ends = np.concatenate((every[0], [max(end, int(every[1][-1]))]))
    return RoundTimes(
        begin,
        int(ends[-1]),
        h2d,
        d2h,
        worked,
        h2d + d2h + worked - all_covered,
        int((ends - starts).sum()),
        _paused(lane, starts, ends, calls=kernels),
    )


def _intervals(lane: OperationLane, kind: int) -> tuple[IntArray, IntArray]:
    mine = lane.kind == kind
    return union(lane.start_ns[mine], lane.end_ns[mine])


def _without_gaps(
    start: IntArray, end: IntArray, copy_start: IntArray, copy_end: IntArray
) -> tuple[IntArray, IntArray]:
    """Close short gaps between kernels in which nothing is copied."""
    if start.size < 2:
        return start, end
    before = np.searchsorted(copy_end, end[:-1], "right")
    behind = np.searchsorted(copy_start, start[1:], "left")
    closed = (start[1:] - end[:-1] <= _LAUNCH_GAP_NS) & (before >= behind)
    return start[np.concatenate(([True], ~closed))], end[np.concatenate((~closed, [True]))]


def _paused(lane: OperationLane, starts: IntArray, ends: IntArray, *, calls: bool) -> int:
    """Return how much of pauses is long, and not spent in a call that copies."""
    long = ends - starts > _SHORTEST_PAUSE_NS
    starts, ends = starts[long], ends[long]
    if not starts.size:
        return 0
    paused = int((ends - starts).sum())
    known = (lane.kind <= OUT) & (lane.call_start_ns > 0)
    if not calls or not known.any():
        return paused
    called = union(lane.call_start_ns[known], lane.call_end_ns[known])
    both = union(*(np.concatenate(column) for column in zip((starts, ends), called, strict=True)))
    inside = paused + covered_ns(*called) - int((both[1] - both[0]).sum())
    return max(paused - inside, 0)
