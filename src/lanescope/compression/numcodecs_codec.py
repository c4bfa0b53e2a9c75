"""lanescope's codecs for numcodecs, and so for Zarr's format 2: ``{"id": "lanescope"}``."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray

from lanescope.calls import checked
from lanescope.compression.array_values import coding_type
from lanescope.compression.codec import compress, decompress
from lanescope.compression.files import require_host_codec
from lanescope.compression.stream import Stream
from lanescope.errors import InputError


def coded(values: Any, codec: str) -> Stream:
    """Return the stream of an array of NumPy in one piece, as values of a type that codecs know.

    Where many threads compress chunks at the same time, each is compressed by one.

    Raises
    ------
    InputError
        If it holds Python objects.
    """
    if values.dtype.hasobject:
        raise InputError("Python objects are no values that a stream can hold; encode them before")
    dtype = coding_type(values.dtype)
    if dtype != "bfloat16" and dtype != values.dtype.name:
        values = values.reshape(-1).view(dtype)
    threads = 0 if threading.current_thread() is threading.main_thread() else 1
    stream: Stream = compress(values, codec, dtype=dtype, threads=threads)
    return stream


@checked
class Lanescope(Codec):  # type: ignore[misc]  # numcodecs says nothing of its types
    """Compresses chunks without loss, on the host.

    Parameters
    ----------
    codec
        As of `lanescope.compress`, those that need no GPU; ``auto`` chooses for each chunk.

    Raises
    ------
    InputError
        If there is no such codec.
    """

    codec_id: ClassVar[str] = "lanescope"

    def __init__(self, codec: str = "auto") -> None:
        require_host_codec(codec)
        self.codec = codec

    def encode(self, buf: Any) -> Any:
        """Return the stream of anything with Python's buffer interface in one piece."""
        return coded(ensure_contiguous_ndarray(buf), self.codec)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the values of a stream, in `out` if that is given.

        Raises
        ------
        InputError
            If the stream was cut off or changed, or `out` has another size.
        """
        stream = ensure_contiguous_ndarray(buf).view(np.uint8)
        if out is None:
            return decompress(stream)
        decompress(stream, out=ensure_contiguous_ndarray(out).view(np.uint8))
        return out
