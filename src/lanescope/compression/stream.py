"""What a compressed stream says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanescope._core import native
from lanescope.compression import gpu
from lanescope.compression.array_values import meant
from lanescope.errors import InputError
from lanescope.units.sizes import size_text

Stream = NDArray[np.uint8]
_REFUSED = ("bad stream", "bad block")


class OtherBaseError(InputError):
    """The base is not the one that an update was made against."""


class Codec(StrEnum):
    """How values are coded: the codecs of the compiled core, by name."""

    RAW = "raw"
    """As they are."""
    GFC = "gfc"
    """The one that has a dimensionality."""
    vars().update({one.name.upper(): one.name for one in native.Codec if one.value > 1})

    @property
    def by_nvcomp(self) -> bool:
        """Whether it needs NVIDIA's nvCOMP, and a GPU; such codecs are for streams alone."""
        return native.by_nvcomp(native.Codec[self])


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What a compressed stream says of itself.

    Attributes
    ----------
    codec
        How its blocks are coded, those that are.
    dtype
        Of the values, as NumPy or ml_dtypes name it.
    dimensionality
        Of GFC: from how many values before a value is predicted.
    shape
        Of the array.
    bytes, stored_bytes
        Of the array, and of the stream.
    raw_blocks, constant_blocks, coded_blocks
        Blocks of 64 KiB that are stored as they are, as one value, and coded.
    update
        ``xor`` or ``subtraction``: the stream holds differences to a base, which it needs; None: it
        holds the whole array.
    base_checksum
        Of that base, 64 bits; None without one.
    """

    codec: Codec
    dtype: str
    dimensionality: int
    shape: tuple[int, ...]
    bytes: int
    stored_bytes: int
    raw_blocks: int
    constant_blocks: int
    coded_blocks: int
    update: str | None = None
    base_checksum: int | None = None

    @property
    def ratio(self) -> float:
        """Bytes of the array over those of the stream."""
        return self.bytes / self.stored_bytes


def describe(stream: Any) -> StreamInfo:
    """Read and check what a stream says of itself, not its blocks.

    Parameters
    ----------
    stream
        An array of bytes, on the host or in a GPU's memory, or anything with Python's buffer
        interface.

    Raises
    ------
    InputError
        If it is no stream, or cut off.
    """
    with input_errors():
        on_gpu = gpu.on_gpu(stream)
        layout = gpu.layout(stream) if on_gpu else native.stream_layout(as_bytes(stream))
    dtype, shape = meant(layout)
    raw, constant, coded = layout.blocks_by_mode
    is_update = layout.difference is not native.UpdateKind.none
    return StreamInfo(
        Codec(layout.codec.name),
        dtype,
        layout.dimensionality,
        shape,
        layout.bytes,
        layout.stored_bytes,
        raw,
        constant,
        coded,
        layout.difference.name if is_update else None,
        layout.base if is_update else None,
    )


def as_bytes(stream: Any) -> Stream:
    """Return the bytes of anything with Python's buffer interface, not copied.

    Raises
    ------
    InputError
        If it has none, or does not lie in one piece.
    """
    try:
        return np.frombuffer(memoryview(stream).cast("B"), np.uint8)
    except (TypeError, ValueError) as error:
        raise InputError(
            "a compressed stream is an array of bytes in one piece, as compress returns it"
        ) from error


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn what the core says of streams and values into one sentence.

    Raises
    ------
    InputError
        If the core refused them.
    """
    try:
        yield
    except native.NativeError as error:
        _, _, name, detail, _ = error.args
        said = f"this is no stream that can be read: {detail}" if name in _REFUSED else detail
        raise (OtherBaseError if name == "bad base" else InputError)(said) from error


def require_size(size: int, most: int | None, what: str = "the stream") -> None:
    """Refuse what becomes larger than its reader wants, before there is memory for it.

    Raises
    ------
    InputError
        If it does.
    """
    if most is not None and size > most:
        raise InputError(
            f"{what} becomes {size_text(size)} when it is decompressed, and at most "
            f"{size_text(most)} are allowed; allow more if you trust it"
        )
