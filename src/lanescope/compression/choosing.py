"""Which codec makes an array in a GPU's memory smallest: asked of some of its blocks."""

from __future__ import annotations

import numpy as np

from lanescope._core import native
from lanescope.compression.codec import best_codec
from lanescope.compression.gpu_arrays import GpuArray
from lanescope.compression.sampling import BLOCK_BYTES, sampled_begins
from lanescope.compression.stream import Codec


def choose(array: GpuArray, stream: int) -> tuple[Codec, int]:
    """Return a codec and its dimensionality, or `Codec.RAW` where none makes it smaller.

    Copies up to eight blocks of 64 KiB to the host, behind what is on `stream`, and waits for
    them: for the first array of a kind, not for each.
    """
    begins = sampled_begins(array.bytes)
    each = array.bytes if begins is None else BLOCK_BYTES
    sample = native.read_device(array.gpu, array.pointer, begins or [0], each, stream)
    kind = dtype_of(array.dtype)
    word = np.dtype("uint8" if kind is native.Dtype.bytes else _word(array.dtype))
    return best_codec(sample[: len(sample) // word.itemsize * word.itemsize].view(word), kind)


def dtype_of(name: str) -> native.Dtype:
    """Return the core's name of a type of values."""
    return native.Dtype["bytes" if name == "uint8" else name]


def _word(dtype: str) -> str:
    return "uint16" if dtype == "bfloat16" else dtype
