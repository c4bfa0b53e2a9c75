"""From a timeline to its summary."""

from __future__ import annotations

import numpy as np

from lanescope.experiment.sizes import binary_text
from lanescope.machine import Machine
from lanescope.watch.align import align
from lanescope.watch.attribution import attribution, copy_groups
from lanescope.watch.codes import Direction
from lanescope.watch.fit import model_of
from lanescope.watch.limits import WAYS, Ceilings, link_limits, pcie_links
from lanescope.watch.probed_notes import probe_notes
from lanescope.watch.probed_way import probed_ways
from lanescope.watch.rates import Rates, counter_rates, operation_rates
from lanescope.watch.rectangles import bytes_in_known
from lanescope.watch.summary import Cost, Losses, Summary, WaySummary
from lanescope.watch.timeline import Counters, Timeline
from lanescope.watch.windows import window_text
from lanescope.watch.wire import RESOLUTION

#: Of several counters of one GPU the first of these is told: PM sampling has the finest
#: samples, and the driver's throughput is a mean over 20 ms.
PREFERRED = ("pm", "counters", "throughput")
#: Less than this is start-up and what watching causes.
_LEAST_UNATTRIBUTED = 1 << 20

_CANDIDATES = (
    "what CUDA moves when a program starts, processes that were not traced, host memory that "
    "kernels read in place, managed memory, copies between GPUs over PCIe, and network cards or "
    "drives that reach into the GPU"
)


def summarise(
    timeline: Timeline, machine: Machine | None = None, ceilings: Ceilings | None = None
) -> Summary:
    """Return what a watch has seen.

    Parameters
    ----------
    machine
        For the payload limits of links; None when unknown.
    ceilings
        What an earlier run measured; shares are of that where it tells.
    """
    moved = [np.unique(piece.device[piece.moves]) for piece in timeline.operations.pieces()]
    gpus = {c.gpu for c in timeline.counters}.union(*(found.tolist() for found in moved))
    chosen = {gpu: best_counters(timeline, gpu) for gpu in sorted(gpus)}
    ways = tuple(
        way
        for gpu, counters in chosen.items()
        for way in _ways(timeline, gpu, counters, machine, ceilings)
    )
    aligned = tuple(
        (gpu, align(counters, timeline.operations))
        for gpu, counters in chosen.items()
        if counters is not None and _traced(timeline)
    )
    probed = probed_ways(timeline.probes)
    return Summary(
        timeline.seconds,
        ways,
        copy_groups(timeline.operations),
        attribution(timeline.operations, timeline.processes),
        _losses(timeline, ways),
        _costs(timeline),
        aligned,
        _notes(timeline, ways) + probe_notes(probed, counted=bool(timeline.counters)),
        probed,
    )


def _costs(timeline: Timeline) -> tuple[Cost, ...]:
    counters = (Cost(f"{c.source} of g{c.gpu}", c.cpu_seconds) for c in timeline.counters)
    probes = (Cost(f"probe of g{p.gpu}", p.cpu_seconds) for p in timeline.probes)
    return (*counters, *probes)


def best_counters(timeline: Timeline, gpu: int) -> Counters | None:
    """Return the counters of a GPU that are told: the preferred ones that know anything."""
    own = [c for c in timeline.counters if c.gpu == gpu]
    order = {source: i for i, source in enumerate(PREFERRED)}
    own.sort(key=lambda c: (not c.known.any(), order.get(c.source, len(order)), c.interval_ns))
    return own[0] if own else None


def _traced(timeline: Timeline) -> bool:
    return bool(timeline.processes) or len(timeline.operations) > 0


def _ways(
    timeline: Timeline,
    gpu: int,
    counters: Counters | None,
    machine: Machine | None,
    ceilings: Ceilings | None,
) -> list[WaySummary]:
    limits = link_limits(machine, gpu, ceilings)
    gbs = (limits[0].gbs, limits[1].gbs)
    span = (timeline.start_ns, timeline.end_ns)
    counted: tuple[Rates, Rates] | None = None
    traced: tuple[Rates, Rates] | None = None
    source = "neither counted nor traced"
    if _traced(timeline):
        traced = operation_rates(timeline.operations, gpu, span, gbs)
        source = "traced copies, each with an even rate"
    if counters is not None and counters.known.any():
        link = next((ln.pcie for ln in pcie_links(machine, gpu)), None) if machine else None
        model = model_of(timeline, counters, link)
        counted = counter_rates(counters, model, span, gbs, timeline.operations)
        source = f"{counters.source}, {window_text(counters.interval_ns)}; {model.source}"
    told = "counters" if counted else "trace" if traced else None
    ways = []
    for i, direction in enumerate(WAYS):
        known = counted and traced and counters
        count, trace = (r[i].payload_bytes if r else None for r in (counted, traced))
        rest = _unattributed(count, timeline, counters, gpu, i) if known else None
        both = counted or traced
        rates = both[i] if both else None
        ways.append(WaySummary(gpu, direction, told, source, rates, count, trace, rest, limits[i]))
    return ways


def _unattributed(
    counted: float | None, timeline: Timeline, counters: Counters | None, gpu: int, way: int
) -> float | None:
    if counted is None or counters is None:
        return None
    code = (Direction.H2D, Direction.D2H)[way]
    own = timeline.operations.where(lambda o: o.direction == code, "bytes", device=gpu)
    probes = (probe.one_way(way) for probe in timeline.probes if probe.gpu == gpu)
    probed = sum(
        probe.bytes_between(int(counters.end_ns[0]), int(counters.end_ns[-1])) for probe in probes
    )
    rest = counted - bytes_in_known(own, counters) - probed
    return rest if rest > max(RESOLUTION * counted, _LEAST_UNATTRIBUTED) else 0.0


def _losses(timeline: Timeline, ways: tuple[WaySummary, ...]) -> Losses:
    counted = [w.rates.known_seconds for w in ways if w.told == "counters" and w.rates]
    unknown = max(timeline.seconds - min(counted), 0.0) if counted else None
    return Losses(
        sum(c.lost_samples for c in timeline.counters),
        sum(p.lost_records for p in timeline.processes),
        unknown,
        tuple(p.pid for p in timeline.processes if not p.complete),
        sum(p.unfinished for p in timeline.processes),
    )


def _notes(timeline: Timeline, ways: tuple[WaySummary, ...]) -> tuple[str, ...]:
    notes = []
    rest = sum(way.unattributed_bytes or 0.0 for way in ways)
    if rest:
        size = binary_text(rest)
        notes.append(f"{size} were counted that no traced copy explains: {_CANDIDATES}.")
    if any(bool(np.any(p.direction == Direction.P2P)) for p in timeline.operations.pieces()):
        notes.append(
            "Copies between GPUs cross the links above only where no NVLink joins the GPUs."
        )
    if not _traced(timeline) and timeline.counters:
        notes.append("No process was traced, so that nothing tells who moved the bytes.")
    return tuple(notes)
