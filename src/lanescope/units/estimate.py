"""A number with the interval in which it lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


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
