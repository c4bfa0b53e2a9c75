"""Arrays in the host's memory, of NumPy or PyTorch, as a copy to or from a GPU sees them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from lanescope.compression.gpu_arrays import dtype_name, framework_of_array, require_plain
from lanescope.errors import InputError


@dataclass(frozen=True, slots=True)
class HostArray:
    """An array in one piece of the host's memory.

    Attributes
    ----------
    values
        As the user gave it.
    framework
        ``numpy`` or ``torch``.
    pointer, bytes
        Where it lies.
    dtype
        The name of its type, which both frameworks share.
    """

    values: Any
    framework: str
    pointer: int
    bytes: int
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return tuple(self.values.shape)


def host_array(values: Any, what: str) -> HostArray:
    """Return what a copy needs to know of an array; nothing is copied.

    Parameters
    ----------
    values
        An array of NumPy or a tensor of PyTorch, in C order.
    what
        What the array is to the user, for errors.

    Raises
    ------
    InputError
        If it is none, lies elsewhere, has gaps, or its bytes are not its values.
    """
    if isinstance(values, np.ndarray):
        return _of_numpy(values, what)
    if framework_of_array(values) != "torch":
        raise InputError(
            f"{what} is no array of NumPy and no CPU tensor of PyTorch, but of type "
            f"{type(values).__name__}; give one of these"
        )
    require_plain(values, what)
    if str(getattr(values.device, "type", "cpu")) != "cpu" or values.is_cuda:
        raise InputError(f"{what} lies on {values.device}, not in the host's memory")
    if not values.is_contiguous():
        raise InputError(f"{what} has gaps or is not in C order; call .contiguous()")
    size = values.numel() * values.element_size()
    return HostArray(values, "torch", values.data_ptr(), size, dtype_name(values.dtype))


def _of_numpy(values: np.ndarray[Any, Any], what: str) -> HostArray:
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{what} is masked, and a GPU's array has no mask; give .filled()")
    if values.dtype.hasobject or values.dtype.fields is not None:
        raise InputError(
            f"{what} holds values of {values.dtype}, which no GPU's array does; convert them, or "
            "give each field for itself"
        )
    if not values.dtype.isnative:
        raise InputError(
            f"{what} is not in this machine's byte order; turn it with "
            ".astype(values.dtype.newbyteorder('='))"
        )
    if not values.flags.c_contiguous:
        raise InputError(
            f"{what} has gaps or is not in C order; make it so with numpy.ascontiguousarray"
        )
    return HostArray(values, "numpy", values.ctypes.data, values.nbytes, values.dtype.name)


def require_writable(array: HostArray, what: str) -> None:
    """Refuse an array that must not be written.

    Raises
    ------
    InputError
        If it is such a one.
    """
    if array.framework == "numpy" and not array.values.flags.writeable:
        raise InputError(f"{what} is read-only; give one that may be written")


def new_host_array(framework: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array without values; `dtype` is that of the GPU's framework.

    Parameters
    ----------
    framework
        ``torch`` for a CPU tensor, ``cupy`` for an array of NumPy.
    """
    if framework == "torch":
        return importlib.import_module("torch").empty(shape, dtype=dtype, device="cpu")
    return np.empty(shape, dtype)
