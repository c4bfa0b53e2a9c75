"""How small codecs make an array, and how fast: measured, and every byte compared."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lanescope.compression.arrays import Entry, Values
from lanescope.compression.stream import Codec, Stream, describe
from lanescope.errors import InputError, LanescopeError
from lanescope.measurement.bandwidth import bandwidth_gbs
from lanescope.measurement.statistics import MIN_SAMPLES, median_interval
from lanescope.model.transfer.estimate import Estimate

#: Of a longer array so many bytes are timed, its first; all of them are compressed and compared.
MOST_TIMED_BYTES = 256 << 20
_MOST_SAMPLES = 100
#: What memory holds that values shall be written to: so none is taken for written that is not.
_UNWRITTEN = 0xA5


class MismatchError(LanescopeError):
    """An array that was compressed did not come back as it was."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Choice:
    """A codec, and from how many values before GFC predicts."""

    codec: Codec
    dimensionality: int = 1

    @property
    def name(self) -> str:
        """As people read it; raw codes no values, only blocks of one value become small."""
        if self.codec is Codec.RAW:
            return "constant blocks"
        return f"gfc dim {self.dimensionality}" if self.codec is Codec.GFC else str(self.codec)


class Device(Protocol):
    """Where arrays are compressed, and by which clock that is timed.

    Attributes
    ----------
    name
        Such as ``cpu``.
    threads
        Numbers of threads, or of what else works at the same time, that are measured; rising.
    """

    name: str
    threads: tuple[int, ...]

    def takes(self, codec: Codec, dtype: str) -> bool:
        """Return whether a codec takes values of a type."""

    def compress(
        self, values: Values, dtype: str, choice: Choice, threads: int
    ) -> tuple[Stream, float]:
        """Return the stream, and the seconds that it took."""

    def decompress(self, stream: Stream, out: Values, threads: int) -> float:
        """Fill `out`, and return the seconds that it took."""


class HostDevice:
    """This host's CPUs, by its monotonic clock; new memory for the stream is part of the time."""

    name = "cpu"

    def __init__(self, threads: int = 0) -> None:
        most = threads or min(len(os.sched_getaffinity(0)), 16)
        self.threads = tuple(dict.fromkeys((1, most)))

    def takes(self, codec: Codec, dtype: str) -> bool:
        """Return whether a codec takes values of a type."""
        from lanescope._core import native

        kind = native.Dtype["bytes" if dtype == "uint8" else dtype]
        return native.can_compress(native.Codec[codec], kind)

    def compress(
        self, values: Values, dtype: str, choice: Choice, threads: int
    ) -> tuple[Stream, float]:
        """Return the stream, and the seconds that it took."""
        from lanescope.compression.codec import compress

        begin = time.perf_counter()
        stream = compress(
            values,
            choice.codec,
            dtype=dtype,
            dimensionality=choice.dimensionality,
            threads=threads,
        )
        return stream, time.perf_counter() - begin

    def decompress(self, stream: Stream, out: Values, threads: int) -> float:
        """Fill `out`, and return the seconds that it took."""
        from lanescope.compression.codec import decompress

        begin = time.perf_counter()
        decompress(stream, out=out, threads=threads)
        return time.perf_counter() - begin


@dataclass(frozen=True, slots=True)
class Timing:
    """Raw times of one number of threads.

    Attributes
    ----------
    bytes
        Of the array, or of its first part, that were compressed each time.
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
        return _speed(self.bytes, self.compress_seconds)

    @property
    def decompress_gbs(self) -> Estimate:
        """GB/s of the array: the median, and its 95 % interval."""
        return _speed(self.bytes, self.decompress_seconds)


def _speed(size: int, seconds: Sequence[float]) -> Estimate:
    times = np.array(seconds)
    low, high = median_interval(times)
    parts = (float(np.median(times)), high, low)
    return Estimate(*(bandwidth_gbs(size, one) for one in parts))


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
class ArrayResult:
    """All codecs on one array.

    Attributes
    ----------
    codecs
        One for each codec, timed; of GFC the dimensionality that makes the array smallest.
    dimensionalities
        GFC's others and the best one, in order, not timed; empty where GFC takes no such values.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    made_up: bool
    note: str
    codecs: tuple[Measured, ...]
    dimensionalities: tuple[Measured, ...]


