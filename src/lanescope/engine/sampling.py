"""Runs experiments until the median is known well enough, or the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lanescope.calls import checked
from lanescope.copies import Experiment
from lanescope.engine.base import (
    Backend,
    Deadline,
    FitsTime,
    Hurries,
    Samples,
    TakesBatches,
    TooLateError,
)
from lanescope.engine.judged import Judged
from lanescope.errors import BusyError, InputError, NotApplicableError, NotMeasuredError
from lanescope.machine import Machine
from lanescope.results import (
    MIN_SAMPLES,
    FloatArray,
    Result,
    Source,
    Status,
    Stop,
    Verdict,
    half_width,
)

#: Why there is no number, by the error; `Status.NOT_MEASURED` for all others.
_STATUS = {BusyError: Status.BUSY, NotApplicableError: Status.NOT_APPLICABLE}
#: A machine that is busy with other things may not yield `MIN_SAMPLES` within the budget. It is
#: waited for them so much longer, and then what there is has to do.
PATIENCE_SECONDS = 2.0

#: A target that takes so many budgets is out of reach: all of the budget, instead of half of it,
#: makes the interval narrower by a third at most.
_OUT_OF_REACH = 2

#: A path is not called slow by a median that is hardly known until so many budgets are spent.
_DOUBTED_BUDGETS = 5

#: A small budget is spent in so many batches at least, unless they would become too short.
_FEWEST_BATCHES = 4
_SHORTEST_BATCH_SECONDS = 0.02

#: A batch without a single usable sample is tried again with more windows, so often. Of copies that
#: take turns two tell so, one is without queues, and some more find how often each is done.
_MOST_EMPTY_BATCHES = 14
#: Nobody waits longer for one experiment, and for all.
_LONGEST = {"budget_seconds": (3600, "an hour"), "within_seconds": (30 * 86400, "30 days")}
#: Every sample is stored.
_MOST_SAMPLES = 1_000_000


@dataclass(frozen=True, slots=True)
@checked
class Plan:
    """How precisely to measure.

    Attributes
    ----------
    target
        Half of the 95 % confidence interval of the median, as a share of it.
    budget_seconds
        Sampling time for one experiment. At least `MIN_SAMPLES` samples are
        taken all the same, as fewer have no interval, unless that would take
        `PATIENCE_SECONDS` longer.
    samples
        Take so many samples of each copy, whatever the interval; None samples
        to the target.
    verify
        Compare every byte of the destinations afterwards.
    within_seconds
        Wall time for everything, from the call to its return; None: as long as it
        takes. Experiments share it, the first ones come first, and those that it
        does not suffice for are not measured.
    deadline
        When that is over. `begun` sets it.
    noisy_seconds
        Sampling time where the target would take more than twice the budget; None:
        all of the budget.
    """

    target: float = 0.005
    budget_seconds: float = 1.0
    samples: int | None = None
    verify: bool = True
    within_seconds: float | None = None
    deadline: Deadline | None = None
    noisy_seconds: float | None = None

    def begun(self, at: float | None = None) -> Plan:
        """Return the plan with its deadline, where it has none; the time runs from `at` or now."""
        if self.within_seconds is None or self.deadline is not None:
            return self
        begin = time.monotonic() if at is None else at
        return replace(self, deadline=Deadline(begin + self.within_seconds))

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise InputError(
                f"Plan: target cannot be {self.target:g}; give a share, such as 0.005 for 0.5 %"
            )
        for name, (longest, words) in _LONGEST.items():
            if (getattr(self, name) or 0) > longest:
                raise InputError(
                    f"Plan: {name} cannot be {getattr(self, name):g}; give {words} at most"
                )
        if self.samples is not None and not 1 <= self.samples <= _MOST_SAMPLES:
            raise InputError(
                f"Plan: samples cannot be {self.samples}; give 1 to {_MOST_SAMPLES}, or None"
            )


Sink = Callable[[Result], None]


def measure_all(
    experiments: Sequence[Experiment],
    backend: Backend,
    machine: Machine,
    plan: Plan,
    sink: Sink,
    on_start: Callable[[Experiment], None] | None = None,
    further: int = 0,
) -> list[Result]:
    """Measure experiments one after the other and hand each result on at once.

    When interrupted, what the running experiment has so far is handed on before
    the interruption goes its way.

    Parameters
    ----------
    further
        How many experiments come after these and share the time that is left.

    Returns
    -------
    list of Result
        Those that there was no time for. They are not handed on: they may be many,
        and storing each would take time that is not there.
    """
    for number, experiment in enumerate(experiments):
        if plan.deadline is not None and plan.deadline.is_over:
            late = experiments[number:]
            return [_not_measured(one, backend.source, plan, TooLateError()) for one in late]
        if on_start is not None:
            on_start(experiment)
        cases = len(experiments) - number + further
        measure_one(experiment, backend, machine, plan, sink, cases)
    return []


def measure_one(
    experiment: Experiment,
    backend: Backend,
    machine: Machine,
    plan: Plan,
    sink: Sink,
    cases: int = 1,
) -> None:
    """Measure one of so many experiments that are left, and hand its result on."""
    patience = _Patience(plan, cases)
    if isinstance(backend, Hurries):
        backend.deadline = plan.deadline
    try:
        with backend.prepare(experiment) as session:
            judged = Judged(experiment, backend.source, machine, session)
            sampler = _Sampler(
                session, patience, len(experiment.copies), backend.source, judged.is_doubtful
            )
            try:
                stop = sampler.run()
                evidence = session.evidence()
                if plan.verify:
                    session.check()
            except (KeyboardInterrupt, SystemExit):
                if sampler.has_all:
                    stop = sampler.stopped("interrupted")
                    sink(judged.result(sampler.seconds, stop))
                raise
            result = judged.result(sampler.seconds, stop, evidence)
    except NotMeasuredError as error:
        result = _not_measured(experiment, backend.source, plan, error)
    sink(result)


def sample_call(call: Callable[[], float], plan: Plan) -> FloatArray:
    """Time a call again and again, by the stop rule of experiments; return its seconds.

    Parameters
    ----------
    call
        Does it once, and returns the seconds that count.
    """
    sampler = _Sampler(_Calls(call, plan.budget_seconds), _Patience(plan, 1), 1, Source.MEASURED)
    sampler.run()
    return sampler.seconds[0]


class _Calls:
    """A call that is timed: a batch is as many calls as fit."""

    def __init__(self, call: Callable[[], float], budget_seconds: float) -> None:
        self._call = call
        self.batch_seconds = min(_SHORTEST_BATCH_SECONDS, budget_seconds)

    def sample(self) -> list[FloatArray]:
        """Call until the batch is over, once at least."""
        seconds = [self._call()]
        end = time.monotonic() + self.batch_seconds - seconds[0]
        while time.monotonic() < end:
            seconds.append(self._call())
        return [np.array(seconds)]


class _Patience:
    """How long one experiment may take, from before it is made ready.

    Under a deadline it has its share of what is left. Where that does not yield `MIN_SAMPLES`,
    it has the share of the next one, too: that one will find less to share.
    """

    def __init__(self, plan: Plan, cases: int) -> None:
        self.plan = plan
        self._deadline = plan.deadline
        self._clock = time.monotonic if plan.deadline is None else plan.deadline.clock
        self._share = None if plan.deadline is None else plan.deadline.share_seconds(cases)
        self._begin = self._clock()
        self._sampling = self._begin

    def sampling_begins(self) -> None:
        """The experiment is ready."""
        self._sampling = self._clock()

    @property
    def spent_seconds(self) -> float:
        """Time spent on sampling."""
        return self._clock() - self._sampling

    @property
    def budget_seconds(self) -> float:
        """Time for sampling."""
        if self._share is None:
            return self.plan.budget_seconds
        left = self._begin + self._share - self._sampling
        return min(self.plan.budget_seconds, max(0.0, left))

    def left_seconds(self, needed: float = 0.0) -> float:
        """Return what is left of the time for sampling, where `needed` more reach the target."""
        spent, allowed = self.spent_seconds, self.budget_seconds
        noisy = self.plan.noisy_seconds
        if noisy is not None and spent + needed > _OUT_OF_REACH * allowed:
            allowed = min(noisy, allowed)
        return allowed - spent

    def is_spent(self) -> bool:
        """Whether sampling has to end without enough samples for an interval."""
        if self._share is not None and self._clock() >= self._begin + 2 * self._share:
            return True
        most = self.plan.budget_seconds + PATIENCE_SECONDS
        return self.is_over or (self.plan.samples is None and self.spent_seconds >= most)

    def is_spent_on_doubts(self) -> bool:
        """Whether sampling has to end though a path may look slow by chance."""
        if self._share is not None and self._clock() >= self._begin + self._share:
            return True
        return self.spent_seconds >= _DOUBTED_BUDGETS * self.plan.budget_seconds

    @property
    def is_over(self) -> bool:
        """Whether there is no time at all."""
        return self._deadline is not None and self._deadline.is_over


class _Sampler:
    """Collects samples and knows when it has enough."""

    def __init__(
        self,
        session: Samples,
        patience: _Patience,
        copies: int,
        source: Source,
        is_doubtful: Callable[[Sequence[FloatArray]], bool] = lambda _: False,
    ) -> None:
        self._session = session
        self._is_doubtful = is_doubtful
        self._patience = patience
        self._plan = patience.plan
        self._predicted = source is Source.PREDICTED
        self._batches: list[list[FloatArray]] = [[] for _ in range(copies)]
        patience.sampling_begins()
        self._width: float | None = None  # the widest of the copies', once there is one
        self._long_seconds = self._short_seconds = 0.0  # what a batch may take, and should
        if isinstance(session, TakesBatches):
            most = max(_SHORTEST_BATCH_SECONDS, patience.budget_seconds / _FEWEST_BATCHES)
            self._long_seconds = session.batch_seconds
            self._short_seconds = session.batch_seconds = min(session.batch_seconds, most)

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
            if isinstance(self._session, FitsTime):
                self._session.next_seconds = self._next_seconds()
            batch = self._session.sample()
            for batches, new in zip(self._batches, batch, strict=True):
                batches.append(new)
            if self._predicted:
                return self.stopped("predicted")
            empty = empty + 1 if any(new.size == 0 for new in batch) else 0
            if empty > _MOST_EMPTY_BATCHES:
                raise NotMeasuredError("One copy ends before the other has begun in earnest.")
            if stop := self._enough():
                return stop
            if self._patience.is_over:
                raise TooLateError()

    def _next_seconds(self) -> float | None:
        """Return what the next batch shall take, so that batches of one length fill the budget.

        Each batch warms up. Where the target is out of reach, as widths go with the root of the
        number of samples, nothing is gained by short ones, after which it might be reached.
        """
        needed = self._needed_seconds()
        left = self._patience.left_seconds(needed)
        if self._plan.samples is not None or self._width is None or left <= 0:
            return None
        length = self._long_seconds if needed >= left else self._short_seconds
        return left / max(1, round(left / length)) if length else None

    def _needed_seconds(self) -> float:
        """Return how much longer the target takes; 0 where no interval says so."""
        if self._width is None:
            return 0.0
        return ((self._width / self._plan.target) ** 2 - 1) * self._patience.spent_seconds

    def stopped(self, reason: str) -> Stop:
        """Describe the end of sampling, now."""
        spent, allowed = self._patience.spent_seconds, self._patience.budget_seconds
        return Stop(reason, self._plan.target, spent, allowed)

    def _enough(self) -> Stop | None:
        seconds = self.seconds
        least = min(s.size for s in seconds)
        wanted = self._plan.samples
        enough = least >= (MIN_SAMPLES if wanted is None else wanted)
        if not enough and (least < 1 or not self._patience.is_spent()):
            return None
        if any(np.median(s) <= 0 for s in seconds):
            raise NotMeasuredError(
                "A copy ends within one step of the clock.", "Take a larger size."
            )
        if not enough:
            return self.stopped("budget")
        if wanted is not None:
            return self.stopped("samples")
        widths = [half_width(s) for s in seconds]
        self._width = max((w for w in widths if w is not None), default=None)
        if all(w is not None and w <= self._plan.target for w in widths):
            return self.stopped("converged")
        session = self._session
        # It ends as near to the budget as batches of the shortest length come.
        shortest = session.shortest_seconds if isinstance(session, FitsTime) else 0.0
        if self._patience.left_seconds(self._needed_seconds()) > shortest / 2:
            return None
        if not self._patience.is_spent_on_doubts() and self._is_doubtful(seconds):
            return None
        return self.stopped("budget")


def _not_measured(
    experiment: Experiment, source: Source, plan: Plan, error: NotMeasuredError
) -> Result:
    verdict = Verdict(_STATUS.get(type(error), Status.NOT_MEASURED), error.reason, error.remedy)
    late = isinstance(error, TooLateError)
    stop = Stop("time", plan.target, 0.0, plan.budget_seconds) if late else None
    return Result(experiment, source, (), "not measured", stop, verdict)
