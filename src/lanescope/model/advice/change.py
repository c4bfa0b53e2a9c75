"""A change of a program that is advised, or is not worth it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lanescope.model.overlap.methods import Method
from lanescope.model.transfer.estimate import Estimate


class Step(StrEnum):
    """What is done to the program; a change takes one or several."""

    PIN = "pin"
    ASYNC = "async"
    BATCH = "batch"
    STREAMS = "streams"
    ROUNDS = "rounds"
    MAPPED = "mapped"
    HYBRID = "hybrid"
    PLACE = "place"


#: Of these a program can take one: they are different ways to move the same data.
EXCLUSIVE = (Step.STREAMS, Step.ROUNDS, Step.MAPPED, Step.HYBRID)


@dataclass(frozen=True, slots=True)
class Change:
    """One way to change a phase; all its times but none of the gain's base are predicted.

    Attributes
    ----------
    steps
        What is done, together.
    sentence
        The same in words.
    method, streams
        What the round is afterwards; None where that stays as it is.
    seconds
        Predicted time of a round, with its interval; by the phase's own error at least.
    gain_seconds
        Of a round: measured before less predicted after; its interval is of both.
    run_gain_seconds
        The same over all rounds of the run.
    worth
        Whether it is advised.
    why
        Why it is not; None where it is.
    conditions
        What has to hold for it to be right, and to gain this.
    basis
        How it was predicted.
    """

    steps: tuple[Step, ...]
    sentence: str
    method: Method | None
    streams: int
    seconds: Estimate
    gain_seconds: Estimate
    run_gain_seconds: Estimate
    worth: bool
    why: str | None
    conditions: tuple[str, ...]
    basis: str

    @property
    def kind(self) -> str:
        """The steps as a word that stays the same, such as ``pin+streams``."""
        return "+".join(self.steps)

    def excludes(self, other: Change) -> bool:
        """Whether the program can take this one or the other, and not both."""
        mine, theirs = (next((s for s in c.steps if s in EXCLUSIVE), None) for c in (self, other))
        return mine is not None and theirs is not None and self is not other


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change before its gain is known."""

    steps: tuple[Step, ...]
    sentence: str
    conditions: tuple[str, ...]
