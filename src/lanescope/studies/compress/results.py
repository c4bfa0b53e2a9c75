"""What codecs made of arrays: sizes, raw times, and speeds from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lanescope.compression.device import Choice
from lanescope.compression.stream import Codec
from lanescope.studies.compress.crossings import Crossing, speed
from lanescope.units.bandwidth import bandwidth_gbs, transfer_seconds
from lanescope.units.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Timing:
    """Raw times of one number of threads, on a GPU of SMs.

    Attributes
    ----------
    threads
        On a GPU SMs; 0: all.
    bytes
        That were compressed each time: of the array, of its first part, or on a GPU more than it
        has, where it stands there several times.
    compress_seconds, decompress_seconds
        Every sample, in order.
    """

    threads: int
    bytes: int
    compress_seconds: tuple[float, ...]
    decompress_seconds: tuple[float, ...]

    @property
    def compress_gbs(self) -> Estimate:
        """GB/s of the array: the median, and its 95 % interval."""
        return speed(self.bytes, self.compress_seconds)

    @property
    def decompress_gbs(self) -> Estimate:
        """GB/s of the array: the median, and its 95 % interval."""
        return speed(self.bytes, self.decompress_seconds)


@dataclass(frozen=True, slots=True)
class Measured:
    """One codec on one array, every byte of which came back.

    Attributes
    ----------
    device
        Where, such as ``cpu``.
    bytes, stored_bytes
        Of the array, and of the stream.
    coded_blocks, blocks
        Blocks of 64 KiB in the stream that are coded, and all; the others are as they are or of
        one value.
    timings
        By number of threads; empty where only the ratio was asked for.
    """

    device: str
    choice: Choice
    bytes: int
    stored_bytes: int
    coded_blocks: int
    blocks: int
    timings: tuple[Timing, ...] = ()

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
class Kernels:
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
    choice: Choice
    bytes: int
    stored_bytes: int
    timings: tuple[Timing, ...]

    @property
    def ratio(self) -> float:
        """Bytes that were timed over those that are stored."""
        return self.bytes / self.stored_bytes


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
    bytes: int
    made_up: bool
    note: str
    codecs: tuple[Measured, ...]
    dimensionalities: tuple[Measured, ...]
    gpu: tuple[Kernels, ...] = ()
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
