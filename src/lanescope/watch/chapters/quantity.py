"""A number of a reproduction: in the middle of its repetitions, with the ends, unit and method."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quantity:
    """The median of some repetitions, and their range.

    Attributes
    ----------
    unit
        ``s``, ``B``, ``GB/s``, or ``share`` (1 is all).
    method
        How one of them was found, as a sentence.
    low, high
        The least and the most of `n` of them.
    """

    value: float
    unit: str
    method: str
    low: float
    high: float
    n: int


def quantity(values: Iterable[float | None], unit: str, method: str) -> Quantity | None:
    """Return the median and range of what is known; None where nothing is.

    >>> quantity([2.0, None, 1.0, 4.0], "s", "By hand.").value
    2.0
    """
    known = [float(v) for v in values if v is not None and math.isfinite(v)]
    if not known:
        return None
    return Quantity(statistics.median(known), unit, method, min(known), max(known), len(known))
