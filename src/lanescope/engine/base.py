"""What an engine has to do, and the one of described machines: it predicts from their limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, replace
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from lanescope.copies import Copy, Engine, Experiment, Memory
from lanescope.copies.limit import Limit, limits, missing_field, staging_node
from lanescope.copies.patterns import reach_each_other
from lanescope.errors import BusyError, NotMeasuredError
from lanescope.machine import Machine
from lanescope.results import FloatArray, LinkEvidence, Source
from lanescope.results.turns import Turns
from lanescope.units.sizes import size_text, transfer_seconds
from lanescope.units.words import time_text

if TYPE_CHECKING:
    from lanescope.engine.process import GpuProcess

#: Kept for storing the run and for its page: so much, and so much for each case.
_END_SECONDS = 0.6
_END_SECONDS_A_CASE = 0.002
#: Copies that take this long are predicted without a known latency: it is a per cent or so.
_LATENCY_FREE_SECONDS = 1e-3
_MIB = 1 << 20
#: What limits may depend on: not how many bytes a copy moves, from which addresses, and on
#: which CPUs.
_FIELDS = attrgetter(
    *(f.name for f in fields(Copy) if f.name not in ("bytes", "pieces", "access", "cpus"))
)


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

    def start(self, owner: str) -> GpuProcess:
        """Start the process of a GPU, on its node."""


class ModelBackend:
    """Every copy takes its latency and goes at its limit: an upper bound, not a habit."""

    source = Source.PREDICTED

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[tuple[object, ...], tuple[Limit, ...]] = {}

    @contextmanager
    def prepare(self, experiment: Experiment) -> Iterator[ModelSession]:
        """Predict the experiment; see `Backend.prepare`."""
        for copy in experiment.copies:
            _require_reachable(self._machine, copy)
        yield ModelSession(self._machine, experiment, self._limits(experiment))

    def _limits(self, experiment: Experiment) -> tuple[Limit, ...]:
        """Return the limits of a set; of sets that differ in size alone they are the same."""
        key = tuple(map(_FIELDS, experiment.copies))
        if key not in self._known:
            self._known[key] = limits(self._machine, experiment)
        return self._known[key]


class ModelSession:
    """One predicted experiment."""

    staged = False

    def __init__(self, machine: Machine, experiment: Experiment, bounds: tuple[Limit, ...]) -> None:
        known = machine.latencies.source or "none given: latency left out"
        self.method = f"predicted: latency + bytes / limit of the links; latencies: {known}"
        self._seconds = [
            _seconds(machine, copy, bound)
            for copy, bound in zip(experiment.copies, bounds, strict=True)
        ]

    def sample(self) -> list[FloatArray]:
        """Return one predicted time for each copy."""
        return [np.array([seconds]) for seconds in self._seconds]

    def check(self) -> None:
        """Nothing was moved."""

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Nothing was seen."""
        return ()


def _require_reachable(machine: Machine, copy: Copy) -> None:
    gpus = [machine.gpu(p.index) for p in (copy.source, copy.destination) if not p.is_host]
    for gpu in gpus:
        if gpu.unavailable is not None:
            raise NotMeasuredError(f"{gpu.id} is not usable: {gpu.unavailable}")
    by_kernel = copy.engine is Engine.SM and len(gpus) == 2 and gpus[0] != gpus[1]
    if by_kernel and not reach_each_other(*gpus):
        raise NotMeasuredError(
            f"{gpus[0].id} and {gpus[1].id} cannot reach each other's memory, and a kernel takes "
            "no copy through the host.",
            "Take the copy engine.",
        )


def _seconds(machine: Machine, copy: Copy, bound: Limit) -> float:
    if copy.operation.is_latency:
        raise NotMeasuredError("A latency is measured, not predicted.", "Run it on the machine.")
    if copy.engine is Engine.NCCL:
        raise NotMeasuredError("NCCL is measured, not predicted.", "Run it on the machine.")
    rate = bound.gbs
    if Memory.PAGEABLE in (copy.source.memory, copy.destination.memory) and not _host_only(copy):
        staging = machine.latencies.pageable_gbs
        if staging is None:
            raise NotMeasuredError(
                "The machine file does not say how fast pageable memory is staged.",
                "Give pageable_gbs under [latencies] there.",
            )
        rate = staging if rate is None else min(rate, staging)
    if rate is None:
        raise NotMeasuredError(
            f"Nothing to predict from: {bound.reason}.", missing_field(machine, copy)
        )
    transfer = transfer_seconds(copy.counted_bytes, rate)
    if _host_only(copy) and transfer < _LATENCY_FREE_SECONDS:
        least = copy.bytes * _LATENCY_FREE_SECONDS / transfer
        raise NotMeasuredError(
            f"A host copy of {size_text(copy.bytes)} takes {time_text(transfer)} at its limit: a "
            "good part of so short a time is call and cache, which limits do not tell.",
            f"Predict one of {size_text(ceil(least / _MIB) * _MIB)} or more, or run it on the "
            "machine.",
        )
    latency = _latency_seconds(machine, copy)
    if latency is None and transfer < _LATENCY_FREE_SECONDS:
        raise NotMeasuredError(
            "Of a copy this short a good part is latency, which the machine file does not tell.",
            "Give h2d_us, d2h_us and d2d_us under [latencies] there.",
        )
    return (latency or 0.0) + transfer


def _host_only(copy: Copy) -> bool:
    return copy.source.is_host and copy.destination.is_host


def _latency_seconds(machine: Machine, copy: Copy) -> float | None:
    if _host_only(copy):
        return 0.0
    known = machine.latencies
    if staging_node(machine, copy) is not None:  # one copy to the host, one from it
        both = (known.d2h_us, known.h2d_us)
        return None if None in both else sum(filter(None, both)) * 1e-6
    if copy.source.is_host:
        latency = known.h2d_us
    else:
        latency = known.d2h_us if copy.destination.is_host else known.d2d_us
    return None if latency is None else latency * 1e-6
