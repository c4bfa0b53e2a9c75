"""What crossed the NVLinks of GPUs, counted and traced, and what counters lack that copies moved.

What lacks is no loss that a source knows of. On two H100s all samples of a session came, and one of
a GPU's 18 NVLinks was in none of them; of the sessions before and after it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

import numpy as np

from lanescope.machine import Machine
from lanescope.trace.codes import BoolArray, DirectionCode, MemoryKind, among
from lanescope.trace.limits import (
    NVLINK_DIRECTIONS,
    Ceilings,
    fills_all,
    joined,
    nvlink_limits,
    nvlinks_of,
)
from lanescope.trace.operations import Operations
from lanescope.trace.rates import RateMeter, Rates
from lanescope.trace.rectangles import KnownMeter, KnownTime, bytes_in_known, rectangle_pieces
from lanescope.trace.summary import DirectionSummary
from lanescope.trace.timeline import NVLINK, Counters, Timeline, best_counters
from lanescope.trace.windows import NVLINK_WINDOWS_NS, window_text
from lanescope.trace.wire import RESOLUTION, WireModel
from lanescope.units.sizes import binary_text

#: Counters of NVLink count payload alone, each way for itself: nothing has to be taken off.
PAYLOAD = WireModel(((1.0, 0.0), (0.0, 1.0)), source="payload alone, over all NVLinks together")
#: Less than this, or than 0.5 % of what was counted, is not told from nothing.
_LEAST_UNATTRIBUTED = 1 << 20
#: What tells copies of memory of GPUs from others.
KINDS = ("what", "source_kind", "destination_kind")
#: With less of the traced copies counted, they went another way.
_LEAST_CROSSED = 0.9
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


def nvlink_directions(
    timeline: Timeline, machine: Machine | None = None, ceilings: Ceilings | None = None
) -> tuple[DirectionSummary, ...]:
    """Return what each GPU received and sent over NVLink, where counters or copies tell of any.

    A traced copy between GPUs that NVLinks join is sent by one and received by the other.
    Where the machine tells nothing of NVLinks, those with counters of NVLink are joined.
    """
    counted = {c.gpu for c in timeline.over(NVLINK)}
    operations = _crossing(timeline.operations, machine, counted)
    gpus = counted | operations.values("source_device") | operations.values("destination_device")
    found = (_directions(timeline, operations, gpu, machine, ceilings) for gpu in sorted(gpus))
    return without_links([direction for two in found for direction in two], machine)


def nvlink_notes(
    directions: tuple[DirectionSummary, ...], machine: Machine | None = None
) -> tuple[str, ...]:
    """Return what the numbers of NVLink do not say, as sentences."""
    notes = []
    # what one GPU sends another receives: both are the same bytes
    rest = max(
        (_sum(directions, name, "unattributed_bytes") for name in NVLINK_DIRECTIONS), default=0.0
    )
    if rest:
        notes.append(
            f"{binary_text(rest)} crossed NVLink that no traced copy between GPUs explains: "
            "kernels that read or write another GPU's memory, as those of NCCL do, and processes "
            "that were not traced."
        )
    both = tuple(
        w for w in directions if w.counter_bytes is not None and w.traced_bytes is not None
    )
    counted, traced = (
        _sum(both, NVLINK_DIRECTIONS[1], key) for key in ("counter_bytes", "traced_bytes")
    )
    wrong = missed_notes(directions, machine)
    notes += wrong
    if traced > _LEAST_UNATTRIBUTED and counted < _LEAST_CROSSED * traced and not wrong:
        notes.append(
            f"Of {binary_text(traced)} of traced copies between GPUs NVLink carried "
            f"{binary_text(counted)}: the others went through the host, as they do where peer "
            "access is not enabled, or in time that the counters do not know."
        )
    return tuple(notes)


def _sum(directions: tuple[DirectionSummary, ...], direction: str, key: str) -> float:
    return sum(getattr(one, key) or 0.0 for one in directions if one.direction == direction)


def _crossing(operations: Operations, machine: Machine | None, counted: set[int]) -> Operations:
    """Return the copies between GPUs that go over NVLink."""
    pairs = frozenset() if machine is None else joined(machine)
    if not pairs:
        pairs = frozenset((a, b) for a in counted for b in counted if a != b)

    def chosen(o: Operations) -> BoolArray:
        found: BoolArray = np.zeros(len(o), np.bool_)
        for source, destination in pairs:
            found |= (o.source_device == source) & (o.destination_device == destination)
        found &= o.direction == DirectionCode.P2P
        return found

    return operations.where(chosen, "bytes", "source_device", "destination_device", *KINDS)


def _directions(
    timeline: Timeline,
    crossing: Operations,
    gpu: int,
    machine: Machine | None,
    ceilings: Ceilings | None,
) -> list[DirectionSummary]:
    limits = nvlink_limits(machine, gpu, ceilings)
    counters = best_counters(timeline, gpu, NVLINK)
    own = (
        crossing.where(lambda o: o.destination_device == gpu, "bytes", *KINDS),
        crossing.where(lambda o: o.source_device == gpu, "bytes", *KINDS),
    )
    counted = traced = None
    source = "neither counted nor traced"
    if timeline.processes or len(timeline.operations):
        traced = _meter(timeline, 0, (limits[0].gbs, limits[1].gbs))
        for piece in rectangle_pieces(own, (timeline.start_ns, timeline.end_ns)):
            traced.add(*piece)
        source = "traced copies between GPUs, each with an even rate"
    if counters is not None and counters.known.any():
        counted = _meter(timeline, counters.interval_ns, (limits[0].gbs, limits[1].gbs))
        counted.add_counters(counters, PAYLOAD)
        source = (
            f"{counters.source} of NVLink, {window_text(counters.interval_ns)}; {PAYLOAD.source}"
        )
    known = None
    if counted and traced and counters is not None:
        known = KnownMeter(counters).found()
    basis = "counters" if counted else "trace" if traced else None
    both = [None if meter is None else meter.rates() for meter in (counted, traced)]
    directions = []
    for i, direction in enumerate(NVLINK_DIRECTIONS):
        rates = [None if pair is None else pair[i] for pair in both]
        count, trace = (None if r is None else r.payload_bytes for r in rates)
        rest = crossed = None
        if known is not None and count is not None and counters is not None:
            rest = _unattributed(count, own[i], known)
            crossed = crossed_nvlink(own[i], counters, timeline, known)
        shown: Rates | None = rates[0] or rates[1]
        directions.append(
            DirectionSummary(
                gpu,
                direction,
                basis,
                source,
                shown,
                count,
                trace,
                rest,
                limits[i],
                crossed_bytes=crossed,
            )
        )
    return directions


def _meter(
    timeline: Timeline, interval_ns: int, limits_gbs: tuple[float | None, float | None]
) -> RateMeter:
    span = (timeline.start_ns, timeline.end_ns)
    return RateMeter(span, interval_ns, limits_gbs, resolution=0.0, windows_ns=NVLINK_WINDOWS_NS)


def _unattributed(counted: float, own: Operations, known: KnownTime) -> float:
    rest = counted - bytes_in_known(own, known)
    return rest if rest > max(RESOLUTION * counted, _LEAST_UNATTRIBUTED) else 0.0


def crossed_nvlink(
    operations: Operations, counters: Counters, timeline: Timeline, known: KnownTime
) -> float:
    """Return the bytes of copies among some operations, between memory of GPUs, that crossed.

    Parameters
    ----------
    operations
        One direction of a GPU's; managed memory may not have moved.
    """
    return _crossed(operations, counters, timeline, known, _DEVICE, _DEVICE)


def crossed_pcie(counters: Counters, timeline: Timeline, known: KnownTime) -> tuple[float, float]:
    """Return what copies between the host's memory and a GPU's own brought it, and took from it."""
    columns = ("bytes", "what", "source_kind", "destination_kind")
    gpu = counters.gpu
    down, up = (
        timeline.operations.where(partial(_goes, direction), *columns, device=gpu)
        for direction in (DirectionCode.H2D, DirectionCode.D2H)
    )
    return (
        _crossed(down, counters, timeline, known, _HOST, _DEVICE),
        _crossed(up, counters, timeline, known, _DEVICE, _HOST),
    )


def _goes(direction: DirectionCode, operations: Operations) -> BoolArray:
    found: BoolArray = np.equal(operations.direction, direction)
    return found


def _crossed(
    operations: Operations,
    counters: Counters,
    timeline: Timeline,
    known: KnownTime,
    source: tuple[MemoryKind, ...],
    destination: tuple[MemoryKind, ...],
) -> float:
    """Return the bytes of copies that crossed while counters counted, with certainty.

    Near to time of which counters know nothing none does, nor shortly before it where a copy may
    have been made a while after its call.
    """
    never = np.iinfo(np.int64).max
    begins = np.concatenate(([0], known.edges_ns[1::2]))  # of what is not known
    ends = np.concatenate((known.edges_ns[::2], [never]))
    if _outlasts(counters, timeline):
        begins[-1] = never
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


def missed_notes(directions: Sequence[DirectionSummary], machine: Machine | None) -> list[str]:
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
