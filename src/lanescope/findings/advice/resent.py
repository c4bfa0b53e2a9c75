"""Which copies bring to a GPU what is there already, by hashes of what some of them carried."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from math import inf
from statistics import median

import numpy as np

from lanescope.findings.advice.lanes import IN, OUT, OperationLane
from lanescope.findings.advice.rounds import Rounds
from lanescope.findings.advice.schedule import ScheduledTask, pays
from lanescope.findings.trace.copies import LOOKED_AT
from lanescope.trace.codes import IntArray
from lanescope.trace.operations import Operations
from lanescope.trace.side_tables import with_addresses
from lanescope.trace.timeline import Timeline

#: A place at which contents change no more often holds one set of data of a test, and what the test
#: warmed up with before.
_CHANGES_OF_TESTS = 1
#: Of fewer copies of a place in the rounds, or of a size, nothing is said.
_FEWEST = 3
#: From this share on all copies of a place count, below the other none, between as many of them.
_MOST, _LEAST = 0.9, 0.5
#: Bytes a nanosecond that a library copies at least, and a pause besides, where the host does
#: nothing else with data between its way back and its way to the GPU.
_PASSED_ON_RATE, _PASSED_ON_NS = 2.0, 50_000
#: So many contents of a size are remembered, those that were sent last, and no more bytes: what
#: comes again stays on a GPU only if there is room for it.
_MOST_CONTENTS, _MOST_BYTES = 4_096, 16 << 30
#: Copies of a size are of contents that come again where so large a share of them is.
_LEAST_AGAIN = 0.5
#: They are of new ones, too, where so few of the last third were among the first third.
_MOST_OLD = 0.1
#: Data stays where it comes again in so much less time than that which changes least often.
_SHORTER = 0.5
#: From so large a share on of a copy that has not changed only the rest is to be sent.
_LEAST_SAME = 0.5
#: Sizes with less of the bytes do not tell how often a program gets data anew that comes again.
_LEAST_SHARE = 0.01


class Brings(IntEnum):
    """What a copy brings."""

    UNKNOWN = 0
    NEW = 1
    SENT = 2  # to a GPU, what the last copy of its place, or one of the same round, has brought
    RETURNED = 3  # to a GPU, what has come from it in this round or the one before
    SENT_BACK = 4  # from a GPU, what is sent to it again
    BY_TURNS = (
        5  # to a GPU, what one of the last copies of its size has brought, see `_sent_by_turns`
    )
    IN_PART = 6  # to a GPU, what was sent before but for some parts


#: What these bring is on the GPU already, or is not needed on the host.
NEEDLESS = frozenset((Brings.SENT, Brings.RETURNED, Brings.SENT_BACK, Brings.BY_TURNS))
#: These bring what the host has sent before.
AGAIN = (Brings.SENT, Brings.BY_TURNS)
#: A direction and a size, and how many of them were before in a round.
_Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Resident:
    """How many arrays stay on a GPU that are no longer sent again, and their bytes in all."""

    arrays: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Sends:
    """What the copies of a phase bring.

    Attributes
    ----------
    tasks
        Of its schedule.
    constant
        Whether all that a round sends is the same in each round.
    resident
        What stays on the GPU where nothing is sent again; None where nothing is.
    new_bytes
        That each round sends at places where nearly nothing has been sent before.
    """

    tasks: tuple[ScheduledTask, ...]
    constant: bool = False
    resident: Resident | None = None
    new_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Read:
    """A copy that was read; `before` is the row that sent the same last, -1 where none did.

    `content` is the number of what it carried, `same` the share of its bytes that was sent before.
    """

    row: int
    round: int
    place: _Place
    content: int
    same: float = 0.0
    brings: Brings = Brings.UNKNOWN
    before: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """Numbers of what copies carried: of the same number, the same bytes.

    Attributes
    ----------
    key
        Process and correlation of each copy that was read, ascending.
    number
        From 1.
    same_bytes
        How many of its bytes the copy before it has brought, as in `HostCopies`.
    """

    key: IntArray
    number: IntArray
    same_bytes: IntArray

    @staticmethod
    def none() -> Contents:
        """Return what is known where nothing was read."""
        return Contents(*np.empty((3, 0), np.int64))

    @staticmethod
    def of(timeline: Timeline) -> Contents:
        """Return what a watch knows."""
        if not timeline.host_copies.hashed.any():
            return Contents.none()
        rows, called = with_addresses(timeline.operations, timeline.host_copies)
        read = (called.hashed > 0) & (called.bytes == rows.bytes)
        key = _key(called.pid[read], called.correlation[read])
        held = np.stack((rows.device[read], called.bytes[read], called.hash[read]), axis=1)
        _, number = np.unique(held, axis=0, return_inverse=True)
        order = np.argsort(key)
        same = called.same_bytes[read][order]
        return Contents(key[order], number.reshape(-1)[order] + 1, same)

    def of_rows(self, rows: Operations) -> tuple[IntArray, IntArray]:
        """Return of each operation its number and `same_bytes`; 0 where it was not read."""
        number, same = np.zeros((2, len(rows)), np.int64)
        if not self.key.size:
            return number, same
        key = _key(rows.pid, rows.correlation)
        at = np.minimum(np.searchsorted(self.key, key), self.key.size - 1)
        known = self.key[at] == key
        number[known], same[known] = self.number[at[known]], self.same_bytes[at[known]]
        return number, same


@dataclass(slots=True)
class _Sent:
    """What was sent of one size, as far as it was read.

    `most` contents are remembered. `again` has the copies to the GPU since the same was sent last,
    by row; `warming` is how many contents came before any came again.
    """

    most: int
    contents: list[int] = field(default_factory=list)
    again: dict[int, int] = field(default_factory=dict)
    warming: int = 0
    _recent: dict[int, int] = field(default_factory=dict)

    def add(self, row: int, content: int, place: int) -> None:
        if content in self._recent:
            self.again[row] = place - self._recent.pop(content)
        elif not self.again:
            self.warming += 1
        self._recent[content] = place
        self.contents.append(content)
        if len(self._recent) > self.most:
            del self._recent[next(iter(self._recent))]

    @property
    def period(self) -> float:
        """Copies to the GPU until the same is sent again; `inf` where most never is."""
        rest = len(self.contents) - self.warming
        if not self.again or len(self.again) < _LEAST_AGAIN * rest:
            return inf
        return median(self.again.values())

    @property
    def renews(self) -> bool:
        """Whether contents that come again for a while give place to new ones."""
        third = len(self.contents) // 3
        if third < _FEWEST:
            return False
        early = set(self.contents[:third])
        old = sum(content in early for content in self.contents[-third:])
        return old <= _MOST_OLD * third


def remembered(size: int) -> int:
    """Return how many contents of so many bytes are remembered.

    >>> remembered(128 << 10), remembered(64 << 20)
    (4096, 256)
    """
    return min(_MOST_CONTENTS, max(_MOST_BYTES // size, 1))


def _key(pid: IntArray, correlation: IntArray) -> IntArray:
    return (pid << 32) + correlation


def with_contents(
    tasks: Sequence[ScheduledTask], lane: OperationLane, rounds: Rounds, which: IntArray
) -> Sends:
    """Return tasks of a schedule with what they bring.

    What was read of some rounds counts for all of them: a copy is known by its direction, its size
    and how many of these were before it in its round. Where all that a program sends is the same in
    each round it looks like a test with one set of data, and nothing is said of what was sent; what
    is sent many times and then changes is no such test.

    Parameters
    ----------
    rounds
        Of the lane.
    which
        Numbers of those of the phase.
    """
    by_round = _by_round(lane, rounds)
    read = [one for number in which.tolist() if by_round for one in by_round.get(number, ())]
    if not read:
        return Sends(tuple(tasks))
    places: dict[_Place, Counter[Brings]] = defaultdict(Counter)
    for one in read:
        places[one.place][one.brings] += 1
    constant = _is_constant(read, places)
    allowed = (Brings.RETURNED,) if constant else (Brings.RETURNED, *AGAIN)
    placed = _placed(tasks)
    found = [_marked(task, places.get(place), allowed) for task, place in placed]
    shares = {} if constant else _same_shares(read)
    found, in_part = _in_part(found, [place for _, place in placed], shares)
    again = {place for task, (_, place) in zip(found, placed, strict=True) if task.brings in AGAIN}
    whole = (one for one in read if one.place in again and one.brings in AGAIN)
    new_bytes = _new_bytes(read)
    return Sends(tuple(_passed_on(found)), constant, _resident(whole, in_part), new_bytes)


def _new_bytes(read: Iterable[_Read]) -> int:
    """Return how much of what each round sends has not been sent before, nearly ever."""
    contents: dict[_Place, list[int]] = defaultdict(list)
    for one in read:
        if one.place[0] == IN:
            contents[one.place].append(one.content)
    return sum(
        place[1]
        for place, mine in contents.items()
        if len(mine) >= _FEWEST and len(set(mine)) >= _MOST * len(mine)
    )


def _is_constant(read: Iterable[_Read], places: Mapping[_Place, Counter[Brings]]) -> bool:
    """Return whether all that rounds send is the same in each, or what has come back before."""
    contents: dict[_Place, list[int]] = defaultdict(list)
    for one in read:
        contents[one.place].append(one.content)
    inputs = (place for place in places if place[0] == IN)
    sent = [place for place in inputs if places[place].total() >= _FEWEST]
    of_one = [
        _share(places[place], (Brings.SENT,)) >= _MOST
        and sum(one != other for one, other in pairwise(contents[place])) <= _CHANGES_OF_TESTS
        for place in sent
    ]
    come_back = (_share(places[place], (Brings.RETURNED,)) >= _MOST for place in sent)
    return any(of_one) and all(one or back for one, back in zip(of_one, come_back, strict=True))


def _same_shares(read: Iterable[_Read]) -> dict[_Place, float]:
    """Return the share of copies of each place that does not change while the rest does."""
    shares: dict[_Place, list[float]] = defaultdict(list)
    for one in read:
        if one.place[0] == IN and one.brings is Brings.NEW:
            shares[one.place].append(one.same)
    return {place: median(mine) for place, mine in shares.items() if len(mine) >= _FEWEST}


def _in_part(
    tasks: Sequence[ScheduledTask], places: Sequence[_Place], shares: Mapping[_Place, float]
) -> tuple[list[ScheduledTask], set[_Place]]:
    """Return tasks, and the places of those of new data of which a large share was sent before.

    Places where it takes longer to gather what has changed than to copy all are left as they are:
    nobody would do that to keep other data on the GPU.
    """
    fresh: dict[_Place, dict[int, ScheduledTask]] = defaultdict(dict)  # by number of the task
    for number, (task, place) in enumerate(zip(tasks, places, strict=True)):
        share = shares.get(place, 0.0)
        if task.brings in (Brings.UNKNOWN, Brings.NEW) and share >= _LEAST_SAME:
            changed = round(task.bytes * (1 - share))
            fresh[place][number] = replace(task, brings=Brings.IN_PART, fresh=changed)
    paying = {place: mine for place, mine in fresh.items() if pays(mine.values())}
    found = dict(enumerate(tasks))
    for mine in paying.values():
        found |= mine
    return list(found.values()), set(paying)


def _resident(read: Iterable[_Read], in_part: Collection[_Place]) -> Resident | None:
    """Return what has to stay on a GPU from one of these copies to the next of the same.

    Parameters
    ----------
    in_part
        Places of which each holds an array that changes in part.
    """
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in read:
        spans[one.place[1]].append((one.before, one.row))
    arrays = Counter({size: most_at_once(mine) for size, mine in spans.items()})
    arrays.update(size for _, size, _ in in_part)
    if not arrays:
        return None
    return Resident(arrays.total(), sum(size * count for size, count in arrays.items()))


@lru_cache(maxsize=4)  # the phases of a lane follow each other
def _by_round(lane: OperationLane, rounds: Rounds) -> dict[int, list[_Read]]:
    """Return by number of a round what was brought at each place, as far as it was read."""
    found: dict[int, list[_Read]] = defaultdict(list)
    for one in _brought(lane, _read(lane, rounds.first)):
        found[one.round].append(one)
    return found


def _read(lane: OperationLane, first: IntArray) -> list[_Read]:
    """Return each copy that was read."""
    if not lane.content.any():
        return []
    copies = np.flatnonzero(lane.kind <= OUT)
    numbers = np.searchsorted(first, copies, "right") - 1
    before: Counter[tuple[int, int, int]] = Counter()
    found = []
    for row, number in zip(copies.tolist(), numbers.tolist(), strict=True):
        kind, size = int(lane.kind[row]), int(lane.bytes[row])
        if lane.content[row]:
            place = kind, size, before[number, kind, size]
            same = int(lane.same_bytes[row]) / max(size, 1)
            found.append(_Read(row, number, place, int(lane.content[row]), same))
        before[number, kind, size] += 1
    return found


def _brought(lane: OperationLane, read: Sequence[_Read]) -> list[_Read]:
    """Return the same with what each of these copies brings."""
    found: dict[int, Brings] = {}
    rows_before: dict[int, int] = {}
    last: dict[_Place, int] = {}  # what was sent there last
    sent: dict[int, tuple[int, int]] = {}  # by content: the round in which it was sent, and the row
    came: dict[int, tuple[int, int]] = {}  # by content: the round in which it came, and the row
    for one in read:
        content, (kind, size, _) = int(lane.content[one.row]), one.place
        found[one.row] = Brings.NEW
        if kind == OUT:
            came[content] = one.round, one.row
            continue
        sent_in, rows_before[one.row] = sent.get(content, (-1, -1))
        if content in came and one.round - came[content][0] <= 1:
            found[one.row] = Brings.RETURNED
            found[came[content][1]] = Brings.SENT_BACK
        elif size > LOOKED_AT and (last.get(one.place) == content or sent_in == one.round):
            found[one.row] = Brings.SENT
        last[one.place], sent[content] = content, (one.round, one.row)
    found = _unless_of_few_values(_with_turns(found, lane), lane)
    return [
        replace(one, brings=found[one.row], before=rows_before.get(one.row, -1)) for one in read
    ]


def _with_turns(found: dict[int, Brings], lane: OperationLane) -> dict[int, Brings]:
    """Return the same with what is sent by turns."""
    sent = (
        row
        for row, brings in found.items()
        if lane.kind[row] == IN and lane.bytes[row] > LOOKED_AT and brings != Brings.RETURNED
    )
    again = (row for row in _sent_by_turns(lane, sent) if found[row] == Brings.NEW)
    return found | dict.fromkeys(again, Brings.BY_TURNS)


def _unless_of_few_values(found: dict[int, Brings], lane: OperationLane) -> dict[int, Brings]:
    """Return the same; a few bytes that are the same each time may be so by chance."""
    small = {
        row: int(lane.content[row])
        for row, brings in found.items()
        if brings in (Brings.RETURNED, Brings.SENT_BACK) and lane.bytes[row] <= LOOKED_AT
    }
    if len(set(small.values())) >= _FEWEST:
        return found
    return found | dict.fromkeys(small, Brings.NEW)


def _share(brings: Counter[Brings], which: Sequence[Brings]) -> float:
    """Return the share of copies that bring one of these; the first of them has to be new."""
    total = brings.total()
    if total < _FEWEST:
        return 0.0
    return min(sum(brings[one] for one in which) / (total - 1), 1.0)


def _placed(tasks: Sequence[ScheduledTask]) -> list[tuple[ScheduledTask, _Place]]:
    """Return each task with its place in its round."""
    before: Counter[tuple[int, int, int]] = Counter()
    found = []
    for task in tasks:
        key = task.round, task.kind, task.bytes
        found.append((task, (task.kind, task.bytes, before[key])))
        before[key] += 1
    return found


def _marked(
    task: ScheduledTask, brings: Counter[Brings] | None, allowed: Sequence[Brings]
) -> ScheduledTask:
    if task.kind > OUT or brings is None:
        return task
    wanted = allowed if task.kind == IN else (Brings.SENT_BACK,)
    share = _share(brings, wanted)
    if share < _LEAST:
        return task
    # as many rounds as the share says
    if share < _MOST and int((task.round + 1) * share) == int(task.round * share):
        return task
    return replace(task, brings=max(wanted, key=lambda one: brings[one]))


def _passed_on(tasks: Sequence[ScheduledTask]) -> list[ScheduledTask]:
    """Return tasks that come back to be sent again only where the host has no time to look at them.

    A few bytes may be looked at in any time.
    """
    looked_at = {
        task.bytes
        for task in tasks
        if task.brings is Brings.RETURNED
        and task.gap > task.bytes / _PASSED_ON_RATE + _PASSED_ON_NS
    }
    return [
        replace(task, brings=Brings.NEW)
        if task.brings is Brings.SENT_BACK and (task.bytes in looked_at or task.bytes <= LOOKED_AT)
        else task
        for task in tasks
    ]


def _sent_by_turns(lane: OperationLane, rows: Iterable[int]) -> frozenset[int]:
    """Return the rows that send again what is remembered of their size, see `remembered`.

    Where all that a program sends comes again it looks like a test with a few sets of data. So what
    comes again counts only if it does so more often than other data changes.

    Parameters
    ----------
    rows
        Copies to the GPU that were read, and do not send what came from it.
    """
    place = np.cumsum(lane.kind == IN)
    sizes: dict[int, _Sent] = {}
    for row in rows:
        size = int(lane.bytes[row])
        sent = sizes.setdefault(size, _Sent(remembered(size)))
        sent.add(row, int(lane.content[row]), int(place[row]))
    changes = _changes_after(lane, sizes)
    return frozenset(
        row
        for sent in sizes.values()
        if sent.period < inf and sent.period <= _SHORTER * changes
        for row in sent.again
    )


def _changes_after(lane: OperationLane, sizes: dict[int, _Sent]) -> float:
    """Return after how many copies to the GPU that data changes which does so least often.

    `inf` where new data comes, be it little: a test repeats that, too. 0 where nothing is known.
    """
    sent = np.where(lane.kind == IN, lane.bytes, 0)
    least = _LEAST_SHARE * float(sent.sum())
    return max(
        (
            inf if one.renews else one.period
            for size, one in sizes.items()
            if len(one.contents) >= _FEWEST
            and (one.renews or float(sent[sent == size].sum()) >= least)
        ),
        default=0.0,
    )


def most_at_once(spans: Iterable[tuple[int, int]]) -> int:
    """Return how many of these spans, from a row to one behind it, lie at most over one another.

    >>> most_at_once([(0, 4), (4, 8), (1, 5)])
    2
    """
    begin, end = (np.sort(np.array(rows)) for rows in zip(*spans, strict=True))
    open_ = np.arange(1, begin.size + 1) - np.searchsorted(end, begin, "right")
    return int(open_.max())
