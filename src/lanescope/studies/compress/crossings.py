"""Transfers measured as they are and compressed, as ``benchmarks/compress`` keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lanescope.codec.fields import Positive, PositiveInt, build
from lanescope.codec.files import fields_of, read_json
from lanescope.compression.costs import MARGIN
from lanescope.compression.device import Choice
from lanescope.compression.stream import Codec
from lanescope.results.statistics import median_interval
from lanescope.units.bandwidth import bandwidth_gbs
from lanescope.units.estimate import Estimate


def speed(size: int, seconds: Sequence[float]) -> Estimate:
    """Return GB/s of `size` bytes: by the median time, and its 95 % interval."""
    times = np.array(seconds)
    low, high = median_interval(times)
    parts = (float(np.median(times)), high, low)
    return Estimate(*(bandwidth_gbs(size, one) for one in parts))


@dataclass(frozen=True, slots=True)
class Crossing:
    """One array over one path by one codec, and as it is in turns with that.

    Attributes
    ----------
    path, data
        Such as ``p2p``, and what the array holds.
    bytes, wire_bytes
        Of the array, and that crossed the link compressed.
    sms
        Multiprocessors that the codec may use on each side; 0: all.
    raw_seconds, seconds
        Every sample, as it is and compressed, in turns.
    dimensionality
        Of GFC.
    """

    path: str
    data: str
    codec: Codec
    bytes: PositiveInt
    sms: int
    raw_seconds: tuple[Positive, ...]
    seconds: tuple[Positive, ...]
    wire_bytes: PositiveInt
    dimensionality: int = 1

    def __post_init__(self) -> None:
        if not self.raw_seconds or not self.seconds:
            raise ValueError("a transfer has no times")

    @property
    def choice(self) -> Choice:
        """The codec with its dimensionality."""
        return Choice(self.codec, self.dimensionality)

    @property
    def ratio(self) -> float:
        """Bytes of the array over those that crossed the link."""
        return self.bytes / self.wire_bytes

    @property
    def gbs(self) -> Estimate:
        """Effective data rate compressed: GB/s of the array, median and its 95 % interval."""
        return speed(self.bytes, self.seconds)

    @property
    def raw_gbs(self) -> Estimate:
        """Data rate as it is: GB/s, median and its 95 % interval."""
        return speed(self.bytes, self.raw_seconds)

    @property
    def speedup(self) -> Estimate:
        """How many times as fast as it is: by the medians, and what their intervals allow."""
        coded, raw = self.gbs, self.raw_gbs
        return Estimate(coded.value / raw.value, coded.low / raw.high, coded.high / raw.low)

    @property
    def pays(self) -> bool:
        """Whether it took less than `MARGIN` of the time, by the medians."""
        return MARGIN * self.speedup.value > 1


def read_crossings(path: Path) -> tuple[Crossing, ...]:
    """Return the rows of a file; what is there beside their fields is not looked at.

    Parameters
    ----------
    path
        Of ``benchmarks/compress/channel.py``, or a ``compress.json`` of ``lanescope bench
        compress``.

    Raises
    ------
    InputError
        If it cannot be read, or is no such file.
    """
    told = read_json(path)
    with fields_of(path, "name what benchmarks/compress/channel.py wrote, or a compress.json"):
        if isinstance(told, dict) and "rows" in told:
            return build(_Rows, told, others=True).rows
        arrays = build(_Arrays, told, others=True).arrays
        return tuple(one for array in arrays for one in array.crossings)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A file of ``benchmarks/compress``."""

    rows: tuple[Crossing, ...]


@dataclass(frozen=True, slots=True)
class _Array:
    """An array of a ``compress.json``."""

    crossings: tuple[Crossing, ...] = ()


@dataclass(frozen=True, slots=True)
class _Arrays:
    """A ``compress.json``."""

    arrays: tuple[_Array, ...]
