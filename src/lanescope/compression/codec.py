"""Compress arrays in the host's memory, and get them back bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanescope._core import native
from lanescope.compression.stream import Codec, Stream, as_bytes, describe, input_errors
from lanescope.errors import InputError

AUTO = "auto"
_BLOCK_BYTES = 64 << 10
#: Blocks that ``auto`` looks at, spread over the array.
_SAMPLED_BLOCKS = 8
_DIMENSIONALITIES = range(1, 33)
_NO_ARRAY = (
    "only an array in the host's memory and in C order can be compressed; make one with "
    "numpy.ascontiguousarray, or .contiguous().cpu() of a tensor"
)
_NO_ROOM = "values can be put only into a writable array in the host's memory and in C order"
#: A codec that saves less costs more than it gains.
_LEAST_SAVED = 0.01


def compress(
    values: Any,
    codec: str = AUTO,
    *,
    dtype: str | None = None,
    dimensionality: int = 1,
    threads: int = 0,
) -> Stream:
    """Compress an array without loss.

    Parameters
    ----------
    values
        In the host's memory, in C order, by DLPack or Python's buffer interface: of NumPy, PyTorch
        and others. Integers, fp16, bf16, fp32 and fp64.
    codec
        A name of `Codec`, or ``auto``: the one that makes some blocks of the array smallest.
    dtype
        What the values are, where their type does not tell: ``bfloat16`` of an array of uint16.
    dimensionality
        Of GFC: from how many values before a value is predicted, 1 to 32. ``auto`` tries some.
    threads
        0: as many as there are CPUs at hand, 16 at most.

    Returns
    -------
    Stream
        Bytes that describe themselves: shape (n,), uint8.

    Raises
    ------
    InputError
        If the array is none, or the codec does not take its values.
    """
    kind = None if dtype is None else _dtype_named(dtype)
    chosen = None if codec == AUTO else _codec_named(codec)
    with input_errors(), _type_errors(_NO_ARRAY):
        if chosen is None:
            chosen, dimensionality = _best(values, kind)
        return native.compress(values, native.Codec[chosen], kind, dimensionality, threads)


def decompress(stream: Any, *, out: Any = None, framework: str = "numpy", threads: int = 0) -> Any:
    """Return the array that was compressed.

    Parameters
    ----------
    stream
        As `compress` returned it, or the same bytes.
    out
        An array in the host's memory, in C order, that gets the values in place of a new one;
        it has as many bytes.
    framework
        Of a new array: ``numpy``, where bf16 comes as uint16, or ``torch``.
    threads
        0: as many as there are CPUs at hand, 16 at most.

    Raises
    ------
    InputError
        If the stream was cut off or changed: the block is named. `out` then holds some of it.
    """
    data = as_bytes(stream)
    info = describe(data)
    if out is None:
        out = _new(info.shape, info.dtype, framework)
    with input_errors(), _type_errors(_NO_ROOM):
        native.decompress(data, out, threads)
    return out


@contextmanager
def _type_errors(sentence: str) -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise InputError(sentence) from error


def _new(shape: tuple[int, ...], dtype: str, framework: str) -> Any:
    if framework == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype))
    if framework != "numpy":
        raise InputError(f"there is no framework {framework}; give numpy or torch")
    return np.empty(shape, np.uint16 if dtype == "bfloat16" else np.dtype(dtype))


def _codec_named(name: str) -> Codec:
    try:
        return Codec(name)
    except ValueError:
        names = ", ".join([AUTO, *Codec])
        raise InputError(f"there is no codec {name}; give one of {names}") from None


def _dtype_named(name: str) -> native.Dtype:
    try:
        return native.Dtype["bytes" if name == "uint8" else name]
    except KeyError:
        names = ", ".join(one.name for one in native.Dtype if one.name != "bytes")
        raise InputError(f"there is no type of values {name}; give one of uint8, {names}") from None


def _best(values: Any, dtype: native.Dtype | None) -> tuple[Codec, int]:
    """Return the codec, and its dimensionality, that makes some blocks of an array smallest."""
    sample, kind = _sample(values, dtype)

    def size(codec: Codec, dimensionality: int, data: NDArray[np.uint8]) -> int:
        return len(native.compress(data, native.Codec[codec], kind, dimensionality, 1))

    tried = {}
    for codec in (Codec.EXPONENT, Codec.DELTA, Codec.GFC):
        if native.can_compress(native.Codec[codec], kind):
            dimensionality = 1
            if codec is Codec.GFC:  # one block tells from how far back to predict
                one = sample[-_BLOCK_BYTES:]
                dimensionality = min(_DIMENSIONALITIES, key=lambda d: size(Codec.GFC, d, one))
            tried[codec, dimensionality] = size(codec, dimensionality, sample)
    best = min(tried, key=tried.__getitem__, default=(Codec.RAW, 1))
    if tried.get(best, 0) >= sample.nbytes * (1 - _LEAST_SAVED):
        return Codec.RAW, 1
    return best


def _sample(values: Any, dtype: native.Dtype | None) -> tuple[NDArray[np.uint8], native.Dtype]:
    """Return some blocks of an array as bytes, and what its values are."""
    view, kind = native.bytes_view(values)
    kind = dtype or kind
    blocks = len(view) // _BLOCK_BYTES
    if blocks <= _SAMPLED_BLOCKS:
        return view, kind
    begins = np.linspace(0, blocks - 1, _SAMPLED_BLOCKS).astype(int) * _BLOCK_BYTES
    return np.concatenate([view[begin : begin + _BLOCK_BYTES] for begin in begins]), kind
