"""What a program does again and again, as it was measured; and other ways of doing that work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import inf

from lanescope.errors import InputError, NotMeasuredError
from lanescope.findings.advice.kernels import Kernels
from lanescope.findings.advice.resent import Resident
from lanescope.findings.advice.schedule import Schedule
from lanescope.prediction.costs import next_seconds, single_seconds
from lanescope.prediction.parameters import CopyCost, Direction, LinkParameters
from lanescope.prediction.predictor import Method, Predictor, Workload
from lanescope.trace.codes import MemoryKind
from lanescope.units.estimate import Estimate


@dataclass(frozen=True, slots=True)
class CopyKind:
    """Like copies of a round; of each number the median of the rounds.

    Attributes
    ----------
    count
        In a round.
    least_bytes, typical_bytes, most_bytes
        Sizes of single copies: smallest, median, largest.
    bytes
        Of all of them in a round.
    seconds
        That the copy engine worked on them in a round, one by one.
    """

    direction: Direction
    memory: MemoryKind
    asynchronous: bool
    count: float
    least_bytes: int
    typical_bytes: int
    most_bytes: int
    bytes: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Phase:
    """Rounds of one process on one GPU that are alike; all times are measured.

    Times are medians of the rounds with their 95 % intervals (of fewer than six rounds the whole
    range). A round runs from the call of its first copy, or from that copy's begin where the call
    is not known or lies before the end of the round before, to the end of its last operation.

    Attributes
    ----------
    rounds
        That were seen. A single one has no intervals that tell anything.
    rounds_in_run
        The same where all operations were looked at, else from the bytes of the whole run.
    seconds
        Of a round.
    mean_seconds
        The same in the mean, with its 95 % interval: what a run takes are not medians, and where
        rounds are of two kinds their median says little.
    period_seconds
        From the begin of a round to that of the next; None where no two follow each other.
    h2d_seconds, d2h_seconds
        That copies of a direction cover, overlaps counted once.
    kernel_seconds
        That kernels and other work within the GPU cover, and the gaps below 20 µs between them
        in which nothing is copied. None: kernels were not traced.
    hidden_seconds
        That copies run behind kernels or copies the other way.
    idle_seconds
        That the GPU neither copied nor computed.
    host_seconds
        Of it, pauses above 50 µs outside of calls that copy: the program did something else.
        Where kernels were not traced, any such pause: they may have run then.
    streams
        That had copies or kernels.
    launches
        Kernels, and other work within the GPU.
    parts
        Into how many overlapping parts it is cut now.
    endless
        True where it is cut out of a pipeline that does not run dry between rounds.
    waited
        Directions most of whose copies the program waits for in the calls that make them.
    method
        What the program does now; None: by memory that the models do not know.
    workload
        What the models are given.
    schedule
        Some of its rounds, operation by operation, for a replay under edits; None where there are
        too few, or kernels were not traced.
    call_gap_seconds
        Of the host from one copy's call to the next, where these follow each other without a
        pause; None where few do, or calls are not known.
    slowed_by_kernels
        How many times as long copies to the GPU take while kernels run as without; None where
        there are too few of either. Kernels that use the link themselves do that.
    part_seconds
        That the kernels of one of its `parts` take one after the other; None where there are none,
        or those of several parts overlap: they take longer than alone.
    kernels
        What they cost where a round is cut into parts; None where there are none.
    constant_input
        Whether all that a round sends is the same in each round, as far as it was read.
    resident
        What stays on the GPU where nothing is sent again; None where nothing is.
    new_bytes
        That each round sends, and nearly none sent before; as far as copies were read.
    language
        ``PyTorch``, ``CuPy`` or ``CUDA C++``, by the names of its kernels.
    """

    pid: int
    gpu: int
    number: int
    rounds: int
    rounds_in_run: int
    seconds: Estimate
    mean_seconds: Estimate
    period_seconds: Estimate | None
    h2d_seconds: Estimate
    d2h_seconds: Estimate
    kernel_seconds: Estimate | None
    hidden_seconds: Estimate
    idle_seconds: Estimate
    host_seconds: Estimate
    copies: tuple[CopyKind, ...]
    streams: int
    launches: int
    parts: int
    endless: bool
    waited: tuple[Direction, ...]
    method: Method | None
    workload: Workload
    schedule: Schedule | None = None
    call_gap_seconds: float | None = None
    slowed_by_kernels: float | None = None
    part_seconds: float | None = None
    kernels: Kernels | None = None
    constant_input: bool = False
    resident: Resident | None = None
    new_bytes: int = 0
    language: str = "CUDA C++"

    @property
    def synchronous(self) -> bool:
        """Whether the program waits for copies of a direction in the calls that make them."""
        return bool(self.waited)

    @property
    def modelled_seconds(self) -> Estimate:
        """Of a round, what copies, kernels and their calls take: all but the host's pauses."""
        return self.seconds.map(lambda seconds: seconds - self.host_seconds.value)

    @property
    def cut_in(self) -> int:
        """Into how many parts of streams of their own a round is cut now; 1: it is not."""
        return self.parts if self.method is Method.STREAMS else 1

    @property
    def busy_seconds(self) -> float:
        """All rounds of the run together, without the host's pauses."""
        return self.rounds_in_run * self.modelled_seconds.value

    @property
    def run_seconds(self) -> float:
        """All rounds of the run together."""
        return self.rounds_in_run * self.seconds.value


