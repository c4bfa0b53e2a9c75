"""Compressed streams: what they say of themselves, and how they are made in a GPU's memory.

There it is done in the order of the caller's CUDA stream. The codecs ``ans`` and ``bitcomp`` are
NVIDIA's nvCOMP: proprietary, and an optional extra (``pip install 'lanescope[nvcomp]'``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lanescope._core import native
from lanescope.compression.array_values import cupy_type, current_stream, meant, room_for_values
from lanescope.errors import InputError, LanescopeError
from lanescope.units.sizes import size_text

Stream = NDArray[np.uint8]
_REFUSED = ("bad stream", "bad block")
_NO_MEMORY = "cudaErrorMemoryAllocation"
_NO_MEMORY_LEFT = (
    "the GPU has no memory left for what coding takes besides the array and the stream; free some, "
    "or give fewer values at once"
)
_DLPACK_CUDA = 2
NO_GPU_ARRAY = (
    "only an array in C order and of numbers can be compressed in a GPU's memory; make one with "
    ".contiguous() of a tensor, or cupy.ascontiguousarray"
)
NO_GPU_ROOM = "values can be put only into an array in the same GPU's memory and in C order"
#: Other major versions have other functions, and code otherwise.
_NVCOMP = "libnvcomp.so.6"
_PACKAGE = "nvidia.libnvcomp"
_FOLDERS = ("lib64", "lib")


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
        there = on_gpu(stream)
        layout = layout_on_gpu(stream) if there else native.stream_layout(as_bytes(stream))
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
            "a compressed stream is an array of bytes in one piece, as compress returns it; give "
            ".cpu().numpy() of a tensor, and what is in a file"
        ) from error


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn what the core says of streams and values into one sentence.

    Raises
    ------
    InputError
        If the core refused them.
    LanescopeError
        If the GPU has no memory left.
    """
    try:
        yield
    except native.NativeError as error:
        _, _, name, detail, _ = error.args
        if name == _NO_MEMORY:
            raise LanescopeError(_NO_MEMORY_LEFT) from error
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


def on_gpu(array: Any) -> bool:
    """Return whether an array lies in a GPU's memory, as far as DLPack tells."""
    device_of = getattr(array, "__dlpack_device__", None)
    if device_of is None or isinstance(array, type):
        return False
    try:
        return int(device_of()[0]) == _DLPACK_CUDA
    except Exception as error:  # whatever the library raises is the reason
        said = " ".join(str(error).split())[:200]
        raise InputError(
            f"the {type(array).__name__} does not tell where it lies: {said}; give one in the "
            "memory of the host or of a GPU"
        ) from error


class Framework(Protocol):
    """What is needed of a library of arrays in GPUs' memory."""

    def own(self, array: Any) -> Any:
        """Return an array as one of this library, ordered after what makes it."""

    def device_of(self, array: Any) -> AbstractContextManager[Any]:
        """Return a scope in which an array's GPU is the current one."""

    def stream_of(self, array: Any) -> int:
        """Return the caller's current CUDA stream on an array's GPU."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return a new array in the current GPU's memory."""


class Torch:
    """PyTorch."""

    def __init__(self) -> None:
        import torch

        self._torch = torch

    def own(self, array: Any) -> Any:
        """Return an array as a tensor, ordered after what makes it."""
        if isinstance(array, self._torch.Tensor):
            return array.detach()
        return self._torch.from_dlpack(array)

    def device_of(self, array: Any) -> AbstractContextManager[Any]:
        """Return a scope in which a tensor's GPU is the current one."""
        scope: AbstractContextManager[Any] = self._torch.cuda.device(array.device)
        return scope

    def stream_of(self, array: Any) -> int:
        """Return the caller's current CUDA stream on a tensor's GPU."""
        return current_stream("torch", array.device.index)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return a new tensor in the current GPU's memory."""
        return self._torch.empty(shape, dtype=getattr(self._torch, dtype), device="cuda")


class Cupy:
    """CuPy, where bf16 comes as uint16 and fp8 as uint8."""

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy

    def own(self, array: Any) -> Any:
        """Return an array as one of CuPy, ordered after what makes it."""
        if isinstance(array, self._cupy.ndarray):
            return array
        return self._cupy.from_dlpack(array)

    def device_of(self, array: Any) -> AbstractContextManager[Any]:
        """Return a scope in which an array's GPU is the current one."""
        scope: AbstractContextManager[Any] = array.device
        return scope

    def stream_of(self, array: Any) -> int:
        """Return the caller's current CUDA stream on an array's GPU."""
        return current_stream("cupy", array.device.id)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return a new array in the current GPU's memory."""
        return self._cupy.empty(shape, dtype=cupy_type(dtype))


