"""Compress arrays in a GPU's memory, there, in the order of the caller's CUDA stream."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any, Protocol

from lanescope._core import native
from lanescope.compression.array_values import cupy_type, room_for_values
from lanescope.compression.gpu_arrays import current_stream
from lanescope.errors import InputError

_DLPACK_CUDA = 2
NO_ARRAY = (
    "only an array in C order and of numbers can be compressed in a GPU's memory; make one with "
    ".contiguous() of a tensor, or cupy.ascontiguousarray"
)
NO_ROOM = "values can be put only into an array in the same GPU's memory and in C order"


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


def compress(
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


def layout(compressed: Any) -> native.StreamLayout:
    """Read and check what a stream in a GPU's memory says of itself, not its blocks."""
    framework = framework_of(compressed)
    array = framework.own(compressed)
    return native.device_stream_layout(array, framework.stream_of(array))


def decompress(
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
