"""In words, what each source could and could not see of a program: from the numbers alone."""

from __future__ import annotations

from collections.abc import Iterator

from lanescope.studies.pcie_thesis.plan import Mode
from lanescope.studies.pcie_thesis.results import (
    ProgramResults,
    Quantity,
    ReproductionResults,
    Sentences,
    SourceResults,
    StepResults,
)
from lanescope.units.sizes import binary_text
from lanescope.units.words import rate_text, time_text

_DIRECTION_WORDS = ("to the GPU", "from it")
#: Below this, a source's rates are no longer those of the copies.
_DILUTED = 0.8
#: Above the link's limit by more, a record holds what moved in others.
_TOO_FAST = 1.02
#: A delay that counts as raised.
_RAISED = 1.5


def program_sentences(one: ProgramResults, results: ReproductionResults) -> Sentences:
    """Return sentences on what each source saw of a program, what it cost, and the program itself.

    ``results`` is for the link's limits and for the idle link.
    """
    sources = [words for source in one.sources for words in _source(source, one, results)]
    return Sentences(
        (*sources, *_cost(one, Mode.SOURCES, "All sources at once")),
        (*_probe(one, results), *_cost(one, Mode.PROBE, "The probe")),
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


def _probe(one: ProgramResults, results: ReproductionResults) -> Iterator[str]:
    for noticed, word in zip(one.noticed, _DIRECTION_WORDS, strict=False):
        if noticed.steps:
            wait = noticed.longest_seconds
            blind = f"; it was blind for up to {time_text(wait.high)} at a time" if wait else ""
            yield (
                f"The probe noticed {noticed.seen} of {noticed.steps} steps that copy {word} by "
                f"its own copies taking longer, and {_times(noticed.alarms)} took something else "
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
