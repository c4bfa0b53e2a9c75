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
from math import inf

from lanescope.calls import checked
from lanescope.errors import InputError
from lanescope.units.bandwidth import bytes_a_second, transfer_seconds
from lanescope.units.sizes import Bytes

#: Compressing shall save so much time at least that a small error does not make it a loss.
MARGIN = 0.95
DEFAULT_SLAB_BYTES = 8 << 20
#: Beyond it nobody asks.
_MOST_BYTES = 1 << 50


@dataclass(frozen=True, slots=True)
@checked
class LinkCost:
    """L in GB/s, and a in seconds."""

    gbs: float
    first_seconds: float = 0.0


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
    fill, working, crossing = _parts(size, ratio, codec, link)
    return link.first_seconds + codec.start_seconds + fill + max(working, crossing)


def slowness(size: float, ratio: float, codec: CodecCost, link: LinkCost, seconds: float) -> float:
    """Return how many times as slow as `codec` one is by which T_z is `seconds`; 0 or more.

    One transfer cannot tell C from D, so both are taken to be off by the same factor.
    """
    fill, working, crossing = _parts(size, ratio, codec, link)
    left = max(seconds - link.first_seconds - codec.start_seconds, 0.0)
    by_codec = left / (fill + working)
    return by_codec if by_codec * working >= crossing else max(left - crossing, 0.0) / fill


@checked
def break_even(
    ratio: float, codec: CodecCost, link: LinkCost, margin: float = MARGIN
) -> int | None:
    """Return from how many bytes on compressing pays, that is T_z < `margin` T_raw; None: never.

    The difference of both is above zero for no bytes and consists of two straight lines, the
    second not steeper than the first, so that it crosses zero once at most.
    """

    def pays(size: int) -> bool:
        return compressed_seconds(size, ratio, codec, link) < margin * raw_seconds(size, link)

    if not pays(_MOST_BYTES):
        return None
    low, high = 0, _MOST_BYTES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def _parts(
    size: float, ratio: float, codec: CodecCost, link: LinkCost
) -> tuple[float, float, float]:
    """Return the seconds of the first and last slab, of the slower codec, and of the link."""
    if not ratio > 0:
        raise InputError(f"a ratio cannot be {ratio:g}; give bytes of the array by the stream's")
    c, d = bytes_a_second(codec.compress_gbs), bytes_a_second(codec.decompress_gbs)
    fill = min(codec.slab_bytes, size) * (1 / c + 1 / d)
    crossing = 0.0 if ratio == inf else transfer_seconds(size / ratio, link.gbs)
    return fill, size / min(c, d), crossing
