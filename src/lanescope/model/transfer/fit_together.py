"""Fits how much traffic slows traffic of the other direction, from how long both took together.

While both directions move, each byte takes s times as long; once the shorter one has ended, the
other goes on unslowed (Anastasiadis et al., CoCoPeLia, ISPASS 2021). Three pairs of sizes tell the
two factors s, and leave one residual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lanescope.measurement.result import FloatArray
from lanescope.model.transfer.estimate import Estimate
from lanescope.model.transfer.parameters import Duplex

_MOST = 4.0


@dataclass(frozen=True, slots=True)
class Together:
    """Two transfers that began at the same time.

    Attributes
    ----------
    h2d_alone, d2h_alone
        What each takes alone, seconds.
    both
        What they took together.
    """

    h2d_alone: float
    d2h_alone: float
    both: Estimate


def together_seconds(h2d: float, d2h: float, slow_h2d: float, slow_d2h: float) -> float:
    """Return how long two transfers take that begin at the same time.

    `h2d` and `d2h` are what they take alone; the factors say how many times as long while both
    move.
    """
    one, other = h2d * slow_h2d, d2h * slow_d2h
    if one > other:
        return together_seconds(d2h, h2d, slow_d2h, slow_h2d)
    return one + d2h - one / slow_d2h


def slowdowns(pairs: Sequence[Together]) -> tuple[Estimate, Estimate]:
    """Return the factor of each direction that fits all pairs best."""
    middle = _fitted(pairs, lambda estimate: estimate.value)
    ends = [_fitted(pairs, lambda e: e.low), _fitted(pairs, lambda e: e.high)]
    found = []
    for place in range(2):
        values = [middle[place], *(end[place] for end in ends)]
        found.append(Estimate(middle[place], min(values), max(values)))
    return found[0], found[1]


def fitted_duplex(
    pairs: Sequence[Together], h2d_per_byte: Estimate, d2h_per_byte: Estimate
) -> Duplex:
    """Return G of each direction while both move."""
    down, up = slowdowns(pairs)
    return Duplex(_times(h2d_per_byte, down), _times(d2h_per_byte, up))


def _times(per_byte: Estimate, factor: Estimate) -> Estimate:
    return Estimate(
        per_byte.value * factor.value, per_byte.low * factor.low, per_byte.high * factor.high
    )


def _fitted(pairs: Sequence[Together], of: Callable[[Estimate], float]) -> tuple[float, float]:
    from scipy.optimize import least_squares

    def errors(factors: FloatArray) -> FloatArray:
        down, up = map(float, factors)
        return np.array(
            [together_seconds(p.h2d_alone, p.d2h_alone, down, up) / of(p.both) - 1 for p in pairs]
        )

    solved = least_squares(errors, [1.1, 1.1], bounds=([1.0, 1.0], [_MOST, _MOST]))
    return float(solved.x[0]), float(solved.x[1])
