"""The operations that phases are looked for in: both ends of what each process did on each GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lanescope.watch.codes import BoolArray, Direction, What
from lanescope.watch.operations import Operations

#: Of each process and GPU so many operations are looked at from the first on, and as many
#: before the last: 30 MB of columns. What lies between is only counted, in bytes.
MOST_OPERATIONS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Copies over the link of one GPU, and what it computed, by one process.

    Attributes
    ----------
    parts
        Operations without a hole between them; two parts where the middle is left out.
    bytes_seen, bytes_in_run
        That the copies of the parts moved, and those of the whole watch.
    """

    pid: int
    gpu: int
    parts: tuple[Operations, ...]
    bytes_seen: int
    bytes_in_run: int


@dataclass(slots=True)
class _Ends:
    """The first and the last rows of what is added."""

    most: int
    head: list[Operations] = field(default_factory=list)
    tail: list[Operations] = field(default_factory=list)
    moved: int = 0
    cut: bool = False

    def add(self, rows: Operations) -> None:
        self.moved += int(rows.bytes[is_over_link(rows)].sum())
        room = self.most - sum(map(len, self.head))
        if room > 0:
            self.head.append(rows.rows(slice(0, room)))
        if len(rows) > room:
            self.tail.append(rows.rows(slice(max(room, 0), len(rows))))
            self._trim()

    def _trim(self) -> None:
        over = sum(map(len, self.tail)) - self.most
        while over > 0:
            first = self.tail.pop(0)
            if len(first) > over:
                self.tail.insert(0, first.rows(slice(over, len(first))))
            over -= len(first)
            self.cut = True

    def parts(self) -> tuple[Operations, ...]:
        if not self.cut:
            return (Operations.concat([*self.head, *self.tail]),)
        return Operations.concat(self.head), Operations.concat(self.tail)


def is_over_link(operations: Operations) -> BoolArray:
    """Return where a copy goes between the host and a GPU."""
    ways = np.isin(operations.direction, (Direction.H2D, Direction.D2H))
    over: BoolArray = ways & operations.is_copy & (operations.bytes > 0)
    return over


def is_work(operations: Operations) -> BoolArray:
    """Return where a GPU worked without its link: kernels, memsets, copies within it."""
    inside = operations.is_copy & (operations.direction == Direction.D2D)
    work: BoolArray = np.isin(operations.what, (What.KERNEL, What.MEMSET)) | inside
    return work


def samples(operations: Operations, most: int = MOST_OPERATIONS) -> tuple[Sample, ...]:
    """Return what each process had each GPU do, piece by piece of operations of any length."""
    kept: dict[tuple[int, int], _Ends] = {}
    for piece in operations.pieces():
        timed = piece.end_ns >= piece.start_ns
        chosen = (is_over_link(piece) | is_work(piece)) & timed & (piece.start_ns > 0)
        pairs = np.unique(np.stack((piece.pid[chosen], piece.device[chosen])), axis=1)
        for pid, gpu in pairs.T.tolist():
            mine = chosen & (piece.pid == pid) & (piece.device == gpu)
            kept.setdefault((pid, gpu), _Ends(most)).add(piece.rows(mine))
    return tuple(_sample(pid, gpu, ends) for (pid, gpu), ends in sorted(kept.items()))


def _sample(pid: int, gpu: int, ends: _Ends) -> Sample:
    parts = ends.parts()
    seen = sum(int(part.bytes[is_over_link(part)].sum()) for part in parts)
    return Sample(pid, gpu, parts, seen, ends.moved)
