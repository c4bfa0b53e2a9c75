"""What a transfer takes as it is and compressed, in slabs that overlap.

With B bytes in slabs of S bytes, a link of L bytes a second that takes a seconds besides, codecs
of C and D bytes a second that take t0 seconds to be started, and the ratio r:

    T_raw = a + B/L
    T_z = a + t0 + min(S, B) (1/C + 1/D) + max(B/C, B/(r L), B/D)

The second is never too short: the link's part of the first slab is counted twice where the link
is not the slowest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lanescope._core import native
from lanescope.calls import checked
from lanescope.errors import InputError
from lanescope.units.bandwidth import transfer_seconds
from lanescope.units.sizes import Bytes

#: Compressing shall save so much time at least that a small error does not make it a loss.
MARGIN: float = native.RULE_MARGIN
DEFAULT_SLAB_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
@checked
class LinkCost:
    """L in GB/s, and a in seconds."""

    gbs: float
    first_seconds: float = 0.0

    @property
    def parts(self) -> tuple[float, float]:
        """As the core takes it."""
        return self.gbs, self.first_seconds


@dataclass(frozen=True, slots=True)
@checked
class CodecCost:
    """What a codec costs.

    Attributes
    ----------
    compress_gbs, decompress_gbs
        C and D: GB/s of the array.
    start_seconds
        t0.
    slab_bytes
        S.
    """

    compress_gbs: float
    decompress_gbs: float
    start_seconds: float = 0.0
    slab_bytes: Bytes = DEFAULT_SLAB_BYTES

    @property
    def parts(self) -> tuple[float, float, float, int]:
        """As the core takes it."""
        return self.compress_gbs, self.decompress_gbs, self.start_seconds, self.slab_bytes

    def slower(self, times: float) -> CodecCost:
        """Return a codec that takes so many times as long for each byte."""
        return replace(
            self,
            compress_gbs=self.compress_gbs / times,
            decompress_gbs=self.decompress_gbs / times,
        )


def raw_seconds(size: float, link: LinkCost) -> float:
    """Return T_raw of so many bytes."""
    return link.first_seconds + transfer_seconds(size, link.gbs)


def compressed_seconds(size: float, ratio: float, codec: CodecCost, link: LinkCost) -> float:
    """Return T_z of so many bytes; a ratio of inf for arrays of which nothing crosses the link."""
    _require_ratio(ratio)
    return native.compressed_seconds(size, ratio, codec.parts, link.parts)


def slowness(size: float, ratio: float, codec: CodecCost, link: LinkCost, seconds: float) -> float:
    """Return how many times as slow as `codec` one is by which T_z is `seconds`; 0 or more.

    One transfer cannot tell C from D, so both are taken to be off by the same factor.
    """
    _require_ratio(ratio)
    return native.codec_slowness(size, ratio, codec.parts, link.parts, seconds)


@checked
def break_even(
    ratio: float, codec: CodecCost, link: LinkCost, margin: float = MARGIN
) -> int | None:
    """Return from how many bytes on compressing pays, that is T_z < `margin` T_raw; None: never."""
    _require_ratio(ratio)
    return native.break_even_bytes(ratio, codec.parts, link.parts, margin)


def _require_ratio(ratio: float) -> None:
    if not ratio > 0:
        raise InputError(f"a ratio cannot be {ratio:g}; give bytes of the array by the stream's")
