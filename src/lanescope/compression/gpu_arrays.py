"""Arrays in a GPU's memory, of PyTorch or CuPy, as a channel sees them."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from lanescope.errors import InputError

#: Types by whose values codecs tell what repeats; all others are bytes to them.
KNOWN = {"float16", "bfloat16", "float32", "float64"} | {
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
#: What arrays of a framework have, by which they are told from other things of it.
_POINTERS = {"torch": "data_ptr", "cupy": "data"}
_PARTS = {"complex64": "float32", "complex128": "float64"}


@dataclass(slots=True)  # frozen ones take a microsecond more to make: each transfer has some
class GpuArray:
    """An array in one piece of a GPU's memory.

    Attributes
    ----------
    values
        As the user gave it.
    framework
        ``torch`` or ``cupy``.
    pointer, bytes
        Where it lies.
    dtype
        One that codecs know: of complex values that of their parts, ``uint8`` for bytes.
    """

    values: Any
    framework: str
    gpu: int
    pointer: int
    bytes: int
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(self.values.shape)


class LookedAt(Protocol):
    """Bytes in a GPU's memory of which some blocks tell which codec suits."""

    @property
    def gpu(self) -> int:
        """Where they lie."""

    @property
    def pointer(self) -> int:
        """Of the first."""

    @property
    def bytes(self) -> int:
        """How many."""

    @property
    def dtype(self) -> str:
        """As that of a `GpuArray`."""


def gpu_array(values: Any, gpu: int, what: str) -> GpuArray:
    """Return what a channel needs to know of an array; nothing is copied.

    Parameters
    ----------
    values
        A tensor of PyTorch or an array of CuPy, on GPU `gpu`, in C order.
    what
        What the array is to the user, for errors: "the array to send".

    Raises
    ------
    InputError
        If it is none, lies elsewhere, or has gaps.
    """
    framework = framework_of_array(values)
    if framework == "torch":
        require_plain(values, what)
        if not values.is_cuda:
            raise InputError(
                f"{what} lies on {values.device}, not on GPU {gpu}; move it with .to()"
            )
        where, whole = values.device.index, values.is_contiguous()
        pointer, size = values.data_ptr(), values.numel() * values.element_size()
    elif framework == "cupy":
        where, whole = values.device.id, values.flags.c_contiguous
        pointer, size = values.data.ptr, values.nbytes
    else:
        raise InputError(
            f"{what} is no GPU tensor: give one of PyTorch or CuPy on GPU {gpu}, "
            f"not {type(values).__name__}"
        )
    if where != gpu:
        raise InputError(
            f"{what} lies on GPU {where}, not on GPU {gpu}; move it there, or swap them"
        )
    if not whole:
        raise InputError(f"{what} has gaps or is not in C order; call .contiguous() or copy it")
    return GpuArray(values, framework, gpu, pointer, size, coded_dtype(values.dtype))


def require_plain(tensor: Any, what: str) -> None:
    """Refuse a tensor of PyTorch whose memory is not what it means.

    Raises
    ------
    InputError
        If it is sparse, or conjugated or negated only when it is read.
    """
    if not _is_strided(tensor.layout):
        raise InputError(f"{what} is a {tensor.layout} tensor; call .to_dense()")
    if tensor.is_conj() or tensor.is_neg():
        raise InputError(
            f"{what} is a view that PyTorch conjugates or negates when it is read; call "
            ".resolve_conj().resolve_neg()"
        )


@lru_cache(16)  # for each transfer, as the next ones
def _is_strided(layout: Any) -> bool:
    return str(layout) == "torch.strided"


def framework_of_array(values: Any) -> str:
    """Return ``torch`` or ``cupy``, or nothing where an array is of neither."""
    kind: Any = type(values)
    name = _library_of(kind)
    return name if name and hasattr(values, _POINTERS[name]) else ""


@lru_cache(64)
def _library_of(kind: Any) -> str:
    names = (str(one.__module__).partition(".")[0] for one in kind.__mro__)
    return next((name for name in names if name in _POINTERS), "")


@lru_cache(256)
def dtype_name(dtype: Any) -> str:
    """Return the name of a framework's type."""
    return str(dtype).removeprefix("torch.")


@lru_cache(256)
def coded_dtype(dtype: Any) -> str:
    """Return the type by which codecs know values of a framework's type."""
    name = _PARTS.get(dtype_name(dtype), dtype_name(dtype))
    return name if name in KNOWN else "uint8"


def _module(framework: str) -> Any:
    return sys.modules.get(framework) or importlib.import_module(framework)


def current_stream(framework: str, gpu: int) -> int:
    """Return the stream, as an integer, on which a framework puts work for a GPU now."""
    module = _module(framework)
    if framework == "torch":
        # What PyTorch's compiled programs call; an object of a stream takes some microseconds.
        raw = getattr(getattr(module, "_C", None), "_cuda_getCurrentRawStream", None)
        return int(module.cuda.current_stream(gpu).cuda_stream if raw is None else raw(gpu))
    with module.cuda.Device(gpu):
        return int(module.cuda.get_current_stream().ptr)


def new_array(framework: str, shape: tuple[int, ...], dtype: Any, gpu: int) -> Any:
    """Return an array without values on a GPU; `dtype` is the framework's own."""
    module = _module(framework)
    if framework == "torch":
        return module.empty(shape, dtype=dtype, device=f"cuda:{gpu}")
    with module.cuda.Device(gpu):
        return module.empty(shape, dtype=dtype)


def new_bytes(framework: str, size: int, gpu: int) -> GpuArray:
    """Return an array of so many bytes without values on a GPU."""
    room = new_array(framework, (size,), _module(framework).uint8, gpu)
    pointer = room.data_ptr() if framework == "torch" else room.data.ptr
    return GpuArray(room, framework, gpu, pointer, size, "uint8")
