"""Arrays of one type together: what a codec makes of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lanescope.compression.results import ArrayResult, Measured
from lanescope.compression.stream import Codec
from lanescope.units.bandwidth import bandwidth_gbs, transfer_seconds


@dataclass(frozen=True, slots=True)
class Sum:
    """One codec on all arrays of a type; GFC each with its best dimensionality.

    Attributes
    ----------
    arrays
        How many.
    bytes, stored_bytes
        Of the arrays, and of their streams.
    compress_gbs, decompress_gbs
        With the most threads: all bytes over the sum of the times by the medians; None where some
        were not timed.
    """

    dtype: str
    device: str
    codec: Codec
    arrays: int
    bytes: int
    stored_bytes: int
    compress_gbs: float | None
    decompress_gbs: float | None

    @property
    def ratio(self) -> float:
        """Bytes of the arrays over those of the streams."""
        return self.bytes / self.stored_bytes


def sums_by_dtype(results: Sequence[ArrayResult]) -> tuple[Sum, ...]:
    """Return a sum for each codec of each type that two arrays or more have."""
    grouped: dict[tuple[str, str, Codec], list[Measured]] = {}
    for result in results:
        for one in result.codecs:
            grouped.setdefault((result.dtype, one.device, one.choice.codec), []).append(one)
    return tuple(_sum(*key, those) for key, those in grouped.items() if len(those) > 1)


def _sum(dtype: str, device: str, codec: Codec, those: Sequence[Measured]) -> Sum:
    size = sum(one.bytes for one in those)
    compress = decompress = None
    if all(one.timings for one in those):
        rates = [(one.bytes, one.timings[-1]) for one in those]
        compress = bandwidth_gbs(
            size, sum(transfer_seconds(b, t.compress_gbs.value) for b, t in rates)
        )
        decompress = bandwidth_gbs(
            size, sum(transfer_seconds(b, t.decompress_gbs.value) for b, t in rates)
        )
    stored = sum(one.stored_bytes for one in those)
    return Sum(dtype, device, codec, len(those), size, stored, compress, decompress)
