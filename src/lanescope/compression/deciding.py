"""Who decides whether an array travels compressed, and learns from what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lanescope.calls import checked
from lanescope.errors import InputError


@dataclass(frozen=True, slots=True)
class Transfer:
    """An array that is about to cross a link.

    Attributes
    ----------
    tag
        What the user calls arrays of its kind; empty without a name.
    path
        The link and the direction: ``g0>g1``, ``g0>host``, ``host>g0``.
    dtype
        Of the values, as NumPy names it; ``bfloat16`` for that.
    bytes
        Of the array.
    """

    tag: str
    path: str
    dtype: str
    bytes: int


@dataclass(frozen=True, slots=True)
@checked
class Decision:
    """How an array is to travel.

    Attributes
    ----------
    codec
        A name of `Codec`, or ``auto``: the channel looks at the array.
    dimensionality
        Of GFC: from how many values before a value is predicted, 1 to 32.
    raw_seconds, compressed_seconds
        What it would take either way, as predicted; None where nothing is known.
    reason
        One line.
    """

    compress: bool
    codec: str
    dimensionality: int
    raw_seconds: float | None
    compressed_seconds: float | None
    reason: str

    def __post_init__(self) -> None:
        if not 1 <= self.dimensionality <= 32:
            raise InputError(
                f"Decision: dimensionality cannot be {self.dimensionality}; give 1 to 32"
            )

    @property
    def is_trial(self) -> bool:
        """Whether the rule made it to learn from what becomes of the transfer."""
        return self.compress and "a trial" in self.reason  # as the rule says it


def decided(
    compress: bool,
    codec: str,
    dimensionality: int = 1,
    raw_seconds: float | None = None,
    compressed_seconds: float | None = None,
    reason: str = "",
) -> Decision:
    """Return a decision of lanescope's own, whose parts need no check: that takes 10 us."""
    made = object.__new__(Decision)
    put = object.__setattr__  # it is frozen
    put(made, "compress", compress)
    put(made, "codec", codec)
    put(made, "dimensionality", dimensionality)
    put(made, "raw_seconds", raw_seconds)
    put(made, "compressed_seconds", compressed_seconds)
    put(made, "reason", reason)
    return made


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a transfer.

    Attributes
    ----------
    seconds
        From its first to its last step on the devices, by their clock.
    raw_bytes, wire_bytes
        Of the array, and what crossed the link.
    compressed
        Whether it was: also what shall be compressed may have to travel as it is.
    """

    seconds: float
    raw_bytes: int
    wire_bytes: int
    compressed: bool


class Decider(Protocol):
    """Decides for each transfer, and is told what became of it; called by several threads."""

    def decide(self, transfer: Transfer) -> Decision:
        """Return how an array is to travel."""
        ...

    def learn(self, transfer: Transfer, decision: Decision, outcome: Outcome) -> None:
        """Take in what became of a transfer; in the order in which transfers end."""
        ...


@dataclass(frozen=True, slots=True)
class Sampled:
    """What some blocks of an array become by a codec.

    Attributes
    ----------
    codec
        A name of `Codec`.
    dimensionality
        Of GFC, with which they become smallest.
    wire_share
        Their bytes on the link over those of the array.
    """

    codec: str
    dimensionality: int
    wire_share: float


@runtime_checkable
class SamplingDecider(Decider, Protocol):
    """A decider for which channels look at some blocks of arrays."""

    def wants_sample(self, transfer: Transfer) -> bool:
        """Return whether to look at an array about which `decide` is called next."""
        ...

    def take_sample(self, transfer: Transfer, sampled: Sequence[Sampled]) -> None:
        """Take in what it becomes: later, as nothing waits for it; empty if it could not be had."""
        ...


@dataclass(frozen=True, slots=True)
@checked
class Always:
    """Decides the same for every transfer."""

    compress: bool

    def decide(self, transfer: Transfer) -> Decision:
        """Return what was asked for."""
        return _ALWAYS[self.compress]

    def learn(self, transfer: Transfer, decision: Decision, outcome: Outcome) -> None:
        """Learn nothing."""


_ALWAYS = {
    compress: Decision(
        compress, "auto", 1, None, None, f"compression is {'on' if compress else 'off'}"
    )
    for compress in (False, True)
}
