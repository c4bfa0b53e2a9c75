"""From the stored turns of a reproduction to what they tell, in numbers and in words.

What each source could and could not see of a program is said from the numbers alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lanescope.machine import Machine
from lanescope.studies.pcie_thesis.reproduction import (
    FinishedTurn,
    Mode,
    Program,
    ProgramStep,
    Reproduction,
    moved,
    moving,
    turns,
    work_seconds,
)
from lanescope.studies.pcie_thesis.results import (
    NoticedResults,
    Pair,
    ProgramResults,
    Quantity,
    ReproductionResults,
    Sentences,
    Shown,
    SourceResults,
    StepResults,
    pair_of,
    quantity,
)
from lanescope.studies.pcie_thesis.sources import (
    LEAST_BYTES,
    SOURCES,
    Noticed,
    Probed,
    WatchedRepetition,
    noticed,
    payloads_of,
    probed,
    source_of,
    watched_once,
)
from lanescope.trace.limits import link_limits
from lanescope.trace.probe import PROBE_DIRECTIONS, Probe
from lanescope.trace.run import WatchRun
from lanescope.units.sizes import binary_text
from lanescope.units.words import rate_text, time_text

_WORK = "From the begin of the program's first step to the end of its last, by its own clock."
_SLOWDOWN = "That time over the unwatched one of the same repetition, less 1."
_STEP = "From begin to end of the step, by the program's own clock."
_FASTEST_STEP = "Bytes of a step over its time, of the fastest step, by the program's own clock."
_PROBE_GBS = "Chunk over the time of its copy, the median of the records that began in the step."
_PROBE_DELAY = "Time of a copy of 4 bytes, the median of the records that began in the step."
_IDLE_GBS = "Chunk over the time of its copy, the median of all records of the idle link."
_IDLE_DELAY = "Time of a copy of 4 bytes, the median of all records of the idle link."
_WAIT = "Longest time between two begins of the probe's records of one direction."
_DIRECTION_WORDS = ("to the GPU", "from it")
#: Below this, a source's rates are no longer those of the copies.
_DILUTED = 0.8
#: Above the link's limit by more, a record holds what moved in others.
_TOO_FAST = 1.02
#: A delay that counts as raised.
_RAISED = 1.5


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


def _idle(done: FinishedTurn, gpu: int) -> Probe | None:
    return _probe(done.watch(), gpu) if done.turn.program is None else None


def _probe(watch: WatchRun | None, gpu: int) -> Probe | None:
    probes = () if watch is None else watch.timeline.probes
    return next((p for p in probes if p.gpu == gpu and len(p)), None)


def _program(
    program: Program, done: Sequence[FinishedTurn], machine: Machine, gpu: int
) -> ProgramResults:
    by_mode = {mode: [one for one in done if one.turn.mode is mode] for mode in Mode}
    shown = Shown()
    watched: list[WatchedRepetition] = []
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


def _fastest(done: Sequence[FinishedTurn]) -> Pair:
    def of(steps: Sequence[ProgramStep], direction: int) -> float | None:
        rates = [
            step.gbs[direction] for step in moving(steps, LEAST_BYTES) if step.moved[direction]
        ]
        return max(rates, default=None)

    return pair_of(
        quantity((of(one.steps, direction) for one in done), "GB/s", _FASTEST_STEP)
        for direction in range(2)
    )


def _slowdowns(by_mode: dict[Mode, list[FinishedTurn]]) -> dict[Mode, Quantity]:
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


def _probed(probe: Probe, steps: Sequence[ProgramStep]) -> _Probed:
    by_step = {step.name: probed(probe, step) for step in steps}
    return _Probed(by_step, noticed(probe, moving(steps, LEAST_BYTES)))


def _step(
    step: ProgramStep, by_mode: dict[Mode, list[FinishedTurn]], probes: Sequence[_Probed]
) -> StepResults:
    def seconds(done: FinishedTurn) -> float | None:
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


def program_sentences(one: ProgramResults, results: ReproductionResults) -> Sentences:
    """Return sentences on what each source saw of a program, what it cost, and the program itself.

    ``results`` is for the link's limits and for the idle link.
    """
    sources = [words for source in one.sources for words in _source(source, one, results)]
    return Sentences(
        (*sources, *_cost(one, Mode.SOURCES, "All sources at once")),
        (*_probe_sentences(one, results), *_cost(one, Mode.PROBE, "The probe")),
        tuple(_at_once(one)),
    )


def _source(
    source: SourceResults, one: ProgramResults, results: ReproductionResults
) -> Iterator[str]:
    if not source.used:
        yield f"{source.source} could not watch: {source.reason or 'it did not say why'}"
        return
    if source.source == "trace":
        yield _traced(source)
        return
    sides = [
        f"{_percent(deviation)} {word}"
        for deviation, word in zip(source.deviation, _DIRECTION_WORDS, strict=True)
        if deviation is not None
    ]
    if sides:
        yield (
            f"Bytes of {source.source} in the steps that copy differ from the program's by "
            f"{' and '.join(sides)}."
        )
    else:
        yield f"{source.source} does not know enough of the steps that copy to tell their bytes."
    yield from _fineness(source)
    yield from _rates(source, one, results)
    elsewhere = [q.value for q in source.elsewhere_bytes if q is not None]
    if len(elsewhere) == 2:
        yield (
            f"Outside of those steps {source.source} counted {binary_text(elsewhere[0])} to the "
            f"GPU and {binary_text(elsewhere[1])} from it, which no copy of the program explains: "
            "the start of CUDA, and what the model does not take off."
        )
    if source.lost:
        yield f"{source.source} lost {source.lost:,} samples of {source.samples or 0:,}."


def _traced(source: SourceResults) -> str:
    if source.copies is None:
        return "trace watched, but no process told of its copies."
    known = [q for q in source.deviation if q is not None]
    exact = known and all(q.low == q.high == 0 for q in known)
    agree = (
        "to the byte" if exact else f"with {', '.join(_percent(q) for q in known)} of difference"
    )
    return (
        f"trace has {source.copies.value:,.0f} copies by the nanosecond and agrees with the "
        f"program {agree}; it knows nothing of bytes that no copy moved."
    )


def _fineness(source: SourceResults) -> Iterator[str]:
    if source.shaped is None or source.interval_seconds is None or not source.copying:
        return
    every = time_text(source.interval_seconds.value)
    if source.shaped == source.copying:
        yield (
            f"With a record every {every}, {source.source} sees the shape of all "
            f"{source.copying} steps that copy."
        )
        return
    yield (
        f"With a record every {every}, {source.source} sees the shape of {source.shaped} of the "
        f"{source.copying} steps that copy; the others are shorter than three records, so that it "
        "has their bytes, but not when they moved nor how fast."
    )


def _rates(
    source: SourceResults, one: ProgramResults, results: ReproductionResults
) -> Iterator[str]:
    for direction, word in enumerate(_DIRECTION_WORDS):
        highest, true = source.highest_gbs[direction], one.fastest_step_gbs[direction]
        limit = results.limits[direction].gbs
        if highest is None or true is None:
            continue
        if highest.value < _DILUTED * true.value:
            yield (
                f"{source.source}'s fastest record {word} is {rate_text(highest.value)}, where a "
                f"step copied at {rate_text(true.value)}: its records average over pauses."
            )
        if limit is not None and highest.high > _TOO_FAST * limit:
            yield (
                f"{source.source}'s fastest record {word} is {rate_text(highest.high)}, more than "
                f"the link carries ({rate_text(limit)}): it holds bytes that moved earlier."
            )


def _probe_sentences(one: ProgramResults, results: ReproductionResults) -> Iterator[str]:
    for seen, word in zip(one.noticed, _DIRECTION_WORDS, strict=False):
        if seen.steps:
            wait = seen.longest_seconds
            blind = f"; it was blind for up to {time_text(wait.high)} at a time" if wait else ""
            yield (
                f"The probe noticed {seen.seen} of {seen.steps} steps that copy {word} by "
                f"its own copies taking longer, and {_times(seen.alarms)} took something else "
                f"for use of the link{blind}."
            )
    for direction, word in enumerate(_DIRECTION_WORDS):
        idle = results.idle_delay_seconds[direction]
        found = [(s, q) for s in one.steps if (q := s.probe_delay_seconds[direction]) is not None]
        if idle is None or not found:
            continue
        step, most = max(found, key=lambda pair: pair[1].value)
        if most.value > _RAISED * idle.value:
            yield (
                f"The delay of 4 bytes {word} is {time_text(idle.value)} on the idle link and "
                f"{time_text(most.value)} during '{step.name}', the highest of all steps."
            )
        else:
            yield (
                f"The delay of 4 bytes {word} is {time_text(idle.value)} on the idle link, and in "
                f"no step more than {time_text(most.value)}."
            )


def _cost(one: ProgramResults, mode: Mode, what: str) -> Iterator[str]:
    cost = one.slowdown.get(mode)
    if cost is not None:
        yield f"{what} changed the program's time by {_percent(cost)}{_range(cost)}."


def _at_once(one: ProgramResults) -> Iterator[str]:
    """What concurrent steps cost each other, in unwatched runs."""
    steps = {step.name: step for step in one.steps}
    both = _plain(steps.get("copies both ways"))
    alone = [_plain(steps.get(name)) for name in ("copies to the device", "copies to the host")]
    if both is not None and alone[0] is not None and alone[1] is not None:
        slower, total = max(alone[0], alone[1]), alone[0] + alone[1]
        yield (
            f"Copies both ways at once took {both / slower:.2f} times what the slower direction "
            f"took alone, and {both / total:.2f} times both one after the other."
        )
    for with_both, single in (
        ("copies with the load", "copies alone"),
        ("load with the copies", "load alone"),
    ):
        together, before = _plain(steps.get(with_both)), _plain(steps.get(single))
        if together is not None and before:
            yield f"'{with_both}' took {(together / before - 1) * 100:+.1f} % against '{single}'."


def _plain(step: StepResults | None) -> float | None:
    time = None if step is None else step.seconds.get(Mode.PLAIN)
    return None if time is None else time.value


def _percent(share: Quantity) -> str:
    return f"{share.value * 100:+.2f} %"


def _range(share: Quantity) -> str:
    if share.n == 1:
        return " (one repetition)"
    return f" ({share.low * 100:+.2f} to {share.high * 100:+.2f} % in {share.n} repetitions)"


def _times(count: int) -> str:
    return "never" if count == 0 else "once" if count == 1 else f"{count} times"
