"""What crossed the NVLinks of GPUs, counted and traced."""

from __future__ import annotations

import numpy as np

from lanescope.machine import Machine
from lanescope.trace import uncounted
from lanescope.trace.codes import BoolArray, Direction
from lanescope.trace.limits import NVLINK_DIRECTIONS, Ceilings, joined, nvlink_limits
from lanescope.trace.operations import Operations
from lanescope.trace.rates import RateMeter, Rates
from lanescope.trace.rectangles import bytes_in_known, rectangle_pieces
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
    return uncounted.without_links([direction for two in found for direction in two], machine)


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
    wrong = uncounted.nvlink_notes(directions, machine)
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
        found &= o.direction == Direction.P2P
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
    basis = "counters" if counted else "trace" if traced else None
    both = [None if meter is None else meter.rates() for meter in (counted, traced)]
    directions = []
    for i, direction in enumerate(NVLINK_DIRECTIONS):
        rates = [None if pair is None else pair[i] for pair in both]
        count, trace = (None if r is None else r.payload_bytes for r in rates)
        rest = _unattributed(count, own[i], counters) if traced else None
        crossed = None
        if counted and traced and counters is not None:
            crossed = uncounted.crossed_nvlink(own[i], counters, timeline)
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


def _unattributed(
    counted: float | None, own: Operations, counters: Counters | None
) -> float | None:
    if counted is None or counters is None:
        return None
    rest = counted - bytes_in_known(own, counters)
    return rest if rest > max(RESOLUTION * counted, _LEAST_UNATTRIBUTED) else 0.0
