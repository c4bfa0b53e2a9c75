"""From the stored turns of a reproduction to what they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from lanescope.machine import Machine
from lanescope.measurement.bandwidth import bandwidths_gbs
from lanescope.watch.chapters.counted import CountedSteps, Payload, counted_steps, payload_of
from lanescope.watch.chapters.plan import Program, Way, turns
from lanescope.watch.chapters.probing import Noticed, Probed, noticed, probed
from lanescope.watch.chapters.quantity import Quantity, quantity
from lanescope.watch.chapters.steps import Step, moving, work_seconds
from lanescope.watch.chapters.store import Done, Reproduction
from lanescope.watch.chapters.told import (
    NoticedTold,
    Pair,
    ProgramTold,
    Shown,
    SourceTold,
    StepTold,
    Told,
)
from lanescope.watch.chapters.words import program_sentences
from lanescope.watch.codes import Direction
from lanescope.watch.limits import link_limits
from lanescope.watch.operations import Operations
from lanescope.watch.probe import PROBE_WAYS, Probe
from lanescope.watch.run import SourceRecord, WatchRun

#: Steps with fewer bytes do not count as copying: a result of a check, say.
LEAST_BYTES = 1 << 20
#: What watches in a turn with all sources, the finest first.
SOURCES = ("pm", "counters", "throughput", "trace")

_DIRECTIONS = (Direction.H2D, Direction.D2H)
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
_WORK = "From the begin of the program's first step to the end of its last, by its own clock."
_SLOWDOWN = "That time over the unwatched one of the same repetition, less 1."
_STEP = "From begin to end of the step, by the program's own clock."
_FASTEST_STEP = "Bytes of a step over its time, of the fastest step, by the program's own clock."
_PROBE_GBS = "Chunk over the time of its copy, the median of the records that began in the step."
_PROBE_DELAY = "Time of a copy of 4 bytes, the median of the records that began in the step."
_IDLE_GBS = "Chunk over the time of its copy, the median of all records of the idle link."
_IDLE_DELAY = "Time of a copy of 4 bytes, the median of all records of the idle link."
_WAIT = "Longest time between two begins of the probe's records of one direction."

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Watched:
    """What one repetition with all sources told."""

    counted: dict[str, CountedSteps]
    traced: Operations
    records: tuple[SourceRecord, ...]
    steps: tuple[Step, ...]
    processes: int


@dataclass(frozen=True, slots=True)
class _Probed:
    """What one repetition with the probe told: of each step each way, and what it noticed."""

    steps: dict[str, tuple[Probed, ...]]
    noticed: tuple[Noticed, ...]


def evaluate(found: Reproduction) -> Told:
    """Return what a reproduction tells, of as much as is done of it."""
    asked = found.asked
    limits = link_limits(asked.machine, asked.gpu)
    idle = [probed(p) for done in found.done if (p := _idle(done, asked.gpu))]
    gbs = _pair(quantity((one[w].gbs for one in idle), "GB/s", _IDLE_GBS) for w in range(2))
    delay = _pair(
        quantity((one[w].delay_seconds for one in idle), "s", _IDLE_DELAY) for w in range(2)
    )
    empty = Told(
        found, len(turns(asked.programs, asked.repetitions)), limits, gbs, delay, programs=()
    )
    own = ((p, [d for d in found.done if d.turn.program == p and d.steps]) for p in asked.programs)
    programs = [_program(p, done, asked.machine, asked.gpu) for p, done in own if done]
    worded = (replace(one, sentences=program_sentences(one, empty)) for one in programs)
    return replace(empty, programs=tuple(worded))


def _idle(done: Done, gpu: int) -> Probe | None:
    return _probe(done.watch(), gpu) if done.turn.program is None else None


def _probe(watch: WatchRun | None, gpu: int) -> Probe | None:
    probes = () if watch is None else watch.timeline.probes
    return next((p for p in probes if p.gpu == gpu and len(p)), None)


def _program(program: Program, done: Sequence[Done], machine: Machine, gpu: int) -> ProgramTold:
    by_way = {way: [one for one in done if one.turn.way is way] for way in Way}
    shown = Shown()
    watched: list[_Watched] = []
    probes: list[_Probed] = []
    for one in by_way[Way.SOURCES]:
        run = one.watch()
        if run is not None:
            payloads = _payloads(run, machine, gpu)
            watched.append(_watched(run, payloads, one.steps, gpu))
            if not shown.payloads and not shown.steps:
                traced = watched[-1].traced
                shown = replace(shown, payloads=payloads, operations=traced, steps=one.steps)
    for one in by_way[Way.PROBE]:
        probe = _probe(one.watch(), gpu)
        if probe is not None:
            probes.append(_probed(probe, one.steps))
            if shown.probe is None:
                shown = replace(shown, probe=probe, probe_steps=one.steps)
    told = (by_way[Way.PLAIN] or done)[0].steps
    times = {
        way: q
        for way, ones in by_way.items()
        if (q := quantity((work_seconds(o.steps) for o in ones), "s", _WORK))
    }
    return ProgramTold(
        program,
        _moved(told),
        sum(step.copies for step in told),
        _fastest(by_way[Way.PLAIN] or done),
        times,
        _slowdowns(by_way),
        tuple(s for name in SOURCES if (s := _source(name, watched, told)) is not None),
        tuple(_step(step, by_way, probes) for step in told),
        _noticed(probes),
        shown=shown,
    )


def _moved(steps: Iterable[Step]) -> tuple[int, int]:
    pairs = [step.moved for step in steps]
    return sum(down for down, _ in pairs), sum(up for _, up in pairs)


def _payloads(run: WatchRun, machine: Machine, gpu: int) -> tuple[Payload, ...]:
    own = [c for c in run.timeline.counters if c.gpu == gpu and len(c) > 1]
    own.sort(key=lambda c: SOURCES.index(c.source) if c.source in SOURCES else len(SOURCES))
    return tuple(payload_of(run.timeline, c, machine) for c in own)


def _watched(
    run: WatchRun, payloads: Sequence[Payload], steps: tuple[Step, ...], gpu: int
) -> _Watched:
    copying = moving(steps, LEAST_BYTES)
    counted = {p.source: c for p in payloads if (c := counted_steps(p, copying)) is not None}
    operations = run.timeline.operations
    traced = operations.rows(operations.is_copy & (operations.device == gpu))
    processes = len(run.timeline.processes)
    return _Watched(counted, traced, run.manifest.sources, steps, processes)


def _source(name: str, watched: Sequence[_Watched], told: Sequence[Step]) -> SourceTold | None:
    """Return what a source told in all repetitions; None where it was not asked to watch."""
    records = [r for one in watched for r in one.records if r.name.partition(".")[0] == name]
    if not records:
        return None
    used = [r for r in records if r.used]
    reasons = [" ".join(filter(None, (r.reason, r.remedy))) for r in records if r.reason]
    source = SourceTold(
        name,
        bool(used),
        reasons[0] if reasons else None,
        copying=len(moving(told, LEAST_BYTES)),
        cpu_seconds=quantity((r.cpu_seconds for r in used), "s", _CPU),
    )
    if not used:
        return source
    return _traced(source, watched) if name == "trace" else _counted(source, watched, used)


def _counted(
    source: SourceTold, watched: Sequence[_Watched], used: Sequence[SourceRecord]
) -> SourceTold:
    found = [
        (one.counted[source.source], one.steps) for one in watched if source.source in one.counted
    ]
    truths = [_moved(moving(steps, LEAST_BYTES)) for _, steps in found]

    def pair(unit: str, method: str, of: Callable[[CountedSteps, int], float | None]) -> Pair:
        return _pair(quantity((of(c, w) for c, _ in found), unit, method) for w in range(2))

    deviation = _pair(
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


def _traced(source: SourceTold, watched: Sequence[_Watched]) -> SourceTold:
    seen = [one for one in watched if one.processes]
    sums = [
        tuple(int(one.traced.bytes[one.traced.direction == way].sum()) for way in _DIRECTIONS)
        for one in seen
    ]
    truths = [_moved(one.steps) for one in seen]
    counts = [int(np.isin(one.traced.direction, _DIRECTIONS).sum()) for one in seen]
    deviation = _pair(
        quantity(
            (s[w] / t[w] - 1 if t[w] else None for s, t in zip(sums, truths, strict=True)),
            "share",
            _DEVIATION,
        )
        for w in range(2)
    )
    return replace(
        source,
        bytes=_pair(quantity((s[w] for s in sums), "B", _TRACED) for w in range(2)),
        deviation=deviation,
        highest_gbs=_pair(
            quantity((_fastest_copy(one.traced, way) for one in seen), "GB/s", _FASTEST_COPY)
            for way in _DIRECTIONS
        ),
        copies=quantity(counts, "1", "Traced copies between host and GPU."),
    )


def _fastest_copy(traced: Operations, way: Direction) -> float | None:
    large = traced.rows((traced.direction == way) & (traced.bytes >= LEAST_BYTES))
    rates = bandwidths_gbs(large.bytes.astype(np.float64), large.seconds)
    known = rates[np.isfinite(rates)]
    return float(known.max()) if known.size else None


def _fastest(done: Sequence[Done]) -> Pair:
    def of(steps: Sequence[Step], way: int) -> float | None:
        rates = [step.gbs[way] for step in moving(steps, LEAST_BYTES) if step.moved[way]]
        return max(rates, default=None)

    return _pair(
        quantity((of(one.steps, way) for one in done), "GB/s", _FASTEST_STEP) for way in range(2)
    )


def _slowdowns(by_way: dict[Way, list[Done]]) -> dict[Way, Quantity]:
    plain = {one.turn.repetition: work_seconds(one.steps) for one in by_way[Way.PLAIN]}
    found = {}
    for way in (Way.SOURCES, Way.PROBE):
        ratios = (
            work_seconds(one.steps) / plain[one.turn.repetition] - 1
            for one in by_way[way]
            if plain.get(one.turn.repetition)
        )
        ratio = quantity(ratios, "share", _SLOWDOWN)
        if ratio is not None:
            found[way] = ratio
    return found


def _probed(probe: Probe, steps: Sequence[Step]) -> _Probed:
    told = {step.name: probed(probe, step) for step in steps}
    return _Probed(told, noticed(probe, moving(steps, LEAST_BYTES)))


def _step(step: Step, by_way: dict[Way, list[Done]], probes: Sequence[_Probed]) -> StepTold:
    def seconds(done: Done) -> float | None:
        return next((s.seconds for s in done.steps if s.name == step.name), None)

    times = {way: quantity(map(seconds, ones), "s", _STEP) for way, ones in by_way.items()}
    mine = [one.steps[step.name] for one in probes if step.name in one.steps]
    return StepTold(
        step.name,
        step.h2d_bytes,
        step.d2h_bytes,
        step.copies,
        {way: time for way, time in times.items() if time is not None},
        _pair(quantity((m[w].gbs for m in mine), "GB/s", _PROBE_GBS) for w in range(2)),
        _pair(quantity((m[w].delay_seconds for m in mine), "s", _PROBE_DELAY) for w in range(2)),
    )


def _noticed(probes: Sequence[_Probed]) -> tuple[NoticedTold, ...]:
    found = []
    for way, name in enumerate(PROBE_WAYS):
        own = [one.noticed[way] for one in probes]
        if own:
            longest = quantity((one.longest_seconds for one in own), "s", _WAIT)
            seen, steps, alarms = (
                sum(getattr(o, k) for o in own) for k in ("seen", "steps", "alarms")
            )
            found.append(NoticedTold(name, seen, steps, alarms, longest))
    return tuple(found)


def _pair(values: Iterable[Quantity | None]) -> Pair:
    down, up = values
    return down, up
