"""What boosted processes have counted, and what that comes to in words and for programs.

A process counts in a file of its own, which outlives it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanescope.machine.pcie import TRANSFER_RATE_GTS, line_rate_gbs
from lanescope.units.sizes import bandwidth_gbs, size_text, transfer_seconds

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
#: What is assumed, and not measured, where a dry run predicts: of a link's line rate what copies
#: in pieces reach, what a thread copies, and what each copy takes besides.
LINK_SHARE, THREAD_GBS, COPY_SECONDS = 0.65, 6.0, 50e-6


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
class ComparedCopies:
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

    def __add__(self, other: ComparedCopies) -> ComparedCopies:
        return ComparedCopies(
            self.carried + other.carried, self.driver_seconds + other.driver_seconds
        )


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
    compared: dict[str, ComparedCopies]
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

    def all_compared(self) -> ComparedCopies:
        """Return what is known of the driver's time for these."""
        return sum(self.compared.values(), ComparedCopies())

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
        {name: ComparedCopies(compared[name], driver_seconds[name]) for name in DIRECTIONS},
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
        {
            name: sum((one.compared[name] for one in all_of_them), ComparedCopies())
            for name in DIRECTIONS
        },
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


def lines_of(tally: Tally, *, from_bytes: int, dry_run: bool, batch: bool = False) -> list[str]:
    """Return what is to be said of a program that has ended.

    Parameters
    ----------
    from_bytes
        Copies were to be carried from so many bytes on.
    dry_run
        Whether nothing was to be carried.
    batch
        Whether small copies were to be gathered.
    """
    if not tally.processes:
        return [
            "No process of the program was reached that uses CUDA: none does, its environment did "
            "not reach the one that does (sudo, env -i and containers take LD_PRELOAD away), or "
            "that one is linked without a dynamic loader."
        ]
    lines = _dry(tally, from_bytes) if dry_run else _carried(tally)
    if batch:
        lines.append(_gathered(tally, dry_run))
    if others := _by_driver(tally, from_bytes, dry_run):
        lines.append(f"By the driver: {others}.")
    if why := _why_none(tally, dry_run):
        lines.append(why)
    return lines


def as_dict(tally: Tally, *, from_bytes: int, dry_run: bool) -> dict[str, Any]:
    """Return the same for programs; times are seconds."""
    qualified = _qualified(tally)
    return {
        "processes": tally.processes,
        "from_bytes": from_bytes,
        "dry_run": dry_run,
        "carried": {name: _count_dict(count) for name, count in tally.carried.items()},
        "compared": {
            name: {**_count_dict(one.carried), "driver_seconds": one.driver_seconds}
            for name, one in tally.compared.items()
        },
        "by_driver": [
            {"reason": reason, "direction": direction, **_count_dict(count)}
            for (reason, direction), count in tally.by_driver.items()
        ],
        "gathered": {
            "copies": tally.gathered.copies,
            "bytes": tally.gathered.total_bytes,
            "batches": tally.batches,
        },
        "predicted_seconds": predicted_seconds(tally, qualified) if dry_run else None,
        "setup_seconds": tally.setup_seconds,
        "ring_bytes": tally.ring_bytes,
        "threads": tally.threads,
    }


def predicted_seconds(tally: Tally, count: Count) -> float | None:
    """Return what copies would take if they were carried; None where the link is not known."""
    if tally.link is None or not tally.usable_threads:
        return None
    rate, lanes = tally.link
    generation = max((g for g, gts in TRANSFER_RATE_GTS.items() if gts <= rate), default=1)
    gbs = min(LINK_SHARE * line_rate_gbs(generation, lanes), THREAD_GBS * tally.usable_threads)
    return count.copies * COPY_SECONDS + transfer_seconds(count.total_bytes, gbs)


def _qualified(tally: Tally) -> Count:
    return tally.by_reason().get("dry", Count())


