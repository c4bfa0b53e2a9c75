"""What a measurement leaves behind: samples, their statistics, limit and verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from lanescope.calls import checked
from lanescope.copies import Copy, Experiment
from lanescope.presenting import presenter
from lanescope.units.sizes import bandwidth_gbs

FloatArray = npt.NDArray[np.float64]
#: With fewer samples no interval of order statistics covers the median with 95 %.
MIN_SAMPLES = 6
#: Of more samples the binomial distribution is not summed up.
_MOST_COUNTED = 2000


class Source(StrEnum):
    """Where a number comes from. A prediction is never shown as a measurement."""

    MEASURED = "measured"
    PREDICTED = "predicted"


class Status(StrEnum):
    """The verdict on one path in one word."""

    HEALTHY = "healthy"
    SLOW = "slow"
    IMPOSSIBLE = "impossible"
    UNJUDGED = "not judged"
    UNRESOLVED = "unresolved"
    PREDICTED = "predicted"
    NOT_MEASURED = "not measured"
    BUSY = "busy"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
@checked
class LinkEvidence:
    """What a GPU's PCIe link was seen doing right after its copies ran.

    Attributes
    ----------
    part
        The GPU, such as ``g0``.
    generation, width
        State under load: idle links may run slower to save power.
    replays
        Packets that had to be sent again while it was measured; None when the
        driver does not count them.
    """

    part: str
    generation: int
    width: int
    replays: int | None = None


@dataclass(frozen=True, slots=True)
@checked
class Verdict:
    """A judgement with its reason, and the remedy when there is something to do."""

    status: Status
    reason: str
    remedy: str | None = None

    @property
    def missing(self) -> bool:
        """Whether there is no number where there could be one."""
        return self.status in (Status.NOT_MEASURED, Status.BUSY)

    @property
    def failed(self) -> bool:
        """Whether the path is worse than it should be."""
        return self.status in (Status.SLOW, Status.IMPOSSIBLE)


@dataclass(frozen=True, slots=True)
@checked
class Statistics:
    """Summary of the seconds of one copy; see `lanescope.results`.

    Attributes
    ----------
    n
        Number of samples.
    median_seconds, min_seconds, max_seconds, p5_seconds, p95_seconds, mean_seconds
        Of one repetition.
    stdev_seconds
        Standard deviation with n - 1; None with fewer than two samples.
    half_width
        Half of the 95 % confidence interval of the median, as a share of the
        median (0.005 is 0.5 %); None with fewer than six samples.
    """

    n: int
    median_seconds: float
    min_seconds: float
    max_seconds: float
    p5_seconds: float
    p95_seconds: float
    half_width: float | None
    mean_seconds: float
    stdev_seconds: float | None

    @property
    def variation(self) -> float | None:
        """Coefficient of variation: standard deviation as a share of the mean."""
        return None if self.stdev_seconds is None else self.stdev_seconds / self.mean_seconds


@dataclass(frozen=True, slots=True)
@checked
class Stop:
    """Why sampling ended.

    Attributes
    ----------
    reason
        ``converged`` (half-width under the target), ``budget`` (time spent),
        ``samples`` (as many as asked for), ``interrupted``, ``predicted``
        (nothing was sampled) or ``time`` (there was none left).
    target
        Half-width asked for, as a share of the median.
    spent_seconds, budget_seconds
        Wall time used and allowed.
    """

    reason: str
    target: float
    spent_seconds: float
    budget_seconds: float

    def __str__(self) -> str:
        target = f"{self.target * 100:g} %"
        match self.reason:
            case "converged":
                return f"95 % half-width under {target} after {self.spent_seconds:.2f} s"
            case "budget":
                budget = f"a budget of {self.budget_seconds:g} s"
                return f"{self.spent_seconds:.2f} s of {budget} spent before {target}"
            case "samples":
                return f"as many samples as asked for, in {self.spent_seconds:.2f} s"
            case "interrupted":
                return f"interrupted after {self.spent_seconds:.2f} s"
            case "time":
                return "no time was left for it"
        return "nothing was sampled"


@dataclass(frozen=True, slots=True)
@checked
class CopyResult:
    """One copy of an experiment.

    Attributes
    ----------
    seconds
        Every sample: seconds of one repetition of the copy.
    limit_gbs
        The ceiling that the machine's links set on it in this experiment,
        GB/s; None when unknown.
    limit_reason
        What sets the ceiling, or why none is known.
    submit_seconds
        Median time until the last call that handed it over returned, the host's
        share of a repetition; None where it was not timed.
    clock_seconds
        What reading the clock adds to a repetition, calibrated before; None where
        it was not. Above 5 % of the time the verdict is ``unresolved``.
    own_rate
        Whether `seconds` are its own, while all the others ran. They are not of kernels
        that took turns, nor of a copy that never ran beside all the others.
    in_turns_with
        Numbers of the other copies of the experiment that an engine took one after
        the other with this one; `seconds` are then the same for all of them, those in
        which each was done once.
    """

    copy: Copy
    seconds: FloatArray = field(compare=False)
    statistics: Statistics
    limit_gbs: float | None
    limit_reason: str
    verdict: Verdict
    submit_seconds: float | None = None
    clock_seconds: float | None = None
    own_rate: bool = True
    in_turns_with: tuple[int, ...] = ()

    @property
    def gbs(self) -> float | None:
        """Bandwidth of the median repetition, in GB/s (1e9 bytes a second).

        None for an operation whose time stands for itself, such as a latency, where
        the clock is too coarse for the time, and without a rate of its own.
        """
        return self.carried_gbs if self.own_rate else None

    @property
    def carried_gbs(self) -> float | None:
        """What it adds to the sum of its experiment, in GB/s; None where that is not known.

        Of kernels that took turns it is a part of what they carried together, and says
        nothing of one of them.
        """
        if not self.own_rate and not self.in_turns_with:
            return None
        if self.copy.operation.is_latency or self.verdict.status is Status.UNRESOLVED:
            return None
        return bandwidth_gbs(self.copy.counted_bytes, self.statistics.median_seconds)

    @property
    def share_of_limit(self) -> float | None:
        """Bandwidth as a share of the limit; None without a limit."""
        if self.limit_gbs is None or self.gbs is None:
            return None
        return self.gbs / self.limit_gbs


@dataclass(frozen=True, slots=True)
@checked
class Result:
    """One experiment's outcome.

    Attributes
    ----------
    copies
        One entry for each copy; empty when `not_measured` says why.
    method
        How it was timed, in a sentence.
    stop
        Why sampling ended; None when nothing could be measured.
    not_measured
        The verdict that explains why there are no numbers; None otherwise.
    links
        What was seen of the GPUs' PCIe links under this load.
    staged
        Whether a copy between GPUs went through host memory.
    """

    experiment: Experiment
    source: Source
    copies: tuple[CopyResult, ...]
    method: str
    stop: Stop | None = None
    not_measured: Verdict | None = None
    links: tuple[LinkEvidence, ...] = ()
    staged: bool = False

    @property
    def budget_spent(self) -> bool:
        """Whether the time budget ended the sampling, and not the target."""
        return self.stop is not None and self.stop.reason == "budget"

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """All verdicts of this experiment."""
        if self.not_measured is not None:
            return (self.not_measured,)
        return tuple(c.verdict for c in self.copies)

    @property
    def total_gbs(self) -> float | None:
        """Sum of what the copies carried at the same time, GB/s; None when one is unknown.

        Those that took turns on an engine count with what they carried together.
        """
        return _sum(c.carried_gbs for c in self.copies)

    def joint_gbs(self, number: int) -> float | None:
        """Return what a copy and those it took turns with carried together, GB/s."""
        others = self.copies[number].in_turns_with
        return _sum(self.copies[n].carried_gbs for n in (number, *others)) if others else None

    @property
    def groups_in_turns(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the copies that took turns on an engine; a group for each engine."""
        found = (tuple(sorted((n, *c.in_turns_with))) for n, c in enumerate(self.copies))
        return tuple(dict.fromkeys(group for group in found if len(group) > 1))

    @property
    def total_limit_gbs(self) -> float | None:
        """Sum of the copies' limits when all run at once, GB/s; None when one is unknown."""
        return _sum(c.limit_gbs for c in self.copies)

    def __repr__(self) -> str:
        return presenter().result_text(self)

    def _repr_html_(self) -> str:
        return presenter().results_html([self])


