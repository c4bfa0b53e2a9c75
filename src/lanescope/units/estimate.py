"""Numbers with the interval in which they lie, and curves through such numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from math import log


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the 95 % interval in which it lies; its name says the unit.

    A published number without an interval has all three the same.
    """

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value:g} is not within {self.low:g} to {self.high:g}")

    @property
    def is_exact(self) -> bool:
        """Whether nothing is known of it but the number."""
        return self.low == self.high

    @classmethod
    def exactly(cls, value: float) -> Estimate:
        """Return a number that nothing is known of besides it."""
        return cls(value, value, value)

    def map(self, change: Callable[[float], float]) -> Estimate:
        """Return the estimate of a rising function of this number."""
        return Estimate(change(self.value), change(self.low), change(self.high))


@dataclass(frozen=True, slots=True)
class TimeCurve:
    """Seconds by size, measured at some sizes.

    Attributes
    ----------
    sizes
        Bytes, rising.
    seconds
        One for each size.
    """

    sizes: tuple[int, ...]
    seconds: tuple[Estimate, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.seconds) or len(self.sizes) < 2:
            raise ValueError("a curve needs two or more sizes, and as many times")
        if any(a >= b for a, b in zip(self.sizes, self.sizes[1:], strict=False)):
            raise ValueError("the sizes of a curve rise")

    def at(self, size: float) -> Estimate:
        """Return the time of a size in bytes.

        Between two sizes the time is a straight line, as ``L + o + B * G`` is. Below the
        smallest it is the smallest's; above the largest it grows as from the last but one to it.
        """
        if size <= self.sizes[0]:
            return self.seconds[0]
        right = min(bisect_right(self.sizes, size), len(self.sizes) - 1)
        a, b = self.sizes[right - 1], self.sizes[right]
        left, here = self.seconds[right - 1], self.seconds[right]
        if size > b:
            return _beyond(size, (a, left), (b, here))
        return between(left, here, (size - a) / (b - a))


@dataclass(frozen=True, slots=True)
class Surface:
    """Seconds by size and number of streams: a curve for each of some numbers.

    Attributes
    ----------
    streams
        Rising.
    curves
        One for each number of streams.
    """

    streams: tuple[int, ...]
    curves: tuple[TimeCurve, ...]

    def __post_init__(self) -> None:
        if len(self.streams) != len(self.curves) or not self.streams:
            raise ValueError("a surface needs a curve for each number of streams")
        if any(a >= b for a, b in zip(self.streams, self.streams[1:], strict=False)):
            raise ValueError("the numbers of streams of a surface rise")
        if self.streams[0] < 1:
            raise ValueError(f"a surface is of 1 stream or more, not of {self.streams[0]}")

    def at(self, size: float, streams: float) -> Estimate:
        """Return the time of a size in bytes, for so many streams.

        Between two numbers of streams it is a straight line in their logarithm; beyond them it is
        that of the nearest.
        """
        right = bisect_right(self.streams, streams)
        if right == 0 or right == len(self.streams):
            return self.curves[max(right - 1, 0)].at(size)
        a, b = self.streams[right - 1 : right + 1]
        here, there = (self.curves[place].at(size) for place in (right - 1, right))
        return between(here, there, log(streams / a) / log(b / a))


def between(one: Estimate, other: Estimate, part: float) -> Estimate:
    """Return what lies between two estimates: the first for a part of 0, the second for 1."""
    low, value, high = (x + (y - x) * part for x, y in zip(_three(one), _three(other), strict=True))
    return Estimate(value, min(low, value), max(high, value))


def _three(one: Estimate) -> tuple[float, float, float]:
    return one.low, one.value, one.high


def _beyond(
    size: float, last_but_one: tuple[int, Estimate], last: tuple[int, Estimate]
) -> Estimate:
    """Return the time of a size above all, from the slope between the two largest."""
    (a, left), (b, right) = last_but_one, last
    more = max(right.value - left.value, 0.0) / (b - a) * (size - b)
    scale = (right.value + more) / right.value
    return right.map(lambda seconds: seconds * scale)