def measure_array(
    entry: Entry,
    device: Device,
    dimensionalities: Sequence[int],
    budget_seconds: float,
    on_codec: Callable[[str], object] = lambda name: None,
) -> ArrayResult:
    """Measure every codec that takes an array's values.

    Parameters
    ----------
    budget_seconds
        For the samples of each direction and number of threads, about; six are taken at least.
    on_codec
        Is told what is done next.

    Raises
    ------
    MismatchError
        If an array does not come back as it was.
    """
    values = entry.load()
    codecs: list[Measured] = []
    tried: tuple[Measured, ...] = ()
    for codec in Codec:
        if not device.takes(codec, entry.dtype):
            continue
        on_codec(str(codec))
        sizes = dimensionalities if codec is Codec.GFC else (1,)
        measured = tuple(verified(values, entry, device, Choice(codec, n)) for n in sizes)
        if codec is Codec.GFC:
            tried = measured
        best = min(measured, key=lambda one: one.stored_bytes)
        codecs.append(_timed(best, values, entry, device, budget_seconds))
    return ArrayResult(
        entry.name,
        entry.dtype,
        entry.shape,
        entry.bytes,
        entry.made_up,
        entry.note,
        tuple(codecs),
        tried,
    )


def verified(values: Values, entry: Entry, device: Device, choice: Choice) -> Measured:
    """Compress a whole array and get it back, not timed.

    Raises
    ------
    MismatchError
        If a byte of it is another.
    """
    threads = device.threads[-1]
    stream, _ = device.compress(values, entry.dtype, choice, threads)
    out = _room(values)
    _decompress(device, stream, out, entry, choice, threads)
    _require_same(values, out, entry, choice, threads)
    told = describe(stream)
    blocks = told.raw_blocks + told.constant_blocks + told.coded_blocks
    return Measured(device.name, choice, entry.bytes, len(stream), told.coded_blocks, blocks)


def _timed(
    best: Measured, values: Values, entry: Entry, device: Device, budget_seconds: float
) -> Measured:
    part = values.reshape(-1)[: max(MOST_TIMED_BYTES // values.itemsize, 1)]
    timings = []
    for threads in device.threads:
        choice = best.choice
        streams: list[Stream] = []

        def compress(
            choice: Choice = choice, threads: int = threads, streams: list[Stream] = streams
        ) -> float:
            streams.clear()  # or the next one takes new memory while this is held
            stream, seconds = device.compress(part, entry.dtype, choice, threads)
            streams.append(stream)
            return seconds

        compress()  # what the first time takes more is no part of it
        compressing = tuple(_sampled(compress, budget_seconds))
        out = _room(part)
        stream = streams[0]
        _decompress(device, stream, out, entry, choice, threads)
        out.view(np.uint8)[...] = _UNWRITTEN

        def decompress(
            stream: Stream = stream,
            out: Values = out,
            choice: Choice = choice,
            threads: int = threads,
        ) -> float:
            return _decompress(device, stream, out, entry, choice, threads)

        decompressing = tuple(_sampled(decompress, budget_seconds))
        _require_same(part, out, entry, choice, threads)
        timings.append(Timing(threads, part.nbytes, compressing, decompressing))
    return Measured(
        best.device,
        best.choice,
        best.bytes,
        best.stored_bytes,
        best.coded_blocks,
        best.blocks,
        tuple(timings),
    )


def _sampled(sample: Callable[[], float], budget_seconds: float) -> Iterator[float]:
    spent, count = 0.0, 0
    while count < MIN_SAMPLES or (spent < budget_seconds and count < _MOST_SAMPLES):
        seconds = sample()
        spent, count = spent + seconds, count + 1
        yield seconds


def _room(values: Values) -> Values:
    out = np.empty(values.shape, values.dtype)
    out.reshape(-1).view(np.uint8)[...] = _UNWRITTEN
    return out


def _decompress(
    device: Device, stream: Stream, out: Values, entry: Entry, choice: Choice, threads: int
) -> float:
    try:
        return device.decompress(stream, out, threads)
    except InputError as error:  # it was made a moment ago: nobody has changed it
        raise MismatchError(
            f"DATA WERE LOST: what {choice.name} made of {entry.name} cannot be decompressed on "
            f"{threads} threads: {error}; do not use this codec, and report it with the file"
        ) from error


def _require_same(values: Values, out: Values, entry: Entry, choice: Choice, threads: int) -> None:
    before, after = (one.reshape(-1).view(np.uint8) for one in (values, out))
    if np.array_equal(before, after):
        return
    wrong: Any = np.flatnonzero(before != after)
    raise MismatchError(
        f"DATA WERE CHANGED: {len(wrong)} of {len(before)} bytes of {entry.name} did not come back from "
        f"{choice.name} on {threads} threads as they were, the first at {int(wrong[0])}; do not "
        "use this codec, and report it with the file"
    )
