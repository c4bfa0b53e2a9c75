"""Data that is sent to a GPU by turns, again and again with the same contents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from statistics import median

import numpy as np

from lanescope.findings.advice.lanes import IN, Lane

#: So many contents of a size are remembered, those that were sent last.
MOST_CONTENTS = 64
#: Of fewer copies of a size nothing is said.
_FEWEST = 3
#: Copies of a size are of contents that come again where so large a share of them is.
_LEAST_AGAIN = 0.5
#: They are of new ones, too, where so few of the last third were among the first third.
_MOST_OLD = 0.1
#: Data stays where it comes again in so much less time than that which changes least often.
_SHORTER = 0.5
#: Sizes with less of the bytes do not tell how often a program gets new data.
_LEAST_SHARE = 0.01


@dataclass(slots=True)
class _Sent:
    """What was sent of one size, as far as it was read.

    `again` has the copies to the GPU since the same was sent last, by row; `warming` is how many
    contents came before any came again.
    """

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
        if len(self._recent) > MOST_CONTENTS:
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


def sent_by_turns(lane: Lane, rows: Iterable[int]) -> frozenset[int]:
    """Return the rows that send again what one of the last `MOST_CONTENTS` of their size has sent.

    Where all that a program sends comes again it looks like a test with a few sets of data. So what
    comes again counts only if it does so more often than other data changes.

    Parameters
    ----------
    rows
        Copies to the GPU that were read, and do not send what came from it.
    """
    place = np.cumsum(lane.kind == IN)
    sizes: dict[int, _Sent] = defaultdict(_Sent)
    for row in rows:
        sizes[int(lane.bytes[row])].add(row, int(lane.content[row]), int(place[row]))
    changes = _changes_after(lane, sizes)
    return frozenset(
        row
        for sent in sizes.values()
        if sent.period < inf and sent.period <= _SHORTER * changes
        for row in sent.again
    )


def _changes_after(lane: Lane, sizes: dict[int, _Sent]) -> float:
    """Return after how many copies to the GPU that data changes which does so least often.

    `inf` where new data comes; 0 where nothing is known.
    """
    sent = np.where(lane.kind == IN, lane.bytes, 0)
    least = _LEAST_SHARE * float(sent.sum())
    return max(
        (
            inf if one.renews else one.period
            for size, one in sizes.items()
            if len(one.contents) >= _FEWEST and float(sent[sent == size].sum()) >= least
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
