"""Runs experiments until the median is known well enough, or the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lanescope.backend.base import Backend, ReadsClock, Session, TimesSubmission
from lanescope.errors import NotMeasuredError
from lanescope.experiment import Copy, Experiment
from lanescope.experiment.limit import Limit, limits
from lanescope.machine import Machine
from lanescope.measurement.bandwidth import bandwidth_gbs
from lanescope.measurement.result import (
    CopyResult,
    FloatArray,
    LinkEvidence,
    Result,
    Source,
    Status,
    Stop,
    Verdict,
)
from lanescope.measurement.statistics import MIN_SAMPLES, half_width, summarise
from lanescope.measurement.verdict import judge

#: Share of a time that reading the clock may take.
MOST_CLOCK = 0.05

#: A batch without a single usable sample is tried again with more windows, so often.
_MOST_EMPTY_BATCHES = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """How precisely to measure.

    Attributes
    ----------
    target
        Half of the 95 % confidence interval of the median, as a share of it.
    budget_seconds
        Sampling time for one experiment. At least `MIN_SAMPLES` samples are
        taken all the same: fewer have no interval.
    samples
        Take so many samples of each copy, whatever the interval; None samples
        to the target.
    verify
        Compare every byte of the destinations afterwards.
    """

    target: float = 0.005
    budget_seconds: float = 1.0
    samples: int | None = None
    verify: bool = True


Sink = Callable[[Result], None]


def measure_all(
    experiments: Sequence[Experiment],
    backend: Backend,
    machine: Machine,
    plan: Plan,
    sink: Sink,
    on_start: Callable[[Experiment], None] | None = None,
) -> None:
    """Measure experiments one after the other and hand each result on at once.

    When interrupted, what the running experiment has so far is handed on before
    the interruption goes its way.
    """
    for experiment in experiments:
        if on_start is not None:
            on_start(experiment)
        measure_one(experiment, backend, machine, plan, sink)


def measure_one(
    experiment: Experiment, backend: Backend, machine: Machine, plan: Plan, sink: Sink
) -> None:
    """Measure one experiment and hand its result on; see `measure_all`."""
    try:
        with backend.prepare(experiment) as session:
            sampler = _Sampler(session, plan, len(experiment.copies), backend.source)
            try:
                stop = sampler.run()
                evidence = session.evidence()
                if plan.verify:
                    session.check()
            except (KeyboardInterrupt, SystemExit):
                if sampler.has_all:
                    stop = sampler.stopped("interrupted")
                    sink(_result(experiment, backend.source, machine, session, sampler, stop, ()))
                raise
            result = _result(experiment, backend.source, machine, session, sampler, stop, evidence)
    except NotMeasuredError as error:
        result = _not_measured(experiment, backend.source, error)
    sink(result)


class _Sampler:
    """Collects samples and knows when it has enough."""

    def __init__(self, session: Session, plan: Plan, copies: int, source: Source) -> None:
        self._session = session
        self._plan = plan
        self._predicted = source is Source.PREDICTED
        self._batches: list[list[FloatArray]] = [[] for _ in range(copies)]
        self._begin = time.monotonic()

    @property
    def has_all(self) -> bool:
        """Whether every copy has a sample."""
        return all(any(b.size for b in batches) for batches in self._batches)

    @property
    def seconds(self) -> list[FloatArray]:
        """The samples so far, an array for each copy; no more than were asked for."""
        most = self._plan.samples
        return [np.concatenate(b)[:most] if b else np.empty(0) for b in self._batches]

    def run(self) -> Stop:
        """Sample until it is enough."""
        empty = 0
        while True:
            batch = self._session.sample()
            for kept, new in zip(self._batches, batch, strict=True):
                kept.append(new)
            if self._predicted:
                return self.stopped("predicted")
            empty = empty + 1 if any(new.size == 0 for new in batch) else 0
            if empty > _MOST_EMPTY_BATCHES:
                raise NotMeasuredError("One copy ends before the other has begun in earnest.")
            if stop := self._enough():
                return stop

    def stopped(self, reason: str) -> Stop:
        """Describe the end of sampling, now."""
        spent = time.monotonic() - self._begin
        return Stop(reason, self._plan.target, spent, self._plan.budget_seconds)

    def _enough(self) -> Stop | None:
        seconds = self.seconds
        least = min(s.size for s in seconds)
        wanted = self._plan.samples
        if least < (MIN_SAMPLES if wanted is None else wanted):
            return None
        if any(np.median(s) <= 0 for s in seconds):
            raise NotMeasuredError(
                "A copy ends within one step of the clock.", "Take a larger size."
            )
        if wanted is not None:
            return self.stopped("samples")
        widths = [half_width(s) for s in seconds]
        if all(w is not None and w <= self._plan.target for w in widths):
            return self.stopped("converged")
        if time.monotonic() - self._begin >= self._plan.budget_seconds:
            return self.stopped("budget")
        return None


def _result(
    experiment: Experiment,
    source: Source,
    machine: Machine,
    session: Session,
    sampler: _Sampler,
    stop: Stop,
    evidence: Sequence[LinkEvidence],
) -> Result:
    bounds = limits(machine, experiment)
    copies = tuple(
        _copy_result(
            experiment, index, seconds, bounds[index], source, machine, session.staged, evidence
        )
        for index, seconds in enumerate(sampler.seconds)
    )
    if isinstance(session, TimesSubmission):
        copies = tuple(replace(c, submit_seconds=session.submit_seconds()) for c in copies)
    if isinstance(session, ReadsClock):
        copies = tuple(_resolved(c, session.clock_seconds()) for c in copies)
    return Result(experiment, source, copies, session.method, stop, links=tuple(evidence))


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
        alone=_limit_alone(machine, experiment, copy),
        staged=staged,
        evidence=evidence,
    )
    if experiment.has_latency and not copy.operation.is_latency:
        verdict = Verdict(Status.UNJUDGED, "it keeps the path busy while a latency is measured")
    return CopyResult(copy, seconds, statistics, limit.gbs, limit.reason, verdict)


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


def _not_measured(experiment: Experiment, source: Source, error: NotMeasuredError) -> Result:
    verdict = Verdict(Status.NOT_MEASURED, error.reason, error.remedy)
    return Result(experiment, source, (), method="not measured", not_measured=verdict)
