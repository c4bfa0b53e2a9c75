"""How small codecs make an array, and how fast: measured, and every byte compared.

With them stand arrays that are made up, the same each time, for where nobody names any.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

# Now, and not at the first example: a Ctrl-C while NumPy loads this part of it is lost in there.
from numpy.random import Generator, default_rng

from lanescope._core import native
from lanescope.compression.arrays import ArrayEntry, Values, storage
from lanescope.compression.codec import compress, decompress, most_bytes
from lanescope.compression.stream import Codec, Stream, describe
from lanescope.engine.sampling import Plan, sample_call
from lanescope.errors import InputError, LanescopeError
from lanescope.studies.compress.results import ArrayResult, CodecChoice, Measured, RawTimes

#: Of a longer array so many bytes are timed, its first; all of them are compressed and compared.
MOST_TIMED_BYTES = 256 << 20
#: What memory holds that values shall be written to: so none is taken for written that is not.
_UNWRITTEN = 0xA5
_SEED = 7
#: Of each array that is made up.
DEFAULT_BYTES = 16 << 20


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
        self, values: Values, dtype: str, choice: CodecChoice, threads: int
    ) -> tuple[Stream, float]:
        """Return the stream, and the seconds that it took."""

    def decompress(self, stream: Stream, out: Values, threads: int) -> float:
        """Fill `out`, and return the seconds that it took."""


class HostDevice:
    """This host's CPUs, by its monotonic clock; memory for the stream is there before."""

    name = "cpu"

    def __init__(self, threads: int = 0) -> None:
        most = threads or min(len(os.sched_getaffinity(0)), 16)
        self.threads = tuple(dict.fromkeys((1, most)))
        self._room = np.empty(0, np.uint8)

    def takes(self, codec: Codec, dtype: str) -> bool:
        """Return whether a codec takes values of a type."""
        kind = native.Dtype["bytes" if dtype == "uint8" else dtype]
        return native.can_compress(native.Codec[codec], kind)

    def compress(
        self, values: Values, dtype: str, choice: CodecChoice, threads: int
    ) -> tuple[Stream, float]:
        """Return the stream, which the next call overwrites, and the seconds that it took."""
        most = most_bytes(values.nbytes, values.ndim)
        if len(self._room) < most:
            self._room = np.zeros(most, np.uint8)
        begin = time.perf_counter()
        stream = compress(
            values,
            choice.codec,
            dtype=dtype,
            dimensionality=choice.dimensionality,
            threads=threads,
            out=self._room,
        )
        return stream, time.perf_counter() - begin

    def decompress(self, stream: Stream, out: Values, threads: int) -> float:
        """Fill `out`, and return the seconds that it took."""
        begin = time.perf_counter()
        decompress(stream, out=out, threads=threads)
        return time.perf_counter() - begin


class MismatchError(LanescopeError):
    """An array that was compressed did not come back as it was."""

    exit_code = 1


def array_results(
    entry: ArrayEntry,
    device: Device,
    dimensionalities: Sequence[int],
    budget_seconds: float | None,
    on_codec: Callable[[str], object] = lambda name: None,
    codecs: Collection[Codec] | None = None,
) -> Iterator[ArrayResult]:
    """Measure every codec that takes an array's values; yield what there is after each.

    Parameters
    ----------
    budget_seconds
        For the samples of each direction and number of threads, at most, by the stop rule of
        `Plan`. None: no speeds, only what it becomes.
    on_codec
        Is told what is done next.
    codecs
        Which to measure besides raw; None: all.

    Raises
    ------
    MismatchError
        If an array does not come back as it was.
    InputError
        If there is no memory for it.
    """
    try:
        yield from _measure(entry, device, dimensionalities, budget_seconds, on_codec, codecs)
    except MemoryError as error:
        raise InputError(
            f"there is no memory to compress the {entry.bytes} bytes of {entry.name} and to get "
            "them back beside them; give a smaller array"
        ) from error


def _measure(
    entry: ArrayEntry,
    device: Device,
    dimensionalities: Sequence[int],
    budget_seconds: float | None,
    on_codec: Callable[[str], object],
    wanted: Collection[Codec] | None,
) -> Iterator[ArrayResult]:
    values = entry.load()
    codecs: list[Measured] = []
    tried: tuple[Measured, ...] = ()
    for codec in Codec:
        if wanted is not None and codec not in (Codec.RAW, *wanted):
            continue
        if not device.takes(codec, entry.dtype):
            continue
        on_codec(str(codec))
        sizes = dimensionalities if codec is Codec.GFC else (1,)
        measured = tuple(verified(values, entry, device, CodecChoice(codec, n)) for n in sizes)
        if codec is Codec.GFC:
            tried = measured
        best = min(measured, key=lambda one: one.stored_bytes)
        if budget_seconds is not None:
            best = _timed(best, values, entry, device, budget_seconds)
        codecs.append(best)
        yield ArrayResult(
            entry.name,
            entry.dtype,
            entry.shape,
            entry.bytes,
            entry.made_up,
            entry.note,
            tuple(codecs),
            tried,
        )


