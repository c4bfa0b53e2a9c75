"""From the stored turns of a reproduction to what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lanescope.machine import Machine
from lanescope.studies.pcie_thesis.plan import Mode, Program, turns
from lanescope.studies.pcie_thesis.results import (
    NoticedResults,
    Pair,
    ProgramResults,
    Quantity,
    ReproductionResults,
    Shown,
    StepResults,
    pair_of,
    quantity,
)
from lanescope.studies.pcie_thesis.sources import (
    LEAST_BYTES,
    SOURCES,
    Noticed,
    Probed,
    Watched,
    noticed,
    payloads_of,
    probed,
    source_of,
    watched_once,
)
from lanescope.studies.pcie_thesis.steps import Step, moved, moving, work_seconds
from lanescope.studies.pcie_thesis.store import Done, Reproduction
from lanescope.studies.pcie_thesis.words import program_sentences
from lanescope.trace.limits import link_limits
from lanescope.trace.probe import PROBE_DIRECTIONS, Probe
from lanescope.trace.run import WatchRun

_WORK = "From the begin of the program's first step to the end of its last, by its own clock."
_SLOWDOWN = "That time over the unwatched one of the same repetition, less 1."
_STEP = "From begin to end of the step, by the program's own clock."
_FASTEST_STEP = "Bytes of a step over its time, of the fastest step, by the program's own clock."
_PROBE_GBS = "Chunk over the time of its copy, the median of the records that began in the step."
_PROBE_DELAY = "Time of a copy of 4 bytes, the median of the records that began in the step."
_IDLE_GBS = "Chunk over the time of its copy, the median of all records of the idle link."
_IDLE_DELAY = "Time of a copy of 4 bytes, the median of all records of the idle link."
_WAIT = "Longest time between two begins of the probe's records of one direction."


@dataclass(frozen=True, slots=True)
class _Probed:
    """What one repetition with the probe told: of each step each way, and what it noticed."""

    steps: dict[str, tuple[Probed, ...]]
    noticed: tuple[Noticed, ...]


def evaluate(found: Reproduction) -> ReproductionResults:
    """Return what a reproduction tells, of as much as is done of it."""
    request = found.asked
    limits = link_limits(request.machine, request.gpu)
    idle = [probed(p) for done in found.done if (p := _idle(done, request.gpu))]
    gbs = pair_of(quantity((one[w].gbs for one in idle), "GB/s", _IDLE_GBS) for w in range(2))
    delay = pair_of(
        quantity((one[w].delay_seconds for one in idle), "s", _IDLE_DELAY) for w in range(2)
    )
    empty = ReproductionResults(
        found, len(turns(request.programs, request.repetitions)), limits, gbs, delay, programs=()
    )
    own = (
        (p, [d for d in found.done if d.turn.program == p and d.steps]) for p in request.programs
    )
    programs = [_program(p, done, request.machine, request.gpu) for p, done in own if done]
    worded = (replace(one, sentences=program_sentences(one, empty)) for one in programs)
    return replace(empty, programs=tuple(worded))


def _idle(done: Done, gpu: int) -> Probe | None:
    return _probe(done.watch(), gpu) if done.turn.program is None else None


def _probe(watch: WatchRun | None, gpu: int) -> Probe | None:
    probes = () if watch is None else watch.timeline.probes
    return next((p for p in probes if p.gpu == gpu and len(p)), None)


def _program(program: Program, done: Sequence[Done], machine: Machine, gpu: int) -> ProgramResults:
    by_mode = {mode: [one for one in done if one.turn.mode is mode] for mode in Mode}
    shown = Shown()
    watched: list[Watched] = []
    probes: list[_Probed] = []
    for one in by_mode[Mode.SOURCES]:
        run = one.watch()
        if run is not None:
            payloads = payloads_of(run, machine, gpu)
            watched.append(watched_once(run, payloads, one.steps, gpu))
            if not shown.payloads and not shown.steps:
                traced = watched[-1].traced
                shown = replace(shown, payloads=payloads, operations=traced, steps=one.steps)
    for one in by_mode[Mode.PROBE]:
        probe = _probe(one.watch(), gpu)
        if probe is not None:
            probes.append(_probed(probe, one.steps))
            if shown.probe is None:
                shown = replace(shown, probe=probe, probe_steps=one.steps)
    first_steps = (by_mode[Mode.PLAIN] or done)[0].steps
    times = {
        mode: q
        for mode, ones in by_mode.items()
        if (q := quantity((work_seconds(o.steps) for o in ones), "s", _WORK))
    }
    return ProgramResults(
        program,
        moved(first_steps),
        sum(step.copies for step in first_steps),
        _fastest(by_mode[Mode.PLAIN] or done),
        times,
        _slowdowns(by_mode),
        tuple(s for name in SOURCES if (s := source_of(name, watched, first_steps)) is not None),
        tuple(_step(step, by_mode, probes) for step in first_steps),
        _noticed(probes),
        shown=shown,
    )


def _fastest(done: Sequence[Done]) -> Pair:
    def of(steps: Sequence[Step], direction: int) -> float | None:
        rates = [
            step.gbs[direction] for step in moving(steps, LEAST_BYTES) if step.moved[direction]
        ]
        return max(rates, default=None)

    return pair_of(
        quantity((of(one.steps, direction) for one in done), "GB/s", _FASTEST_STEP)
        for direction in range(2)
    )


def _slowdowns(by_mode: dict[Mode, list[Done]]) -> dict[Mode, Quantity]:
    plain = {one.turn.repetition: work_seconds(one.steps) for one in by_mode[Mode.PLAIN]}
    found = {}
    for mode in (Mode.SOURCES, Mode.PROBE):
        ratios = (
            work_seconds(one.steps) / plain[one.turn.repetition] - 1
            for one in by_mode[mode]
            if plain.get(one.turn.repetition)
        )
        ratio = quantity(ratios, "share", _SLOWDOWN)
        if ratio is not None:
            found[mode] = ratio
    return found


def _probed(probe: Probe, steps: Sequence[Step]) -> _Probed:
    by_step = {step.name: probed(probe, step) for step in steps}
    return _Probed(by_step, noticed(probe, moving(steps, LEAST_BYTES)))


def _step(step: Step, by_mode: dict[Mode, list[Done]], probes: Sequence[_Probed]) -> StepResults:
    def seconds(done: Done) -> float | None:
        return next((s.seconds for s in done.steps if s.name == step.name), None)

    times = {mode: quantity(map(seconds, ones), "s", _STEP) for mode, ones in by_mode.items()}
    mine = [one.steps[step.name] for one in probes if step.name in one.steps]
    return StepResults(
        step.name,
        step.h2d_bytes,
        step.d2h_bytes,
        step.copies,
        {mode: time for mode, time in times.items() if time is not None},
        pair_of(quantity((m[w].gbs for m in mine), "GB/s", _PROBE_GBS) for w in range(2)),
        pair_of(quantity((m[w].delay_seconds for m in mine), "s", _PROBE_DELAY) for w in range(2)),
    )


def _noticed(probes: Sequence[_Probed]) -> tuple[NoticedResults, ...]:
    found = []
    for direction, name in enumerate(PROBE_DIRECTIONS):
        own = [one.noticed[direction] for one in probes]
        if own:
            longest = quantity((one.longest_seconds for one in own), "s", _WAIT)
            noticed, steps, alarms = (
                sum(getattr(o, k) for o in own) for k in ("seen", "steps", "alarms")
            )
            found.append(NoticedResults(name, noticed, steps, alarms, longest))
    return tuple(found)
