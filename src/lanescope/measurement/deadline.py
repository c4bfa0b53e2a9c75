"""Wall time that a whole command may take, and how cases share what is left of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from lanescope.errors import NotMeasuredError

#: Kept for storing the run and for its page: so much, and so much for each case.
_END_SECONDS = 0.6
_END_SECONDS_A_CASE = 0.002


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