def verified(values: Values, entry: ArrayEntry, device: Device, choice: CodecChoice) -> Measured:
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
    about = describe(stream)
    blocks = about.raw_blocks + about.constant_blocks + about.coded_blocks
    return Measured(
        device.name,
        choice.codec,
        choice.dimensionality,
        len(stream),
        about.coded_blocks,
        blocks,
        bytes=entry.bytes,
    )


def _timed(
    best: Measured, values: Values, entry: ArrayEntry, device: Device, budget_seconds: float
) -> Measured:
    part = values.reshape(-1)[: max(MOST_TIMED_BYTES // values.itemsize, 1)]
    timings = (
        _timing(part, entry, device, best.choice, threads, budget_seconds)
        for threads in device.threads
    )
    return replace(best, timings=tuple(timings))


def _timing(
    part: Values,
    entry: ArrayEntry,
    device: Device,
    choice: CodecChoice,
    threads: int,
    budget: float,
) -> RawTimes:
    stream: Stream | None = None

    def compress() -> float:
        nonlocal stream
        stream = None  # or the next one takes new memory while this is held
        stream, seconds = device.compress(part, entry.dtype, choice, threads)
        return seconds

    compress()  # what the first time takes more is no part of it
    plan = Plan(budget_seconds=budget)
    compressing = tuple(map(float, sample_call(compress, plan)))
    out = _room(part)

    def decompress() -> float:
        assert stream is not None, "it was compressed"
        return _decompress(device, stream, out, entry, choice, threads)

    decompress()
    out.view(np.uint8)[...] = _UNWRITTEN
    decompressing = tuple(map(float, sample_call(decompress, plan)))
    _require_same(part, out, entry, choice, threads)
    return RawTimes(threads, part.nbytes, compressing, decompressing)


def _room(values: Values) -> Values:
    out = np.empty(values.shape, values.dtype)
    out.reshape(-1).view(np.uint8)[...] = _UNWRITTEN
    return out


def _decompress(
    device: Device,
    stream: Stream,
    out: Values,
    entry: ArrayEntry,
    choice: CodecChoice,
    threads: int,
) -> float:
    try:
        return device.decompress(stream, out, threads)
    except InputError as error:  # it was made a moment ago: nobody has changed it
        raise MismatchError(
            f"DATA WERE LOST: what {choice.name} made of {entry.name} cannot be decompressed on "
            f"{threads} threads: {error}; do not use this codec, and report it with the file"
        ) from error


def _require_same(
    values: Values, out: Values, entry: ArrayEntry, choice: CodecChoice, threads: int
) -> None:
    before, after = (one.reshape(-1).view(np.uint8) for one in (values, out))
    if np.array_equal(before, after):
        return
    wrong: Any = np.flatnonzero(before != after)
    raise MismatchError(
        f"DATA WERE CHANGED: {len(wrong)} of {len(before)} bytes of {entry.name} did not come back "
        f"from {choice.name} on {threads} threads as they were, the first at {int(wrong[0])}; do "
        "not use this codec, and report it with the file"
    )


def example_arrays(size: int = DEFAULT_BYTES) -> tuple[ArrayEntry, ...]:
    """Return the examples, each of about so many bytes, at least one value."""
    made: tuple[tuple[str, str, Callable[[int], Values]], ...] = (
        ("constant fp32", "float32", lambda n: np.full(n, 1.5, np.float32)),
        ("random bits, fp64", "float64", _random_bits),
        ("smooth fp32", "float32", lambda n: _smooth(n).astype(np.float32)),
        ("smooth fp64", "float64", _smooth),
        ("N(0,1) bf16", "bfloat16", _normal_bf16),
        ("ReLU of N(0,1) bf16", "bfloat16", _relu_bf16),
        ("random walk int32", "int32", _walk),
        ("temperatures fp64", "float64", _temperatures),
    )
    entries = []
    for name, dtype, make in made:
        count = max(size // storage(dtype).itemsize, 1)
        entries.append(ArrayEntry(name, dtype, (count,), _later(make, count), made_up=True))
    return tuple(entries)


def _later(make: Callable[[int], Values], count: int) -> Callable[[], Values]:
    return lambda: make(count)


def _random() -> Generator:
    return default_rng(_SEED)


def _random_bits(count: int) -> Values:
    return _random().integers(0, 1 << 64, count, np.uint64).view(np.float64)


def _smooth(count: int) -> Values:
    """Waves of some thousand values, and noise of a millionth as a sensor or a solver has it."""
    at = np.arange(count)
    waves = np.sin(at / 1000) + 0.3 * np.sin(at / 77)
    return np.asarray(waves + 1e-6 * _random().standard_normal(count))


def _normal_bf16(count: int) -> Values:
    bits = _random().standard_normal(count, np.float32).view(np.uint32)
    # to the nearest, ties to even
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _relu_bf16(count: int) -> Values:
    """Activations: every second one is 0."""
    values = _normal_bf16(count)
    return np.where(values >> 15 == 0, values, np.uint16(0))


def _walk(count: int) -> Values:
    return np.cumsum(_random().integers(-8, 9, count, np.int32), dtype=np.int32)


def _temperatures(count: int) -> Values:
    """One decimal, of years of days as a weather station has them."""
    year = 12 * np.sin(np.arange(count) * (2 * np.pi / 365))
    return np.asarray(np.round(10 + year + 6 * _random().standard_normal(count), 1))
