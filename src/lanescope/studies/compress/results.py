"""What codecs made of arrays: sizes, raw times, and speeds from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lanescope.codec.fields import Positive, PositiveInt
from lanescope.compression.rule import MARGIN
from lanescope.compression.stream import Codec
from lanescope.results import median_interval
from lanescope.units.estimate import Estimate
from lanescope.units.sizes import bandwidth_gbs, transfer_seconds


@dataclass(frozen=True, slots=True)
class CodecChoice:
    """A codec, and from how many values before GFC predicts."""

    codec: Codec
    dimensionality: int = 1

    @property
    def name(self) -> str:
        """As people read it; raw codes no values, only blocks of one value become small."""
        if self.codec is Codec.RAW:
            return "constant blocks"
        return f"gfc dim {self.dimensionality}" if self.codec is Codec.GFC else str(self.codec)


def speed(size: int, seconds: Sequence[float]) -> Estimate:
    """Return GB/s of `size` bytes: by the median time, and its 95 % interval."""
    times = np.array(seconds)
    low, high = median_interval(times)
    parts = (float(np.median(times)), high, low)
    return Estimate(*(bandwidth_gbs(size, one) for one in parts))


class _Coded:
    """What was coded by a codec, and by which dimensionality."""

    __slots__ = ()
    codec: Codec
    dimensionality: int

    @property
    def choice(self) -> CodecChoice:
        """The codec with its dimensionality."""
        return CodecChoice(self.codec, self.dimensionality)


@dataclass(frozen=True, slots=True)
class RawTimes:
    """Raw times of one number of threads, on a GPU of SMs.

    Attributes
    ----------
    threads
        On a GPU SMs; 0: all.
    timed_bytes
        That were compressed each time: of the array, of its first part, or on a GPU more than it
        has, where it stands there several times.
    compress_seconds, decompress_seconds
        Every sample, in order.
    """

    threads: int
    timed_bytes: PositiveInt
    compress_seconds: tuple[Positive, ...]
    decompress_seconds: tuple[Positive, ...]

    def __post_init__(self) -> None:
        if not self.compress_seconds or not self.decompress_seconds:
            raise ValueError("a codec has no times")

    @property
    def compress_gbs(self) -> Estimate:
        """GB/s of the array: the median, and its 95 % interval."""
        return speed(self.timed_bytes, self.compress_seconds)

    @property
    def decompress_gbs(self) -> Estimate:
        """GB/s of the array: the median, and its 95 % interval."""
        return speed(self.timed_bytes, self.decompress_seconds)


@dataclass(frozen=True, slots=True)
class Measured(_Coded):
    """One codec on one array, every byte of which came back.

    Attributes
    ----------
    device
        Where, such as ``cpu``.
    stored_bytes, bytes
        Of the stream, and of the array.
    coded_blocks, blocks
        Blocks of 64 KiB in the stream that are coded, and all; the others are as they are or of
        one value.
    timings
        By number of threads; empty where only the ratio was requested.
    """

    device: str
    codec: Codec
    dimensionality: int
    stored_bytes: PositiveInt
    coded_blocks: int
    blocks: int
    timings: tuple[RawTimes, ...] = ()
    bytes: int = 0  # files of earlier versions have it at the array alone

    @property
    def ratio(self) -> float:
        """Bytes of the array over those of the stream."""
        return self.bytes / self.stored_bytes

    @property
    def data_rate_saving(self) -> float:
        """Share of the bytes that need not cross a link; negative where it is more of them.

        Anton, Bandwidth enhancement between GPUs on the PCI bus (2015), equation 1: 1 -
        compressed data rate / uncompressed data rate. The paper's -6.15 % of random data is
        this; what its text calls a DRS of 1.29 is the ratio.
        """
        return 1 - self.stored_bytes / self.bytes


@dataclass(frozen=True, slots=True)
class MeasuredKernels(_Coded):
    """One codec on one array within a GPU's memory, every byte of which came back.

    Attributes
    ----------
    gpu
        As CUDA counts them.
    bytes, stored_bytes
        Of what was timed, which is the array's first part or the array several times over, and of
        its blocks' entries and payloads.
    timings
        By number of SMs, all of them last.
    """

    gpu: int
    codec: Codec
    dimensionality: int
    bytes: PositiveInt
    stored_bytes: PositiveInt
    timings: tuple[RawTimes, ...]

    def __post_init__(self) -> None:
        if not self.timings:
            raise ValueError("kernels have no times")

    @property
    def ratio(self) -> float:
        """Bytes that were timed over those that are stored."""
        return self.bytes / self.stored_bytes


@dataclass(frozen=True, slots=True)
class Crossing(_Coded):
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


@dataclass(frozen=True, slots=True)
class ArrayResult:
    """All codecs on one array.

    Attributes
    ----------
    codecs
        One for each codec, timed; of GFC the dimensionality that makes the array smallest.
    dimensionalities
        GFC's others and the best one, in order, not timed; empty where GFC takes no such values.
    gpu
        The same codecs, of GFC the best dimensionality, by a GPU's kernels within its memory.
    crossings
        Over the links of that GPU, compressed in turns with the raw copy.
    gpu_notes
        A sentence for each thing that could not be measured there, and why.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: PositiveInt
    made_up: bool
    note: str
    codecs: tuple[Measured, ...]
    dimensionalities: tuple[Measured, ...]
    gpu: tuple[MeasuredKernels, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    gpu_notes: tuple[str, ...] = ()


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
