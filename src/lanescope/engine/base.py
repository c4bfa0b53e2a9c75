"""What runs experiments: the protocol that this machine and predictions share, and deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from lanescope.copies import Experiment
from lanescope.errors import BusyError, NotMeasuredError
from lanescope.machine import Machine
from lanescope.results.result import FloatArray, LinkEvidence, Source
from lanescope.results.turns import Turns

if TYPE_CHECKING:
    from lanescope.engine.process import Process

#: Kept for storing the run and for its page: so much, and so much for each case.
_END_SECONDS = 0.6
_END_SECONDS_A_CASE = 0.002


@dataclass(frozen=True, slots=True)
class Deadline:
    """When measuring has to be over.

    Attributes
    ----------
    ends_at
        On `clock`, in seconds.
    clock
        Seconds that pass.
    """

    ends_at: float
    clock: Callable[[], float] = time.monotonic

    @property
    def left_seconds(self) -> float:
        """What is left; negative when it is over."""
        return self.ends_at - self.clock()

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.left_seconds <= 0

    def share_seconds(self, cases: int) -> float:
        """Return what one of so many cases may take, 0 or more: what some leave others have."""
        return max(0.0, self.left_seconds) / max(cases, 1)

    def before_the_end(self, cases: int) -> Deadline:
        """Return when so many cases have to be measured, for all to be stored and shown in time."""
        return replace(self, ends_at=self.ends_at - _END_SECONDS - cases * _END_SECONDS_A_CASE)


class TooLateError(NotMeasuredError):
    """There was no time for a case."""

    def __init__(self) -> None:
        super().__init__(
            "The time given by --within was over.", "Give more of it, or name fewer cases."
        )


class Samples(Protocol):
    """What is timed again and again."""

    def sample(self) -> list[FloatArray]:
        """Run a batch of repetitions; return seconds, an array for each copy.

        Arrays may be of different lengths, and empty.
        """


class Session(Samples, Protocol):
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

    def check(self) -> None:
        """Raise `NotMeasuredError` if the destinations do not hold what was sent."""

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Return what was seen of the links, as far as the machine tells."""


class WithoutLinks:
    """What sessions share that look at no link, and whose copies are not staged."""

    staged = False

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Return nothing: no link is judged by what they time."""
        return ()


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
class FitsTime(Protocol):
    """A session whose batches can be made to take a given time, all that belongs to them counted.

    Attributes
    ----------
    next_seconds
        What the next batch shall take; None: what `TakesBatches` says.
    shortest_seconds
        What a batch takes at least, as far as is known.
    """

    next_seconds: float | None

    @property
    def shortest_seconds(self) -> float: ...  # noqa: D102 - see the class


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
class GivesBack(Protocol):
    """A backend whose memory takes a while to be given back."""

    def give_back(self) -> None:
        """Begin to give it back: nothing more is measured."""


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


class Nodes(Protocol):
    """Nodes that copies are done on, this one among them.

    Attributes
    ----------
    machine
        All of them, as of `lanescope.machine.several.cluster_of`.
    busy
        GPUs that other programs use and that are not to be measured, by their numbers in
        `machine`.
    """

    @property
    def machine(self) -> Machine: ...  # noqa: D102 - see the class

    @property
    def busy(self) -> Mapping[int, BusyError]: ...  # noqa: D102

    def start(self, owner: str) -> Process:
        """Start the process of a GPU, on its node."""
