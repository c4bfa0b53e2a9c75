"""What runs experiments: the protocol that this machine and predictions share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from lanescope.experiment import Experiment
from lanescope.measurement.deadline import Deadline
from lanescope.measurement.result import FloatArray, LinkEvidence, Source
from lanescope.measurement.turns import Turns


class Session(Protocol):
    """An experiment made ready to run.

    Attributes
    ----------
    method
        How it is timed, in a sentence.
    staged
        Whether a copy between GPUs goes through host memory, as they cannot
        reach each other.
    """

    method: str
    staged: bool

    def sample(self) -> list[FloatArray]:
        """Run a batch of repetitions; return seconds, an array for each copy.

        Arrays may be of different lengths, and empty.
        """

    def check(self) -> None:
        """Raise `NotMeasuredError` if the destinations do not hold what was sent."""

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Return what was seen of the links, as far as the machine tells."""


@runtime_checkable
class TimesSubmission(Protocol):
    """A session of one copy that also times when its calls return."""

    def submit_seconds(self) -> float | None:
        """Return the median time until the last call returned; None without samples."""


@runtime_checkable
class ReadsClock(Protocol):
    """A session that knows what reading its clock costs."""

    def clock_seconds(self) -> float:
        """Return what reading the clock adds to a repetition, calibrated."""


@runtime_checkable
class TakesBatches(Protocol):
    """A session whose batches can be made shorter, so that small budgets are kept.

    Attributes
    ----------
    batch_seconds
        What a batch aims at.
    """

    batch_seconds: float


@runtime_checkable
class Hurries(Protocol):
    """A backend that can give up making an experiment ready.

    Attributes
    ----------
    deadline
        When it has to be ready; then `prepare` raises `TooLateError`. None: whenever it is.
    """

    deadline: Deadline | None


@runtime_checkable
class KnowsTurns(Protocol):
    """A session that finds out which copies an engine took one after the other."""

    def turns(self) -> Turns:
        """Return which, as far as the samples so far say."""


class Backend(Protocol):
    """Runs experiments.

    Attributes
    ----------
    source
        Whether its numbers are measured or predicted.
    """

    source: Source

    def prepare(self, experiment: Experiment) -> AbstractContextManager[Session]:
        """Make an experiment ready.

        Raises
        ------
        NotMeasuredError
            If this experiment cannot run now; others may.
        """