def _dry(tally: Tally, from_bytes: int) -> list[str]:
    found = _qualified(tally)
    if not found.copies:
        return [f"Dry run: no copy of {size_text(from_bytes)} or more would be carried."]
    lines = [f"Dry run, nothing was carried. What would be, by the driver: {_text(found)}."]
    predicted = predicted_seconds(tally, found)
    if predicted is None:
        return [*lines, "What they would take cannot be predicted: the GPU's link is not known."]
    share = f"{LINK_SHARE:.0%} of the link's line rate"
    return [
        *lines,
        f"Predicted, not measured: {_seconds(predicted)}, if pieces reach {share} and each of "
        f"{tally.usable_threads} threads copies {THREAD_GBS:g} GB/s.",
    ]


def _carried(tally: Tally) -> list[str]:
    found = tally.all_carried()
    if not found.copies:
        return ["Nothing was carried."]
    ways = ", ".join(
        f"{count.copies} {words}"
        for name, words in (("h2d", "to GPUs"), ("d2h", "from them"))
        if (count := tally.carried[name]).copies
    )
    return [f"Carried {_text(found)}: {ways}.{_gain(tally.all_compared(), found)}"]


def _gain(compared: ComparedCopies, found: Count) -> str:
    if not compared.carried.copies:
        return (
            " What the driver takes for such copies is not known: there were too few, or they "
            "waited for their streams."
        )
    part = compared.carried.total_bytes / max(found.total_bytes, 1)
    of = "it" if part > 0.995 else f"{part:.0%} of the bytes"
    return (
        f" Of {of} the driver's time is known by like copies of this run: "
        f"{_seconds(compared.carried.seconds)} in place of {_seconds(compared.driver_seconds)}."
    )


def _gathered(tally: Tally, dry_run: bool) -> str:
    if tally.gathered.copies:
        batches = "1 batch" if tally.batches == 1 else f"{tally.batches:,} batches"
        count = _text(tally.gathered)
        if dry_run:
            return f"{count} would be gathered into {batches}."
        after = " Some failed, and no more were tried." if "failed" in tally.batching else ""
        return f"Gathered {count} into {batches}.{after}"
    if "old_driver" in tally.batching:
        return "Nothing was gathered: the driver makes no batches; those of CUDA 12.8 and newer do."
    if "failed" in tally.batching:
        return (
            "Nothing was gathered: no memory could be pinned for it, or not all calls of the "
            "program can be noticed."
        )
    return (
        "Nothing was gathered: no asynchronous copies of pageable memory, of 64 KiB at most, "
        "followed each other in one stream."
    )


def _by_driver(tally: Tally, from_bytes: int, dry_run: bool) -> str:
    texts = dict(REASONS, small=f"smaller than {size_text(from_bytes)}")
    return "; ".join(
        f"{_text(count, timed=reason != 'not_pageable')} {texts[reason]}"
        for reason, count in tally.by_reason().items()
        if not (dry_run and reason == "dry")
    )


def _why_none(tally: Tally, dry_run: bool) -> str | None:
    """Return what could be done where a cause keeps all copies from being carried."""
    reasons = tally.by_reason()
    if tally.all_carried().copies or (dry_run and "dry" in reasons):
        return None
    if "cores" in reasons:
        return "--threads N takes as many threads as you say, however few cores there are."
    if "room" in reasons:
        return "--ring SIZE takes less memory; a cgroup's limit on memory may have to be higher."
    return None


def _count_dict(count: Count) -> dict[str, Any]:
    return {"copies": count.copies, "bytes": count.total_bytes, "seconds": count.seconds}


def _text(count: Count, *, timed: bool = True) -> str:
    """Say how many, how much and how fast; calls for copies of pinned memory return before."""
    copies = "1 copy" if count.copies == 1 else f"{count.copies:,} copies"
    if not count.seconds or not timed:
        return f"{copies} of {size_text(count.total_bytes)}"
    gbs = bandwidth_gbs(count.total_bytes, count.seconds)
    return (
        f"{copies} of {size_text(count.total_bytes)} in {_seconds(count.seconds)} ({gbs:.3g} GB/s)"
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
