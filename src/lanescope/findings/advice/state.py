"""A way of doing the work of a phase, and what it is predicted to take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import inf

from lanescope.errors import InputError, NotMeasuredError
from lanescope.prediction.parameters import CopyCost, Direction, LinkParameters
from lanescope.prediction.predictor import Predictor
from lanescope.prediction.seconds import next_seconds, single_seconds
from lanescope.prediction.workload import Method, Workload
from lanescope.units.estimate import Estimate

#: Counts of streams that differ by no more are as fast.
_AS_FAST = 1.005
#: Counts of streams that are tried; each is 1.5 times the one before or less.
STREAM_COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, slots=True)
class State:
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
class Predict:
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

    estimate: Callable[[State], Estimate]
    value: Callable[[State], float]
    least: Callable[[State], float]

    def __call__(self, state: State) -> Estimate:
        """Return the time in seconds.

        Raises
        ------
        NotMeasuredError
            If the parameters lack what the state takes, or it is too large to be replayed.
        """
        return self.estimate(state)


def predicting(predictor: Predictor, parameters: LinkParameters) -> Predict:
    """Return what predicts states by a predictor, on a machine with these parameters."""

    def of_round(state: State) -> Callable[[float], float]:
        waits = _waits(state, parameters) + state.gathering * state.rounds
        return lambda seconds: (seconds + waits) / state.rounds

    def estimate(state: State) -> Estimate:
        with _refused():
            predicted = predictor.predict(state.workload, state.method, state.streams, parameters)
        return predicted.seconds.map(of_round(state))

    def value(state: State) -> float:
        with _refused():
            seconds = predictor.value(state.workload, state.method, state.streams, parameters)
        return of_round(state)(seconds)

    def least(state: State) -> float:
        with _refused():
            seconds = predictor.least(state.workload, state.method, state.streams, parameters)
        return of_round(state)(seconds)

    return Predict(cache(estimate), cache(value), least)


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except InputError as error:  # such as more copies in a round than are replayed
        raise NotMeasuredError(str(error)) from error


def _waits(state: State, parameters: LinkParameters) -> float:
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


def best_streams(predict: Predict, states: Callable[[int], State], most: int | None) -> State:
    """Return the state with the count of streams that is predicted to take the least time.

    Of counts that differ by less than 0.5 % the smallest is taken.
    """
    counts = [n for n in STREAM_COUNTS if most is None or n <= most] or [2]
    found: list[tuple[float, int]] = []
    most_seconds = inf
    for n in counts:
        if found and predict.least(states(n)) > most_seconds:
            continue  # it cannot be the one, and the more streams the longer it is replayed
        found.append((predict.value(states(n)), n))
        most_seconds = min(seconds for seconds, _ in found) * _AS_FAST
    return states(min(n for seconds, n in found if seconds <= most_seconds))
