"""Which copies of a set ran at once, which one after the other, and what their times still say.

A copy engine that is given several streams may finish one before it begins with the next. Copies
that have to wait so are put into one stream, a window of each by turns, so that each has a rate
while all others run. Kernels cannot be: of them only what all moved together is known, from the
first one's start to the last one's end. All of this is read from the times at which the windows of
each copy ended; nothing else tells which engine the driver chose.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from lanescope.results import FloatArray

#: How the method says that copies of one set ran one after another.
IN_TURNS = (
    "copies that an engine takes in turns are timed together, from the start of the first to the "
    "end of the last"
)
#: And where they were put in a queue.
BY_WINDOWS = (
    "copies that a copy engine takes in turns are queued window by window, and each has the time "
    "in which all of them are done"
)

#: A first window that ends later than so many windows has waited for another copy.
_LATE_WINDOWS = 1.5
#: And a later one has, if it is so many times as long as most: rates change when others end.
_LONG_WINDOWS = 2.5
#: How far, as a share of the longer window, one copy's begin may be from another's end.
_TOUCH = 0.25
#: Copies ran beside each other if they shared more than this of the shorter one's time.
_LEAST_SHARED = 0.25

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class PossibleEngine:
    """Which engine may have done a copy, as far as that is known.

    Attributes
    ----------
    unit
        Copies of different units share no engine: a GPU and a kind of engine.
    direction
        Copies in the same direction are the likeliest to share one.
    leaves
        Whether the bytes leave the GPU: those that agree in this are the next.
    """

    unit: Hashable
    direction: Hashable
    leaves: bool


@dataclass(frozen=True, slots=True)
class Turns:
    """What is known of a set of copies of which some waited for each other.

    Attributes
    ----------
    groups
        Numbers of the copies that an engine took in turns, ascending; empty where none did.
    unknown
        Numbers of the copies that never ran beside all the others.
    by_windows
        Whether those of a group were queued window by window, so that each has a rate.
    """

    groups: Groups = ()
    unknown: frozenset[int] = frozenset()
    by_windows: bool = False

    def others(self, number: int) -> tuple[int, ...]:
        """Return the copies that took turns with one; empty if it had an engine for itself."""
        group = next((g for g in self.groups if number in g), ())
        return tuple(other for other in group if other != number)


def groups_in_turns(
    boundaries: Sequence[Sequence[float]], lanes: Sequence[PossibleEngine]
) -> Groups:
    """Return the groups of copies that an engine took one after the other.

    Two copies share an engine if one begins, or goes on after a pause, where the other ends,
    and they never run beside each other. Where several ended at that moment it is the one that
    goes the same way. So do two that go the same way and never run beside each other.

    Parameters
    ----------
    boundaries
        For each copy the times, in seconds since a common start, at which its first window,
        that warms up, and the following ones end; ascending.
    """
    busy = [_busy_times(b) for b in boundaries]
    group = list(range(len(busy)))  # each copy's group, named by one of its members
    late = sorted(
        (begin, number)
        for number, one in enumerate(busy)
        for begin, _ in one.spans
        if begin > (_LATE_WINDOWS - 1) * one.window
    )
    for begin, number in late:
        for other in _before(begin, number, busy, lanes):
            if _joined(number, other, group, busy):
                break
    # All begin at once, so that of those that go the same way one has waited.
    for number, other in combinations(range(len(busy)), 2):
        if lanes[number] == lanes[other] and group[number] != group[other]:
            _joined(number, other, group, busy)
    found = (tuple(i for i, g in enumerate(group) if g == name) for name in dict.fromkeys(group))
    return tuple(sorted(members for members in found if len(members) > 1))


def agreed_groups(before: Groups, after: Groups) -> Groups:
    """Return what two batches agree on: the groups of one, of which the other has seen a part.

    Nothing where neither has every group of the other within its own, or one has seen nothing.

    >>> agreed_groups(((0, 2, 4), (1, 3)), ((1, 3), (2, 4)))
    ((0, 2, 4), (1, 3))
    >>> agreed_groups(((0, 2), (1, 3)), ((0, 4), (1, 3)))
    ()
    """
    for whole, part in ((before, after), (after, before)):
        within = all(any(set(one) <= set(group) for group in whole) for one in part)
        if whole and len(part) == len(whole) and within:
            return whole
    return ()


def merged_groups(known: Groups, found: Groups) -> Groups:
    """Return groups with those that were found among them, each named by its first members.

    >>> merged_groups(((0, 2), (5, 6)), ((0, 4), (1, 3)))
    ((0, 2, 4), (1, 3), (5, 6))
    """
    merged = [set(group) for group in known]
    for group in found:
        joined = set(group).union(*(one for one in merged if one & set(group)))
        merged = [one for one in merged if not one & joined] + [joined]
    return tuple(sorted(tuple(sorted(group)) for group in merged))


def queues_of(groups: Groups, count: int) -> list[int]:
    """Return of each copy the first one of its group, or itself.

    >>> queues_of(((1, 3),), 5)
    [0, 1, 2, 1, 4]
    """
    first = {number: group[0] for group in groups for number in group}
    return [first.get(number, number) for number in range(count)]


def ran_at_once(boundaries: Sequence[Sequence[float]], groups: Groups) -> bool:
    """Whether copies of a group ran beside each other, so that no engine takes them in turns."""
    busy = [_busy_times(b) for b in boundaries]
    return any(_overlap(busy[a], busy[b]) for group in groups for a, b in combinations(group, 2))


def seconds_in_turns(boundaries: Sequence[Sequence[float]], groups: Groups) -> list[FloatArray]:
    """Return the seconds of each copy's windows, where some took turns.

    Of a group that is one number for all its copies: the seconds in which each of them did a
    window. A copy with an engine for itself has the windows during which all others, or a
    member of each group, were running; possibly none.
    """
    grouped = {number: group for group in groups for number in group}
    slots = [*groups, *((n,) for n in range(len(boundaries)) if n not in grouped)]
    ends = [_from_to(boundaries, slot) for slot in slots]
    begin, end = max(b for b, _ in ends), min(e for _, e in ends)
    seconds = []
    for number, one in enumerate(boundaries):
        if number in grouped:
            seconds.append(np.array([_joint_seconds([boundaries[n] for n in grouped[number]])]))
        else:
            inside = [b - a for a, b in pairwise(one) if a >= begin and b <= end]
            seconds.append(np.array(inside, dtype=np.float64))
    return seconds


def _joined(number: int, other: int, group: list[int], busy: Sequence[_Busy]) -> bool:
    """Make one group of those of two copies, unless some of them ran at the same time."""
    ours = [i for i, g in enumerate(group) if g == group[number]]
    theirs = [i for i, g in enumerate(group) if g == group[other]]
    if any(_overlap(busy[a], busy[b]) for a in ours for b in theirs if a != b):
        return False
    for member in theirs:
        group[member] = group[number]
    return True


@dataclass(frozen=True, slots=True)
class _Busy:
    """When a copy moved bytes: begins and ends, and how long most of its windows took."""

    spans: tuple[tuple[float, float], ...]
    window: float

    @property
    def total(self) -> float:
        return sum(end - begin for begin, end in self.spans)


def _busy_times(boundaries: Sequence[float]) -> _Busy:
    """Return the times of a copy without those in which it waited: windows of a usual length."""
    window = float(np.median(np.diff(boundaries)))
    spans: list[tuple[float, float]] = []
    for begin, end in pairwise([0.0, *boundaries]):
        most = _LATE_WINDOWS if not spans else _LONG_WINDOWS
        since = begin if end - begin <= most * window else end - window
        if spans and spans[-1][1] >= since:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((since, end))
    return _Busy(tuple(spans), window)


def _before(
    begin: float, number: int, busy: Sequence[_Busy], lanes: Sequence[PossibleEngine]
) -> Iterator[int]:
    """Yield copies that end where this one begins, the likeliest to share its engine first."""
    mine, found = lanes[number], []
    for other, one in enumerate(busy):
        near = _TOUCH * max(one.window, busy[number].window)
        gap = min(abs(begin - end) for _, end in one.spans)
        if other != number and lanes[other].unit == mine.unit and gap <= near:
            direction = (
                lanes[other].direction != mine.direction,
                lanes[other].leaves != mine.leaves,
            )
            found.append((direction, gap, other))
    return (other for _, _, other in sorted(found))


def _overlap(a: _Busy, b: _Busy) -> bool:
    shared = sum(
        max(0.0, min(a_end, b_end) - max(a_begin, b_begin))
        for a_begin, a_end in a.spans
        for b_begin, b_end in b.spans
    )
    return shared > _LEAST_SHARED * min(a.total, b.total)


def _from_to(boundaries: Sequence[Sequence[float]], slot: Sequence[int]) -> tuple[float, float]:
    return min(boundaries[n][0] for n in slot), max(boundaries[n][-1] for n in slot)


def _joint_seconds(group: Sequence[Sequence[float]]) -> float:
    first = min(group, key=lambda one: one[0])
    # Its first window may have woken the link, or waited for the gate: it counts as a usual one.
    begin = first[0] - float(np.median(np.diff(first)))
    return (max(one[-1] for one in group) - begin) / len(first)


def overlapping_windows(boundaries: Sequence[Sequence[float]]) -> list[FloatArray]:
    """Return the lengths of the windows during which every copy was running.

    A window that reaches past the start or the end of another copy ran partly
    alone and would look too fast. The first window of a copy warms it up: where
    that leaves a slow copy beside a fast one no window, the others' first windows
    count as their running, though not as times of theirs.

    Parameters
    ----------
    boundaries
        For each copy the times, in seconds since a common start, at which its
        windows begin and end; ascending.

    Returns
    -------
    list of arrays
        Seconds of the windows that count, for each copy; possibly none.
    """
    spans = [list(pairwise(b)) for b in boundaries]
    found = overlapping_spans(spans)
    if all(one.size for one in found) or not all(len(b) > 1 for b in boundaries):
        return found
    return overlapping_spans(spans, since=max(map(_began, boundaries)))


def _began(boundaries: Sequence[float]) -> float:
    """When a copy began, from the end of its first window and the length of the others."""
    return max(0.0, boundaries[0] - float(np.median(np.diff(boundaries))))


def overlapping_spans(
    spans: Sequence[Sequence[tuple[float, float]]], since: float | None = None
) -> list[FloatArray]:
    """Return the lengths of the repetitions during which every copy was running.

    Parameters
    ----------
    spans
        For each copy the begin and the end of its repetitions, one or more, in
        seconds by a common clock; ascending.
    since
        When all of them were running; None for the latest first begin.

    Returns
    -------
    list of arrays
        Seconds of the repetitions that count, for each copy; possibly none.
    """
    times = [np.asarray(s, dtype=np.float64).reshape(-1, 2) for s in spans]
    begin = max(t[0, 0] for t in times) if since is None else since
    end = min(t[-1, 1] for t in times)
    inside = [(t[:, 0] >= begin) & (t[:, 1] <= end) for t in times]
    return [(t[:, 1] - t[:, 0])[keep] for t, keep in zip(times, inside, strict=True)]


def shares_of_common_time(spans: Sequence[Sequence[tuple[float, float]]]) -> list[FloatArray]:
    """Return for each copy the common time of all, divided by its repetitions in it.

    For copies whose threads take turns on a CPU: most repetitions of a short copy fall
    between two turns and look as if the thread had the CPU for itself.

    Parameters
    ----------
    spans
        As in `overlapping_spans`.

    Returns
    -------
    list of arrays
        One number of seconds for each copy; none if there is no common time, or
        one copy did nothing in it.
    """
    times = [np.asarray(s, dtype=np.float64).reshape(-1, 2) for s in spans]
    begin = max(t[0, 0] for t in times)
    end = min(t[-1, 1] for t in times)
    done = [_repetitions_between(t, begin, end) for t in times]
    if end <= begin or not all(done):
        return [np.empty(0) for _ in times]
    return [np.array([(end - begin) / count]) for count in done]


def _repetitions_between(times: FloatArray, begin: float, end: float) -> float:
    """How many repetitions lie in a time; those that reach past it count in part."""
    inside = np.clip(times, begin, end)
    lengths = np.maximum(times[:, 1] - times[:, 0], np.finfo(np.float64).tiny)
    return float(np.sum((inside[:, 1] - inside[:, 0]) / lengths))
