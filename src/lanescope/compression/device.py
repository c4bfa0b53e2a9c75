"""Where arrays are compressed, and how that is timed: this host's CPUs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lanescope.compression.arrays import Values
from lanescope.compression.stream import Codec, Stream


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
    """This host's CPUs, by its monotonic clock; memory for the stream is there before."""

    name = "cpu"

    def __init__(self, threads: int = 0) -> None:
        most = threads or min(len(os.sched_getaffinity(0)), 16)
        self.threads = tuple(dict.fromkeys((1, most)))
        self._room = np.empty(0, np.uint8)

    def takes(self, codec: Codec, dtype: str) -> bool:
        """Return whether a codec takes values of a type."""
        from lanescope._core import native

        kind = native.Dtype["bytes" if dtype == "uint8" else dtype]
        return native.can_compress(native.Codec[codec], kind)

    def compress(
        self, values: Values, dtype: str, choice: Choice, threads: int
    ) -> tuple[Stream, float]:
        """Return the stream, which the next call overwrites, and the seconds that it took."""
        from lanescope.compression.codec import compress, most_bytes

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
        from lanescope.compression.codec import decompress

        begin = time.perf_counter()
        decompress(stream, out=out, threads=threads)
        return time.perf_counter() - begin
