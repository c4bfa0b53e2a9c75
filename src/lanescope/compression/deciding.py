"""Who decides whether a transfer is compressed, and what such a decision is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Transfer:
    """One array that is about to cross a link.

    Attributes
    ----------
    tag
        What the user calls arrays like this one, such as ``gradients``; may be empty.
    path
        From where to where, such as ``g0->g1`` or ``g0->host``.
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
class Decision:
    """Whether a transfer is compressed, and why.

    Attributes
    ----------
    compress
        False: it is sent as it is.
    codec
        Its name; ``raw`` where it is not compressed.
    dimensionality
        Of GFC: from how many values before a value is predicted.
    raw_seconds, compressed_seconds
        Predicted; None: not known.
    reason
        One line, for people.
    """

    compress: bool
    codec: str
    dimensionality: int
    raw_seconds: float | None
    compressed_seconds: float | None
    reason: str

    @property
    def predicted_seconds(self) -> float | None:
        """What the transfer takes as decided; None: not known."""
        return self.compressed_seconds if self.compress else self.raw_seconds


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a transfer.

    Attributes
    ----------
    seconds
        From the first byte read to the last one in its place, as measured.
    raw_bytes, wire_bytes
        Of the array, and that crossed the link.
    compressed
        Whether it was; False also where it should have been and there was no room.
    """

    seconds: float
    raw_bytes: int
    wire_bytes: int
    compressed: bool


class Decider(Protocol):
    """Decides transfer by transfer, and is told what became of each."""

    def decide(self, transfer: Transfer) -> Decision:
        """Return whether to compress a transfer; quick, and never an error."""

    def learn(self, transfer: Transfer, decision: Decision, outcome: Outcome) -> None:
        """Take in what was measured, in any order and from any thread."""
