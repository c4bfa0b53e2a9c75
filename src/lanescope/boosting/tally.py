"""What boosted processes have counted: a file for each, which outlives it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: "LSBOOST1" as a number; it comes last of what makes a file whole.
_MAGIC = 0x31_54_53_4F_4F_42_53_4C
#: To GPUs, from them, and where that is not known.
DIRECTIONS = ("h2d", "d2h", "either")
#: Why the driver carried a copy, in the order of native/src/boost/tally.hpp, and in words.
REASONS = {
    "small": "smaller than what is carried",
    "not_pageable": "of pinned, mapped or managed memory",
    "not_to_a_gpu": "not between host and GPU",
    "excluded": "excluded by --only",
    "captured": "while a CUDA graph was captured",
    "context": "of another context, or not understood",
    "old_driver": "by a driver older than CUDA 12",
    "cores": "for want of CPU cores",
    "room": "for want of memory that can be pinned",
    "busy": "while others were under way",
    "memory": "of memory that cannot be read or written",
    "failed": "after a call of the driver's had failed",
    "forked": "in a child by fork",
    "dry": "in a dry run",
    "slower": "faster by the driver",
    "compared": "to know what the driver takes",
}
#: What is to be said of batches, in the order of native/src/boost/batch.hpp.
BATCHING = ("unused", "used", "old_driver", "failed")


@dataclass(frozen=True, slots=True)
class Count:
    """Some copies.

    Attributes
    ----------
    copies, total_bytes
        How many, and of how many bytes together.
    seconds
        What they took together; 0 for those that are too small to be timed.
    """

    copies: int = 0
    total_bytes: int = 0
    seconds: float = 0.0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.copies + other.copies,
            self.total_bytes + other.total_bytes,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True)
class Compared:
    """Carried copies of which is known, by like copies of the run, what the driver takes.

    Attributes
    ----------
    carried
        These copies.
    driver_seconds
        What the driver would have taken for them.
    """

    carried: Count = Count()
    driver_seconds: float = 0.0

    def __add__(self, other: Compared) -> Compared:
        return Compared(self.carried + other.carried, self.driver_seconds + other.driver_seconds)


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the copies of one process, or of several.

    Attributes
    ----------
    processes
        How many used CUDA.
    carried, compared
        By direction, a word of `DIRECTIONS`.
    by_driver
        By reason, a word of `REASONS`, and direction.
    setup_seconds
        Spent on pinning memory.
    ring_bytes
        Pinned, together.
    threads
        That copied, together.
    usable_threads
        That would copy in one process.
    link
        Giga-transfers a second and lanes of the slowest GPU's link at best; None: not known.
    gathered, batches
        Small copies, and the batches that they were gathered into.
    batching
        Words of `BATCHING` that are true of some process.
    """

    processes: int
    carried: dict[str, Count]
    compared: dict[str, Compared]
    by_driver: dict[tuple[str, str], Count]
    setup_seconds: float = 0.0
    ring_bytes: int = 0
    threads: int = 0
    usable_threads: int = 0
    link: tuple[float, int] | None = None
    gathered: Count = Count()
    batches: int = 0
    batching: frozenset[str] = frozenset()

    def all_carried(self) -> Count:
        """Return what was carried, both ways."""
        return sum(self.carried.values(), Count())

    def all_compared(self) -> Compared:
        """Return what is known of the driver's time for these."""
        return sum(self.compared.values(), Compared())

    def by_reason(self) -> dict[str, Count]:
        """Return what the driver carried, by reason, those of the most bytes first."""
        found: dict[str, Count] = {}
        for (reason, _), count in self.by_driver.items():
            found[reason] = found.get(reason, Count()) + count
        return dict(sorted(found.items(), key=lambda item: -item[1].total_bytes))


_PER_COUNT = 3
_FIELDS = (
    2
    + _PER_COUNT * len(DIRECTIONS) * 2
    + len(DIRECTIONS)
    + _PER_COUNT * len(DIRECTIONS) * len(REASONS)
    + 6
    + _PER_COUNT
    + 2
)


def read_tally(path: Path) -> Tally | None:
    """Return what one process has counted; None where its file is not whole, or another's."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if len(content) != _FIELDS * 8:
        return None
    numbers = iter(struct.unpack(f"<{_FIELDS}Q", content))
    if next(numbers) != _MAGIC:
        return None
    next(numbers)  # the process
    carried = {name: _count(numbers) for name in DIRECTIONS}
    compared = {name: _count(numbers) for name in DIRECTIONS}
    driver_seconds = {name: next(numbers) * 1e-9 for name in DIRECTIONS}
    by_driver = {(reason, name): _count(numbers) for reason in REASONS for name in DIRECTIONS}
    setup_ns, ring_bytes, threads, rate, lanes, usable = (next(numbers) for _ in range(6))
    gathered = _count(numbers)
    batches, batching = numbers
    return Tally(
        1,
        carried,
        {name: Compared(compared[name], driver_seconds[name]) for name in DIRECTIONS},
        {key: count for key, count in by_driver.items() if count.copies},
        setup_ns * 1e-9,
        ring_bytes,
        threads,
        usable,
        (rate / 10, lanes) if rate and lanes else None,
        gathered,
        batches,
        frozenset(BATCHING[batching : batching + 1]),
    )


def _count(numbers: Iterator[int]) -> Count:
    copies, total, ns = (next(numbers) for _ in range(_PER_COUNT))
    return Count(copies, total, ns * 1e-9)


def sum_of(tallies: Iterable[Tally]) -> Tally:
    """Return what processes have counted together."""
    all_of_them = tuple(tallies)
    by_driver: dict[tuple[str, str], Count] = {}
    for one in all_of_them:
        for key, count in one.by_driver.items():
            by_driver[key] = by_driver.get(key, Count()) + count
    return Tally(
        sum(one.processes for one in all_of_them),
        {name: sum((one.carried[name] for one in all_of_them), Count()) for name in DIRECTIONS},
        {name: sum((one.compared[name] for one in all_of_them), Compared()) for name in DIRECTIONS},
        by_driver,
        sum(one.setup_seconds for one in all_of_them),
        sum(one.ring_bytes for one in all_of_them),
        sum(one.threads for one in all_of_them),
        max((one.usable_threads for one in all_of_them), default=0),
        min((one.link for one in all_of_them if one.link is not None), default=None),
        sum((one.gathered for one in all_of_them), Count()),
        sum(one.batches for one in all_of_them),
        frozenset().union(*(one.batching for one in all_of_them)),
    )