def _sum(rates: Iterable[float | None]) -> float | None:
    known = list(rates)
    return sum(filter(None, known)) if known and None not in known else None


def summarise(seconds: FloatArray) -> Statistics:
    """Summarise the samples of one copy.

    Parameters
    ----------
    seconds
        One-dimensional, at least one sample, each above zero.

    Raises
    ------
    ValueError
        If there is no sample.
    """
    if seconds.size == 0:
        raise ValueError("no samples to summarise")
    p5, median, p95 = np.percentile(seconds, [5, 50, 95])
    return Statistics(
        n=int(seconds.size),
        median_seconds=float(median),
        min_seconds=float(seconds.min()),
        max_seconds=float(seconds.max()),
        p5_seconds=float(p5),
        p95_seconds=float(p95),
        half_width=half_width(seconds),
        mean_seconds=float(seconds.mean()),
        stdev_seconds=float(seconds.std(ddof=1)) if seconds.size > 1 else None,
    )


def half_width(seconds: FloatArray) -> float | None:
    """Return half of the 95 % confidence interval of the median, as a share of the median.

    The interval runs between two order statistics, found from the binomial
    distribution with p = 1/2, and so assumes no shape of the samples
    (Conover, Practical Nonparametric Statistics, section 3.2). None with fewer
    than `MIN_SAMPLES` samples.
    """
    n = int(seconds.size)
    if n < MIN_SAMPLES:
        return None
    ordered = np.sort(seconds)
    low = _lower_rank(n)
    width = float(ordered[n - 1 - low] - ordered[low])
    return width / 2 / float(np.median(ordered))


def most_gbs(copy: Copy, seconds: FloatArray) -> float | None:
    """Return the bandwidth in GB/s at the fast end of the median's 95 % interval.

    Times have a long tail on the slow side, and half of the interval's width says nothing of this.
    None with fewer than `MIN_SAMPLES` samples, or where the clock is too coarse.
    """
    if seconds.size < MIN_SAMPLES:
        return None
    fastest, _ = median_interval(seconds)
    return bandwidth_gbs(copy.counted_bytes, fastest) if fastest > 0 else None


def median_interval(values: FloatArray) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median, between two order statistics.

    Of fewer than six values it is their whole range, which is less sure than that.
    """
    ordered = np.sort(values)
    low = max(_lower_rank(int(values.size)), 0)
    return float(ordered[low]), float(ordered[values.size - 1 - low])


def _lower_rank(n: int) -> int:
    """Largest rank r with P(Binomial(n, 1/2) <= r) of 2.5 % or less, counted from 0.

    Of many samples by the normal distribution: one rank off at most.
    """
    if n > _MOST_COUNTED:
        return math.floor(n / 2 - NormalDist().inv_cdf(0.975) * math.sqrt(n) / 2 - 0.5)
    tail, rank, combinations = 0, -1, 1  # comb(n, rank + 1)
    while 40 * (tail + combinations) <= 2**n:
        rank += 1
        tail += combinations
        combinations = combinations * (n - rank) // (rank + 1)
    return rank
