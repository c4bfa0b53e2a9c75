"""Joins the rounds of a fit: what was disturbed does not count, and is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from lanescope.measurement.result import FloatArray
from lanescope.model.transfer.points import Point
from lanescope.model.transfer.samples import Measured

#: Rounds whose medians differ by no more agree.
SETTLED = 0.03
_ENOUGH = 2


def is_settled(rounds: Sequence[Measured]) -> bool:
    """Whether two rounds of a point agree with the fastest."""
    return len(_agreeing(rounds)) >= _ENOUGH


def settle(measured: Iterable[Measured]) -> tuple[Measured, ...]:
    """Return one entry for each point, with the samples of the rounds that agree.

    A round counts if its median is within `SETTLED` of the fastest round's: whatever happens
    besides takes time, and none gives any.
    """
    return tuple(_joined(_agreeing(rounds)) for rounds in _by_point(measured).values())


def unsettled(measured: Iterable[Measured]) -> tuple[Point, ...]:
    """Return the points of several rounds no two of which agree."""
    return tuple(
        point
        for point, rounds in _by_point(measured).items()
        if len(rounds) >= _ENOUGH and not is_settled(rounds)
    )


def disturbed(measured: Iterable[Measured]) -> int:
    """Return how many rounds do not count, of all points together."""
    return sum(len(r) - len(_agreeing(r)) for r in _by_point(measured).values())


def _by_point(measured: Iterable[Measured]) -> dict[Point, list[Measured]]:
    found: dict[Point, list[Measured]] = {}
    for one in measured:
        found.setdefault(one.point, []).append(one)
    return found


def _agreeing(rounds: Sequence[Measured]) -> list[Measured]:
    medians = [float(np.median(one.seconds)) for one in rounds]
    most = min(medians) * (1 + SETTLED)
    return [one for one, median in zip(rounds, medians, strict=True) if median <= most]


def _joined(rounds: Sequence[Measured]) -> Measured:
    held = [one.held for one in rounds if one.held is not None]
    return Measured(
        rounds[0].point,
        _all(one.calls for one in rounds),
        _all(one.seconds for one in rounds),
        _all(held) if held else None,
        rounds[0].round,
    )


def _all(parts: Iterable[FloatArray]) -> FloatArray:
    return np.concatenate(list(parts))
