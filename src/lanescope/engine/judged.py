"""What the samples of an experiment come to: its result, with a verdict on each copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lanescope.copies import Copy, Experiment
from lanescope.copies.limit import Limit, limits
from lanescope.engine.base import KnowsTurns, ReadsClock, Session, TimesSubmission
from lanescope.machine import Machine
from lanescope.results import (
    CopyResult,
    FloatArray,
    LinkEvidence,
    Result,
    Source,
    Status,
    Stop,
    Verdict,
    half_width,
    most_gbs,
    summarise,
)
from lanescope.results.turns import Turns
from lanescope.results.verdict import in_step_with, judge, turns_verdict
from lanescope.units.sizes import bandwidth_gbs

#: Share of a time that reading the clock may take.
MOST_CLOCK = 0.05
#: A median that is known to this share or worse is hardly known.
_DOUBTFUL = 0.05


@dataclass(frozen=True, slots=True)
class Judged:
    """Makes the result of an experiment from its samples."""

    experiment: Experiment
    source: Source
    machine: Machine
    session: Session

    def is_doubtful(self, seconds: Sequence[FloatArray]) -> bool:
        """Whether a copy would be slow by a median that is hardly known, as after one pause."""
        widths = [half_width(s) for s in seconds]
        copies = self._copies(seconds, ())
        return any(
            copy.verdict.status is Status.SLOW and (width is None or width > _DOUBTFUL)
            for copy, width in zip(copies, widths, strict=True)
        )

    def result(
        self, seconds: Sequence[FloatArray], stop: Stop, evidence: Sequence[LinkEvidence] = ()
    ) -> Result:
        """Return what these seconds of each copy come to, and the link states under its load."""
        copies, session = self._copies(seconds, evidence), self.session
        if isinstance(session, TimesSubmission):
            copies = tuple(replace(c, submit_seconds=session.submit_seconds()) for c in copies)
        if isinstance(session, ReadsClock):
            copies = tuple(_resolved(c, session.clock_seconds()) for c in copies)
        links, staged = tuple(evidence), session.staged
        method = session.method
        return Result(
            self.experiment, self.source, copies, method, stop, links=links, staged=staged
        )

    def _copies(
        self, seconds: Sequence[FloatArray], evidence: Sequence[LinkEvidence]
    ) -> tuple[CopyResult, ...]:
        bounds = limits(self.machine, self.experiment)
        staged = self.session.staged
        copies = tuple(
            _copy_result(
                self.experiment,
                index,
                each,
                bounds[index],
                self.source,
                self.machine,
                staged,
                evidence,
            )
            for index, each in enumerate(seconds)
        )
        copies = tuple(_unless_in_step(copies, number) for number in range(len(copies)))
        if isinstance(self.session, KnowsTurns) and (turns := self.session.turns()).groups:
            copies = tuple(_in_turns(copies, number, turns) for number in range(len(copies)))
        return copies


def _copy_result(
    experiment: Experiment,
    index: int,
    seconds: FloatArray,
    limit: Limit,
    source: Source,
    machine: Machine,
    staged: bool,
    evidence: Sequence[LinkEvidence],
) -> CopyResult:
    copy = experiment.copies[index]
    statistics = summarise(seconds)
    verdict = judge(
        machine,
        copy,
        bandwidth_gbs(copy.counted_bytes, statistics.median_seconds),
        limit,
        source=source,
        most_gbs=most_gbs(copy, seconds),
        alone=_limit_alone(machine, experiment, copy),
        staged=staged,
        evidence=evidence,
    )
    if experiment.has_latency and not copy.operation.is_latency:
        verdict = Verdict(Status.UNJUDGED, "it keeps the path busy while a latency is measured")
    return CopyResult(copy, seconds, statistics, limit.gbs, limit.reason, verdict)


def _unless_in_step(copies: Sequence[CopyResult], number: int) -> CopyResult:
    """Blame no copy that an engine alternates with another one; see `in_step_with`."""
    result = copies[number]
    if result.verdict.status is not Status.SLOW or not (paths := in_step_with(copies, number)):
        return result
    words = f"an engine seems to alternate between it and {paths}: their times are the same"
    return replace(result, verdict=Verdict(Status.UNJUDGED, words))


def _in_turns(copies: Sequence[CopyResult], number: int, turns: Turns) -> CopyResult:
    """Say of a copy of a set in which some took turns what is known of it, and blame nothing."""
    result, others = copies[number], turns.others(number)
    verdict = turns_verdict([c.copy for c in copies], number, turns, result.statistics)
    if turns.by_windows:
        if not others:  # all others ran at once with it
            return result
        share = result.share_of_limit
        judged = result.verdict.status is Status.HEALTHY and share is not None and share <= 1
        return replace(result, verdict=result.verdict if judged else verdict, in_turns_with=others)
    if others or number in turns.unknown:
        return replace(result, verdict=verdict, own_rate=False, in_turns_with=others)
    if result.verdict.status is Status.IMPOSSIBLE:
        return result
    return replace(result, verdict=verdict)


def _resolved(result: CopyResult, clock_seconds: float) -> CopyResult:
    """Mark a time of which too much is the clock's own."""
    share = clock_seconds / result.statistics.median_seconds
    if share <= MOST_CLOCK:
        return replace(result, clock_seconds=clock_seconds)
    verdict = Verdict(Status.UNRESOLVED, f"reading the clock takes {share * 100:.0f} % of the time")
    return replace(result, clock_seconds=clock_seconds, verdict=verdict)


def _limit_alone(machine: Machine, experiment: Experiment, copy: Copy) -> Limit | None:
    """The ceiling of one of several copies if it ran alone; None if it does."""
    if len(experiment.copies) == 1:
        return None
    return limits(machine, replace(experiment, copies=(copy,)))[0]
