"""Two predictors side by side: how far the replay is from the equations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lanescope.errors import NotMeasuredError
from lanescope.prediction.equations import Equations
from lanescope.prediction.parameters import LinkParameters
from lanescope.prediction.predictor import STREAMED, Method, Prediction, Predictor, Workload
from lanescope.prediction.replay import Replay


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two predictors say of the same.

    Attributes
    ----------
    workload
        Its name.
    one, other
        Their predictions, of the same method and number of streams.
    """

    workload: str
    one: Prediction
    other: Prediction

    @property
    def difference(self) -> float:
        """By how much the other one's time is longer, as a share of the one's; signed."""
        return self.other.seconds.value / self.one.seconds.value - 1

    @property
    def agree(self) -> bool:
        """Whether each one's time lies within the interval of the other's."""
        one, other = self.one.seconds, self.other.seconds
        return one.low <= other.value <= one.high and other.low <= one.value <= other.high


def compare(
    workloads: Mapping[str, Workload],
    streams: Iterable[int],
    parameters: LinkParameters,
    *,
    methods: Iterable[Method] = tuple(Method),
    one: Predictor | None = None,
    other: Predictor | None = None,
) -> tuple[Comparison, ...]:
    """Let two predictors predict all workloads by all methods.

    Parameters
    ----------
    workloads
        By name.
    streams
        Numbers of streams for the methods that have any. Numbers into which a workload cannot
        be cut are left out for it, and methods that the parameters say nothing about.
    one, other
        By default the equations and the replay.
    """
    first = Equations() if one is None else one
    second = Replay() if other is None else other
    counts, directions = tuple(streams), tuple(methods)
    return tuple(
        comparison
        for name, workload in workloads.items()
        for method in directions
        for n in _counts(workload, method, counts)
        for comparison in _compared(name, workload, method, n, parameters, (first, second))
    )


def _counts(workload: Workload, method: Method, streams: tuple[int, ...]) -> tuple[int, ...]:
    if method not in STREAMED:
        return (1,)
    most = workload.most_streams
    return tuple(n for n in streams if most is None or n <= most)


def _compared(
    name: str,
    workload: Workload,
    method: Method,
    streams: int,
    parameters: LinkParameters,
    predictors: tuple[Predictor, Predictor],
) -> Iterator[Comparison]:
    try:
        one, other = (p.predict(workload, method, streams, parameters) for p in predictors)
    except NotMeasuredError:
        return
    yield Comparison(name, one, other)
