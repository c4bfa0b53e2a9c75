"""Which codec makes an array in a GPU's memory smallest: asked of some of its blocks."""

from __future__ import annotations

from lanescope._core import native
from lanescope.compression.gpu_arrays import GpuArray
from lanescope.compression.stream import Codec


def choose(array: GpuArray, stream: int) -> tuple[Codec, int]:
    """Return a codec and its dimensionality, or `Codec.RAW` where none makes it smaller.

    Copies up to eight blocks of 64 KiB to the host, behind what is on `stream`, and waits for
    them: for the first array of a kind, not for each.
    """
    codec, dimensionality = native.choose_codec(
        array.gpu, array.pointer, array.bytes, dtype_of(array.dtype), stream
    )
    return Codec(codec.name), dimensionality


def dtype_of(name: str) -> native.Dtype:
    """Return the core's name of a type of values."""
    return native.Dtype["bytes" if name == "uint8" else name]
