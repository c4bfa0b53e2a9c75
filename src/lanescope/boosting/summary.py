"""What a boosted program's copies came to, in words and for programs."""

from __future__ import annotations

from typing import Any

from lanescope.boosting.tally import REASONS, Compared, Count, Tally
from lanescope.machine.pcie import TRANSFER_RATE_GTS, line_rate_gbs
from lanescope.units.bandwidth import bandwidth_gbs, transfer_seconds
from lanescope.units.sizes import size_text

#: What is assumed, and not measured, where a dry run predicts: of a link's line rate what copies
#: in pieces reach, what a thread copies, and what each copy takes besides.
LINK_SHARE, THREAD_GBS, COPY_SECONDS = 0.65, 6.0, 50e-6


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


def _gain(compared: Compared, found: Count) -> str:
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
