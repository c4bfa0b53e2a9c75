"""What every predictor does, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lanescope.model.overlap.methods import Method
from lanescope.model.overlap.workload import Workload
from lanescope.model.transfer.estimate import Estimate
from lanescope.model.transfer.parameters import LinkParameters


@dataclass(frozen=True, slots=True)
class Prediction:
    """The time of one round of a workload by one method.

    Attributes
    ----------
    method, streams
        By which, and into how many parts it is cut (1 for methods without streams).
    seconds
        With its 95 % interval.
    predictor
        ``equations`` or ``replay``.
    busiest
        What the time goes to most: ``h2d``, ``d2h``, ``kernel``, ``calls``.
    """

    method: Method
    streams: int
    seconds: Estimate
    predictor: str
    busiest: str


class Predictor(Protocol):
    """Predicts a workload on a machine that is told by its parameters.

    Attributes
    ----------
    name
        By which users name it.
    is_slow
        Whether to try some numbers of streams takes so long that not all can be tried.
    """

    name: str
    is_slow: bool

    def predict(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> Prediction:
        """Return the time of one round.

        Raises
        ------
        NotMeasuredError
            If the parameters lack what the method takes (mapped or pageable memory).
        """

    def value(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        """Return the middle of what `predict` returns, in seconds, for less work if there is one.

        Raises
        ------
        NotMeasuredError
            As `predict` does.
        """
