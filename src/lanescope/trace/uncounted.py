"""Counters that hold less than what recorded copies moved while they counted.

That is no loss that a source knows of. On two H100s all samples of a session came, and one of a
GPU's 18 NVLinks was in none of them; of the sessions before and after it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

import numpy as np

from lanescope.machine import Machine
from lanescope.trace.codes import BoolArray, Direction, IntArray, MemoryKind, among
from lanescope.trace.limits import fills_all, nvlinks_of
from lanescope.trace.operations import Operations
from lanescope.trace.summary import DirectionSummary
from lanescope.trace.timeline import Counters, Timeline
from lanescope.units.sizes import binary_text

#: With less, single copies and the edges of what is known would count.
LEAST_BYTES = 256 << 20
#: Counters of NVLink count payload, to the byte where all went well.
MOST_MISSING_NVLINK = 0.02
#: Packets of PCIe that are half or twice as large as expected make so much of a difference.
MOST_MISSING_PCIE = 0.05
#: As near as this to a share of links it is taken for one.
SAME_SHARE = 0.001
#: What is less than this share of the other direction may have been taken for its protocol.
_LEAST_OF_OTHER = 0.02
#: By so much times of copies and of samples may differ, and a copy may be later than its call.
_EDGE_NS = 1_000_000
_CALLED_NS = 1_000_000_000
#: Sources of PCIe that count; others look now and then.
_COUNTING = ("pm", "counters")
_HOST = (MemoryKind.PAGEABLE, MemoryKind.PINNED)
_DEVICE = (MemoryKind.DEVICE, MemoryKind.ARRAY, MemoryKind.DEVICE_STATIC)


def crossed_nvlink(operations: Operations, counters: Counters, timeline: Timeline) -> float:
    """Return the bytes of copies among some operations, between memory of GPUs, that crossed.

    Parameters
    ----------
    operations
        One direction of a GPU's; managed memory may not have moved.
    """
    return _crossed(operations, counters, timeline, _DEVICE, _DEVICE)


def crossed_pcie(counters: Counters, timeline: Timeline) -> tuple[float, float]:
    """Return what copies between the host's memory and a GPU's own brought it, and took from it."""
    columns = ("bytes", "what", "source_kind", "destination_kind")
    gpu = counters.gpu
    down, up = (
        timeline.operations.where(partial(_goes, direction), *columns, device=gpu)
        for direction in (Direction.H2D, Direction.D2H)
    )
    return (
        _crossed(down, counters, timeline, _HOST, _DEVICE),
        _crossed(up, counters, timeline, _DEVICE, _HOST),
    )


def _goes(direction: Direction, operations: Operations) -> BoolArray:
    found: BoolArray = np.equal(operations.direction, direction)
    return found


def _crossed(
    operations: Operations,
    counters: Counters,
    timeline: Timeline,
    source: tuple[MemoryKind, ...],
    destination: tuple[MemoryKind, ...],
) -> float:
    """Return the bytes of copies that crossed while counters counted, with certainty.

    Near to time of which counters know nothing none does, nor shortly before it where a copy may
    have been made a while after its call.
    """
    begins, ends = _unknown(counters)
    if _outlasts(counters, timeline):
        begins[-1] = ends[-1]
    edge = max(_EDGE_NS, 2 * counters.interval_ns)
    late = _CALLED_NS if timeline.has_call_times else 0
    total = 0.0
    for piece in operations.pieces():
        following = np.searchsorted(ends, piece.start_ns - edge, "right")
        sure = begins[following] >= piece.end_ns + edge + late
        sure &= piece.is_copy & among(piece.source_kind, source)
        sure &= among(piece.destination_kind, destination)
        total += float(piece.bytes[sure].sum())
    return total


def _outlasts(counters: Counters, timeline: Timeline) -> bool:
    """Whether all processes ended in order before the counters did, and so all that they copied."""
    last_ns = int(counters.end_ns[-1])
    return all(
        process.complete and process.end_ns is not None and process.end_ns <= last_ns
        for process in timeline.processes
    )


def _unknown(counters: Counters) -> tuple[IntArray, IntArray]:
    """Return when nothing is known: begins and ends, ascending; the last has no end."""
    begins, ends = [np.array([0])], [counters.end_ns[:1]]
    for part, starts in counters.pieces():
        unknown = ~counters.known[part]
        begins.append(starts[unknown])
        ends.append(counters.end_ns[part][unknown])
    begins.append(counters.end_ns[-1:])
    ends.append(np.array([np.iinfo(np.int64).max]))
    return np.concatenate(begins), np.concatenate(ends)


def missing_share(one: DirectionSummary, most: float) -> float | None:
    """Return which share of copies is not counted; None where that is not more than `most`."""
    if one.crossed_bytes is None or one.counter_bytes is None or one.crossed_bytes < LEAST_BYTES:
        return None
    share = 1 - one.counter_bytes / one.crossed_bytes
    return share if share > most else None


def missing_links(share: float, links: int) -> int | None:
    """Return how many of a GPU's links would make such a share; None where none would."""
    missing = round(share * links)
    return missing if 0 < missing < links and abs(share - missing / links) <= SAME_SHARE else None


