"""What each source told of one program, over all repetitions, and a probe of its steps.

Of counters that is bytes, highest rates, and how fine they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lanescope.machine import Machine
from lanescope.studies.pcie_thesis.reproduction import ProgramStep, moved, moving
from lanescope.studies.pcie_thesis.results import Pair, Payload, SourceResults, pair_of, quantity
from lanescope.trace.codes import DirectionCode, FloatArray, IntArray
from lanescope.trace.limits import pcie_links
from lanescope.trace.operations import Operations
from lanescope.trace.probe import PROBE_DIRECTIONS, Episode, Probe, Sign, episodes
from lanescope.trace.rectangles import between
from lanescope.trace.run import SourceRecord, WatchRun
from lanescope.trace.timeline import PCIE, Counters, Timeline
from lanescope.trace.wire import RESOLUTION, payload_records, settle
from lanescope.trace.wire_fit import default_of
from lanescope.units.sizes import bandwidths_gbs

#: Steps with fewer bytes do not count as copying: a result of a check, say.
LEAST_BYTES = 1 << 20
#: What watches in a turn with all sources, the finest first.
SOURCES = ("pm", "counters", "throughput", "trace")

_DIRECTIONS = (DirectionCode.H2D, DirectionCode.D2H)
_BYTES = (
    "Payload in the steps that copy and two records around them; packets' overhead and what "
    "watching causes are taken off by the default model, which is not fitted to the trace."
)
_DEVIATION = "Told bytes over the bytes that the program says to have moved, less 1."
_ELSEWHERE = "Payload of the whole watch less that of the steps that copy."
_HIGHEST = "Payload rate of the fastest single record in the steps that copy."
_TRACED = "Sum of the bytes of all traced copies."
_FASTEST_COPY = "Bytes over GPU time of the fastest traced copy of 1 MiB or more."
_INTERVAL = "Median time from record to record."
_CPU = "Processor time of the source's own threads."
#: An episode belongs to a step from so much before it to so much after.
_MARGIN_NS = 2_000_000
#: A step shorter than a few records says nothing of its own.
_FEWEST = 5
#: A step is told in shape where so many samples fit into it: one whole, and its two edges.
_SHAPE_SAMPLES = 3
#: Copies of counters and steps agree in time to some microseconds.
_LEAST_MARGIN_NS = 300_000
#: Where less is known of the steps, bytes say too little.
_LEAST_KNOWN = 0.99


@dataclass(frozen=True, slots=True)
class WatchedRepetition:
    """What one repetition with all sources told: by counters, and by the trace."""

    counted: dict[str, CountedSteps]
    traced: Operations
    records: tuple[SourceRecord, ...]
    steps: tuple[ProgramStep, ...]
    processes: int


def payloads_of(run: WatchRun, machine: Machine, gpu: int) -> tuple[Payload, ...]:
    """Return payload by each counter of a GPU, the finest source first."""
    own = [c for c in run.timeline.over(PCIE) if c.gpu == gpu and len(c) > 1]
    own.sort(key=lambda c: SOURCES.index(c.source) if c.source in SOURCES else len(SOURCES))
    return tuple(payload_of(run.timeline, c, machine) for c in own)


def watched_once(
    run: WatchRun, payloads: Sequence[Payload], steps: tuple[ProgramStep, ...], gpu: int
) -> WatchedRepetition:
    """Return what a watch of a program with these steps told."""
    copying = moving(steps, LEAST_BYTES)
    counted = {p.source: c for p in payloads if (c := counted_steps(p, copying)) is not None}
    operations = run.timeline.operations
    traced = operations.rows(operations.is_copy & (operations.device == gpu))
    processes = len(run.timeline.processes)
    return WatchedRepetition(counted, traced, run.manifest.sources, steps, processes)


def source_of(
    name: str, watched: Sequence[WatchedRepetition], steps: Sequence[ProgramStep]
) -> SourceResults | None:
    """Return what a source told in all repetitions; None where it was not asked to watch."""
    records = [r for one in watched for r in one.records if r.name.partition(".")[0] == name]
    if not records:
        return None
    used = [r for r in records if r.used]
    reasons = [" ".join(filter(None, (r.reason, r.remedy))) for r in records if r.reason]
    source = SourceResults(
        name,
        bool(used),
        reasons[0] if reasons else None,
        copying=len(moving(steps, LEAST_BYTES)),
        cpu_seconds=quantity((r.cpu_seconds for r in used), "s", _CPU),
    )
    if not used:
        return source
    return _traced(source, watched) if name == "trace" else _counted(source, watched, used)


def _counted(
    source: SourceResults, watched: Sequence[WatchedRepetition], used: Sequence[SourceRecord]
) -> SourceResults:
    found = [
        (one.counted[source.source], one.steps) for one in watched if source.source in one.counted
    ]
    truths = [moved(moving(steps, LEAST_BYTES)) for _, steps in found]

    def pair(unit: str, method: str, of: Callable[[CountedSteps, int], float | None]) -> Pair:
        return pair_of(quantity((of(c, w) for c, _ in found), unit, method) for w in range(2))

    deviation = pair_of(
        quantity(
            (
                c.bytes[w] / truth[w] - 1 if c.bytes and truth[w] else None
                for (c, _), truth in zip(found, truths, strict=True)
            ),
            "share",
            _DEVIATION,
        )
        for w in range(2)
    )
    return replace(
        source,
        bytes=pair("B", _BYTES, lambda c, w: c.bytes[w] if c.bytes else None),
        deviation=deviation,
        elsewhere_bytes=pair("B", _ELSEWHERE, lambda c, w: c.elsewhere_bytes[w]),
        highest_gbs=pair(
            "GB/s", _HIGHEST, lambda c, w: c.highest_gbs[w] if c.highest_gbs else None
        ),
        interval_seconds=quantity((c.interval_ns * 1e-9 for c, _ in found), "s", _INTERVAL),
        shaped=min((c.shaped for c, _ in found), default=None),
        samples=sum(r.samples or 0 for r in used),
        lost=sum(r.lost_samples or 0 for r in used),
    )


def _traced(source: SourceResults, watched: Sequence[WatchedRepetition]) -> SourceResults:
    traced = [one for one in watched if one.processes]
    sums = [
        tuple(
            int(one.traced.bytes[one.traced.direction == direction].sum())
            for direction in _DIRECTIONS
        )
        for one in traced
    ]
    truths = [moved(one.steps) for one in traced]
    counts = [int(np.isin(one.traced.direction, _DIRECTIONS).sum()) for one in traced]
    deviation = pair_of(
        quantity(
            (s[w] / t[w] - 1 if t[w] else None for s, t in zip(sums, truths, strict=True)),
            "share",
            _DEVIATION,
        )
        for w in range(2)
    )
    return replace(
        source,
        bytes=pair_of(quantity((s[w] for s in sums), "B", _TRACED) for w in range(2)),
        deviation=deviation,
        highest_gbs=pair_of(
            quantity(
                (_fastest_copy(one.traced, direction) for one in traced), "GB/s", _FASTEST_COPY
            )
            for direction in _DIRECTIONS
        ),
        copies=quantity(counts, "1", "Traced copies between host and GPU."),
    )


def _fastest_copy(traced: Operations, direction: DirectionCode) -> float | None:
    large = traced.rows((traced.direction == direction) & (traced.bytes >= LEAST_BYTES))
    rates = bandwidths_gbs(large.bytes.astype(np.float64), large.seconds)
    known = rates[np.isfinite(rates)]
    return float(known.max()) if known.size else None


@dataclass(frozen=True, slots=True)
class Probed:
    """One direction of the probe in one step, or on an idle link.

    Attributes
    ----------
    gbs, delay_seconds
        Medians of its records; None with fewer than five.
    """

    direction: str
    records: int
    gbs: float | None
    delay_seconds: float | None


@dataclass(frozen=True, slots=True)
class Noticed:
    """Which steps that copy a probe has noticed in their own direction, by longer copies.

    Attributes
    ----------
    seen, steps
        Of so many steps so many.
    alarms
        Times it told of use where no step copied.
    longest_seconds
        The longest time between the begins of two of its records, in which it saw nothing.
    """

    direction: str
    seen: int
    steps: int
    alarms: int
    longest_seconds: float | None


def probed(probe: Probe, step: ProgramStep | None = None) -> tuple[Probed, ...]:
    """Return for each direction what the records tell that began in a step; None is all."""
    if step is not None:
        inside = (probe.begin_ns >= step.begin_ns) & (probe.begin_ns < step.end_ns)
        probe = probe.rows(inside)
    return tuple(
        _probed(probe.one_direction(i), direction) for i, direction in enumerate(PROBE_DIRECTIONS)
    )


def _probed(own: Probe, direction: str) -> Probed:
    enough = len(own) >= _FEWEST
    known = own.gbs[np.isfinite(own.gbs)]
    return Probed(
        direction,
        len(own),
        float(np.median(known)) if enough and known.size else None,
        float(np.median(own.delay_ns)) * 1e-9 if enough else None,
    )


def noticed(probe: Probe, steps: Sequence[ProgramStep]) -> tuple[Noticed, ...]:
    """Return which steps that copy were noticed, for each direction."""
    return tuple(_noticed(probe, steps, i) for i in range(len(PROBE_DIRECTIONS)))


def _noticed(probe: Probe, steps: Sequence[ProgramStep], direction: int) -> Noticed:
    own = probe.one_direction(direction)
    link_episodes = [one for one in episodes(probe, direction) if one.sign is Sign.LINK]
    mine = [step for step in steps if step.moved[direction]]
    # copies the other way share the requests, the root port and the host's memory
    any_copy = [step for step in steps if sum(step.moved)]
    first = min((step.begin_ns for step in steps), default=0)
    last = max((step.end_ns for step in steps), default=0)
    alarms = sum(
        first <= one.start_ns < last and not any(_meet(one, step) for step in any_copy)
        for one in link_episodes
    )
    waits = np.diff(own.begin_ns)
    return Noticed(
        PROBE_DIRECTIONS[direction],
        sum(any(_meet(one, step) for one in link_episodes) for step in mine),
        len(mine),
        alarms,
        float(waits.max()) * 1e-9 if waits.size else None,
    )


def _meet(one: Episode, step: ProgramStep) -> bool:
    return one.start_ns < step.end_ns + _MARGIN_NS and one.end_ns > step.begin_ns - _MARGIN_NS


@dataclass(frozen=True, slots=True)
class CountedSteps:
    """What one counter tells of the steps that copy; pairs are to the GPU and from it.

    Attributes
    ----------
    bytes
        In those steps and a little around them; None where less than 99 % of it is known.
    elsewhere_bytes
        In the rest of the watch.
    highest_gbs
        Of a single record in those steps.
    interval_ns
        From record to record, the median.
    shaped
        How many of those steps are long enough that their shape can be seen.
    """

    source: str
    bytes: tuple[float, float] | None
    elsewhere_bytes: tuple[float, float]
    highest_gbs: tuple[float, float] | None
    interval_ns: int
    shaped: int


def payload_of(timeline: Timeline, counters: Counters, machine: Machine) -> Payload:
    """Return payload by the model that follows from PCIe's packets.

    It is not fitted to traced copies: told and true bytes would agree by themselves.
    """
    links = pcie_links(machine, counters.gpu)
    model = default_of(timeline, counters, links[0].pcie if links else None)
    operations = timeline.operations
    own = operations.rows(operations.is_copy & (operations.device == counters.gpu))
    parts = list(payload_records(counters, model, None, np.sort(own.end_ns)))
    rows = np.concatenate([rows for _, rows in parts]) if parts else np.empty((0, 3))
    return Payload(counters.source, counters.end_ns, rows[:, :2].T, rows[:, 2])


def counted_steps(payload: Payload, steps: Sequence[ProgramStep]) -> CountedSteps | None:
    """Return what counters tell of steps; None where they have no two records."""
    if payload.end_ns.size < 2:
        return None
    interval = payload.interval_ns
    edges = windows(steps, max(2 * interval, _LEAST_MARGIN_NS))
    inside = [_inside(payload, column, edges) for column in (*payload.bytes, payload.known_ns)]
    requested = float((edges[1::2] - edges[::2]).sum())
    settled = settle(np.array(inside[0]), np.array(inside[1]), RESOLUTION)
    sums = payload.bytes[:, 1:].sum(axis=1)
    known = requested > 0 and inside[2] >= _LEAST_KNOWN * requested
    return CountedSteps(
        payload.source,
        (float(settled[0]), float(settled[1])) if known else None,
        (max(float(sums[0]) - inside[0], 0.0), max(float(sums[1]) - inside[1], 0.0)),
        _highest(payload, edges),
        interval,
        sum(step.end_ns - step.begin_ns >= _SHAPE_SAMPLES * interval for step in steps),
    )


def windows(steps: Sequence[ProgramStep], margin_ns: int) -> IntArray:
    """Return begin and end of the time of steps with a margin, in turns; what overlaps is one."""
    edges: list[int] = []
    for step in sorted(steps, key=lambda one: one.begin_ns):
        begin, end = step.begin_ns - margin_ns, step.end_ns + margin_ns
        if edges and begin <= edges[-1]:
            edges[-1] = max(edges[-1], end)
        else:
            edges += [begin, end]
    return np.array(edges, np.int64)


def _inside(payload: Payload, column: FloatArray, edges: IntArray) -> float:
    return float(between(payload.end_ns, [column], edges)[0, ::2].sum()) if edges.size else 0.0


def _highest(payload: Payload, edges: IntArray) -> tuple[float, float] | None:
    place = np.searchsorted(edges, payload.end_ns, "right")
    rates = payload.gbs()[:, place % 2 == 1]
    if not rates.size or not np.isfinite(rates).any():
        return None
    down, up = np.nanmax(rates, axis=1)
    return float(down), float(up)