#: Counts of streams that differ by no more are as fast.
_AS_FAST = 1.005
#: Counts of streams that are tried; each is 1.5 times the one before or less.
_STREAM_COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """A workload, and how it is done.

    Attributes
    ----------
    waited
        Directions each of whose copies is waited for before the next is handed over.
    rounds
        How many rounds the workload holds: more than one where they overlap each other.
    gathering
        Seconds of the host in each, to gather small copies.
    """

    workload: Workload
    method: Method
    streams: int = 1
    waited: tuple[Direction, ...] = ()
    rounds: int = 1
    gathering: float = 0.0


@dataclass(frozen=True, slots=True)
class RoundPredictor:
    """Predicts the time of one round of a state: a call returns it with its interval.

    Attributes
    ----------
    estimate
        Does it.
    value
        Returns the middle alone, for less work.
    least
        Returns what that is not below, for much less work.
    """

    estimate: Callable[[WorkloadState], Estimate]
    value: Callable[[WorkloadState], float]
    least: Callable[[WorkloadState], float]

    def __call__(self, state: WorkloadState) -> Estimate:
        """Return the time in seconds.

        Raises
        ------
        NotMeasuredError
            If the parameters lack what the state takes, or it is too large to be replayed.
        """
        return self.estimate(state)


def predicting(predictor: Predictor, parameters: LinkParameters) -> RoundPredictor:
    """Return what predicts states by a predictor, on a machine with these parameters."""

    def of_round(state: WorkloadState) -> Callable[[float], float]:
        waits = _waits(state, parameters) + state.gathering * state.rounds
        return lambda seconds: (seconds + waits) / state.rounds

    def estimate(state: WorkloadState) -> Estimate:
        with _refused():
            predicted = predictor.predict(state.workload, state.method, state.streams, parameters)
        return predicted.seconds.map(of_round(state))

    def value(state: WorkloadState) -> float:
        with _refused():
            seconds = predictor.value(state.workload, state.method, state.streams, parameters)
        return of_round(state)(seconds)

    def least(state: WorkloadState) -> float:
        with _refused():
            seconds = predictor.least(state.workload, state.method, state.streams, parameters)
        return of_round(state)(seconds)

    return RoundPredictor(cache(estimate), cache(value), least)


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except InputError as error:  # such as more copies in a round than are replayed
        raise NotMeasuredError(str(error)) from error


def _waits(state: WorkloadState, parameters: LinkParameters) -> float:
    """Return what it takes to wait for each copy of pinned memory, beyond handing all over.

    Each costs as one copy alone does, in place of a further one of many. Copies of pageable
    memory are waited for by every method that has them.
    """
    if state.method is not Method.EXPLICIT:
        return 0.0
    work = state.workload
    moved = {
        Direction.H2D: (work.h2d_bytes, work.h2d_arrays),
        Direction.D2H: (work.d2h_bytes, work.d2h_arrays),
    }
    return sum(
        _waits_of(parameters.copies(direction), *moved[direction]) for direction in state.waited
    )


def _waits_of(direction: CopyCost, moved: int, count: int) -> float:
    if not moved:
        return 0.0
    size = moved / count
    alone, further = single_seconds(direction, size).value, next_seconds(direction, size).value
    return (count - 1) * max(alone - further, 0.0)


def best_streams(
    predict: RoundPredictor, states: Callable[[int], WorkloadState], most: int | None
) -> WorkloadState:
    """Return the state with the count of streams that is predicted to take the least time.

    Of counts that differ by less than 0.5 % the smallest is taken.
    """
    counts = [n for n in _STREAM_COUNTS if most is None or n <= most] or [2]
    found: list[tuple[float, int]] = []
    most_seconds = inf
    for n in counts:
        if found and predict.least(states(n)) > most_seconds:
            continue  # it cannot be the one, and the more streams the longer it is replayed
        found.append((predict.value(states(n)), n))
        most_seconds = min(seconds for seconds, _ in found) * _AS_FAST
    return states(min(n for seconds, n in found if seconds <= most_seconds))