def framework_of(array: Any, name: str | None = None) -> Framework:
    """Return the library that takes an array: its own, else PyTorch if that is loaded, or CuPy.

    Raises
    ------
    InputError
        If there is neither, or none of that name.
    """
    if name is None:
        own = type(array).__module__.partition(".")[0]
        name = own if own in ("torch", "cupy") else "torch" if "torch" in sys.modules else "cupy"
    if name not in ("torch", "cupy"):
        raise InputError(f"arrays of {name} do not lie in a GPU's memory; give torch or cupy")
    try:
        return Torch() if name == "torch" else Cupy()
    except ImportError as error:
        raise InputError(
            f"{name} cannot be loaded ({error}), and an array in a GPU's memory needs it"
        ) from error


def compress_on_gpu(
    values: Any,
    codec: native.Codec | None,
    dtype: native.Dtype | None,
    dimensionality: int,
    out: Any,
    nvcomp: native.Nvcomp | None = None,
    meaning: native.Meaning | None = None,
    base: Any = None,
) -> Any:
    """Return the stream of an array in a GPU's memory, there: of the same library, uint8.

    It is `out`'s first bytes if that is given. Work is put into the caller's current stream of
    that library, after what is there, and is done when this returns.
    """
    framework = framework_of(values)
    array = framework.own(values)
    old = None if base is None else framework.own(base)
    with framework.device_of(array):
        stream = framework.stream_of(array)
        encoding = native.DeviceEncoding(
            array, codec, dtype, dimensionality, stream, nvcomp=nvcomp, meaning=meaning, base=old
        )
        length = encoding.stream_bytes
        if out is None:
            out = framework.empty((length,), "uint8")
        elif not on_gpu(out):
            raise InputError("the stream of an array in a GPU's memory is put into such memory")
        encoding.write(out)
    return out[:length]


def layout_on_gpu(compressed: Any) -> native.StreamLayout:
    """Read and check what a stream in a GPU's memory says of itself, not its blocks."""
    framework = framework_of(compressed)
    array = framework.own(compressed)
    return native.device_stream_layout(array, framework.stream_of(array))


def decompress_on_gpu(
    compressed: Any,
    out: Any,
    shape: tuple[int, ...],
    dtype: str,
    name: str,
    nvcomp: native.Nvcomp | None = None,
    base: Any = None,
) -> Any:
    """Return the array of a stream in a GPU's memory, in the same memory.

    It is put into `out` if that is given, else into a new array of the library of that `name`, or
    with ``numpy`` of the stream's own. Work is put into the caller's current stream, and done when
    this returns.
    """
    framework = framework_of(compressed, None if name == "numpy" else name)
    array = framework.own(compressed)
    old = None if base is None else framework.own(base)
    with framework.device_of(array):
        if out is None:
            try:
                out = framework.empty(shape, dtype)
            except AttributeError as error:
                raise InputError(f"{name} has no {dtype}; give out= or framework cupy") from error
        elif not on_gpu(out):
            raise InputError(
                "the stream lies in a GPU's memory and out= does not; copy the stream to the host"
            )
        room = room_for_values(out)
        native.decompress_on_device(
            array, room, framework.stream_of(array), nvcomp=nvcomp, base=old
        )
    return out


def nvcomp_for(codec: str) -> native.Nvcomp | None:
    """Return nvCOMP for a codec that needs it, None for others.

    Raises
    ------
    InputError
        If it is needed and not installed.
    """
    if not Codec(codec).by_nvcomp:
        return None
    try:
        return open_nvcomp()
    except native.NativeError as error:
        raise InputError(
            f"codec {codec} needs a GPU and nvCOMP: pip install 'lanescope[nvcomp]' "
            f"({error.args[3]})"
        ) from error


def there_is_nvcomp() -> bool:
    """Return whether it is installed, and can be opened."""
    try:
        open_nvcomp()
    except native.NativeError:
        return False
    return True


@cache
def open_nvcomp() -> native.Nvcomp:
    """Return nvCOMP from its Python package, else what the loader finds.

    Raises
    ------
    NativeError
        If there is none, or one of another major version.
    """
    return native.Nvcomp(str(next(_installed(), _NVCOMP)))


def _installed() -> Iterator[Path]:
    try:
        package = find_spec(_PACKAGE)
    except ModuleNotFoundError:  # of what it would lie in
        return
    for folder in (package.submodule_search_locations or ()) if package else ():
        paths = (Path(folder, name, _NVCOMP) for name in _FOLDERS)
        yield from (path for path in paths if path.is_file())
