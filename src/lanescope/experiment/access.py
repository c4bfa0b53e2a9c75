"""Which addresses the repetitions of a copy, or its single loads, touch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lanescope.calls import checked
from lanescope.errors import InputError
from lanescope.units.sizes import Bytes


class Pattern(StrEnum):
    """How repetitions go through the memory that they walk over.

    ``repeated``: all at the same address.
    ``ascending``, ``descending``: block after block, and from the start again.
    ``random``: every block once, in random order, and so again.
    """

    REPEATED = "repeated"
    ASCENDING = "ascending"
    DESCENDING = "descending"
    RANDOM = "random"


class Caches(StrEnum):
    """What the CPU's caches hold when a repetition begins.

    ``warm``: what the repetitions before it left there.
    ``flushed``: nothing of the memory that it touches.
    """

    WARM = "warm"
    FLUSHED = "flushed"


@dataclass(frozen=True, slots=True)
@checked
class Access:
    """Which addresses are touched.

    Attributes
    ----------
    pattern
        See `Pattern`.
    span_bytes
        Memory that the repetitions walk over, in each array; None is no more
        than one repetition touches.
    stride_bytes
        From one load to the next, of loads that are taken one by one; None is
        one next to the other.
    caches
        See `Caches`.
    """

    pattern: Pattern = Pattern.REPEATED
    span_bytes: Bytes | None = None
    stride_bytes: Bytes | None = None
    caches: Caches = Caches.WARM

    def __post_init__(self) -> None:
        for name, value in (("span", self.span_bytes), ("stride", self.stride_bytes)):
            if value is not None and value < 1:
                raise InputError(f"a {name} of {value} bytes leads nowhere; give 1 B or more")


#: What a copy does that says nothing else.
PLAIN = Access()