def without_links(
    directions: Sequence[DirectionSummary], machine: Machine | None
) -> tuple[DirectionSummary, ...]:
    """Return directions of NVLink whose source says over how many links it counted."""
    found = []
    for one in directions:
        links = _links(machine, one.gpu)
        if (missing := _missing(one, links)) is not None:
            over = f"over {links - missing} of {links} NVLinks, as it looks"
            source = one.source.replace("over all NVLinks together", over)
            one = dataclasses.replace(one, source=source)
        found.append(one)
    return tuple(found)


def _links(machine: Machine | None, gpu: int) -> int:
    """Return how many links share each copy of a GPU; 0 where that is not known."""
    if machine is None or not fills_all(machine, gpu):
        return 0
    bundles = (link.nvlink for link in nvlinks_of(machine, gpu))
    return sum(bundle.count for bundle in bundles if bundle is not None)


def _missing(one: DirectionSummary, links: int) -> int | None:
    share = missing_share(one, MOST_MISSING_NVLINK)
    return None if share is None else missing_links(share, links)


def nvlink_notes(directions: Sequence[DirectionSummary], machine: Machine | None) -> list[str]:
    """Return for each GPU whose counters of NVLink hold too little what is known of that.

    Copies may have gone another way: it is said where the counters of all other GPUs agree with
    the copies, or where links are missing by their share.
    """
    short: dict[int, list[DirectionSummary]] = {}
    agree: dict[int, None] = {}
    for one in directions:
        if missing_share(one, MOST_MISSING_NVLINK) is not None:
            short.setdefault(one.gpu, []).append(one)
        elif (one.crossed_bytes or 0) >= LEAST_BYTES and one.unattributed_bytes == 0:
            agree[one.gpu] = None
    others = [gpu for gpu in agree if gpu not in short]
    return [
        _nvlink_note(gpu, found, missing, links, others)
        for gpu, found in short.items()
        for links in [_links(machine, gpu)]
        for missing in [_common(found, links)]
        if missing is not None or (others and len(short) == 1)
    ]


def _common(found: Sequence[DirectionSummary], links: int) -> int | None:
    """Return how many links are missing; None where directions do not agree on that."""
    numbers = {_missing(one, links) for one in found}
    return numbers.pop() if len(numbers) == 1 else None


def _nvlink_note(
    gpu: int,
    found: Sequence[DirectionSummary],
    missing: int | None,
    links: int,
    others: Sequence[int],
) -> str:
    looks = ""
    if missing is not None:
        verb = "was" if missing == 1 else "were"
        looks = f": as if {missing} of {links} NVLinks {verb} not counted"
    agree = ""
    if others:
        agree = f" Those of {_listed([f'g{other}' for other in others])} agree with the copies."
    return (
        f"g{gpu}: counters of {_listed([one.direction for one in found])} hold {_held(found)} of "
        f"recorded copies that crossed meanwhile{looks}.{agree} Rely on the bytes of the copies; "
        f"rates that are counted of g{gpu} over NVLink are as much too low."
    )


def pcie_notes(directions: Sequence[DirectionSummary]) -> list[str]:
    """Return for each GPU whose counters of PCIe hold too little what is known of that.

    What others' counters hold too much may be its copies, whose calls named the other GPU.
    """
    short: dict[int, list[DirectionSummary]] = {}
    for one in directions:
        if not one.source.startswith(_COUNTING) or missing_share(one, MOST_MISSING_PCIE) is None:
            continue
        beside = [w for w in directions if w.direction != one.direction and w.gpu == one.gpu]
        most = max((w.counter_bytes or 0.0 for w in beside), default=0.0)
        crossed, counted = one.crossed_bytes or 0.0, one.counter_bytes or 0.0
        elsewhere = sum(
            w.unattributed_bytes or 0.0
            for w in directions
            if w.direction == one.direction and w.gpu != one.gpu
        )
        if crossed > _LEAST_OF_OTHER * most and 2 * elsewhere < crossed - counted:
            short.setdefault(one.gpu, []).append(one)
    return [
        f"g{gpu}: counters of {_listed([one.direction for one in found])} hold {_held(found)} of "
        "recorded copies that crossed meanwhile: they count too little, or these copies went "
        "another way than PCIe. Rely on the bytes of the copies; rates that are counted of "
        f"g{gpu} over PCIe are as much too low."
        for gpu, found in short.items()
    ]


def _held(found: Sequence[DirectionSummary]) -> str:
    parts = [
        f"{binary_text(counted)} of {binary_text(crossed)} ({counted / crossed:.1%})".replace(
            "%", " %"
        )
        for one in found
        for counted, crossed in [(one.counter_bytes or 0.0, one.crossed_bytes or 0.0)]
    ]
    return _listed(parts)


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
