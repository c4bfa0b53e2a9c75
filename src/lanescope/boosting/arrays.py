"""Arrays to a GPU and back from Python, on the path of boosted programs.

The host's arrays are NumPy's or PyTorch's.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.boosting.running import LIBRARY, boost_library
from lanescope.compression.array_values import (
    GpuArray,
    current_stream,
    dtype_name,
    framework_of_array,
    gpu_array,
    new_array,
    require_plain,
)
from lanescope.errors import InputError, LanescopeError, MissingPartError

_NAMES = {"torch": "PyTorch", "cupy": "CuPy"}
#: Of a driver older than CUDA 12, and of a stream that is captured: numbers of CUresult.
_NOT_INITIALIZED, _OLD_DRIVER, _CAPTURED = 3, 801, 900
_SAID = {
    _NOT_INITIALIZED: "CUDA has not begun in this process, or it is a child by fork; use CUDA in "
    "one process, or start others by 'spawn'",
    _OLD_DRIVER: "the NVIDIA driver is older than CUDA 12; install a newer one",
    _CAPTURED: "the current stream is captured into a CUDA graph, which holds no such copy; copy "
    "before the capture",
}


def to_gpu(array: Any, out: Any = None, gpu: int | None = None) -> Any:
    """Copy an array of the host to a GPU, by several threads where that is faster.

    >>> weights = lanescope.to_gpu(numpy.load("weights.npy"))  # doctest: +SKIP

    Comes behind what is on the current stream of the GPU's framework, and what is put on it later
    comes behind the copy. Returns when `array` may be changed. Gradients do not flow through it.

    Parameters
    ----------
    array
        An array of NumPy or a CPU tensor of PyTorch, in C order.
    out
        Where it goes: a tensor of PyTorch or an array of CuPy on a GPU, of the same shape and type.
        None: a new one, of PyTorch for a tensor, and for an array of NumPy one of CuPy, or of
        PyTorch where there is no CuPy.
    gpu
        Counted as CUDA does; None: that of `out`, or 0.

    Returns
    -------
    tensor or array
        `out`, or the new one.

    Raises
    ------
    InputError
        If an argument cannot be used, or there is no such GPU or framework.
    LanescopeError
        If the driver fails.
    """
    source = host_array(array, "the array to copy")
    if out is None:
        target = _on_gpu(_new_on_gpu(source, gpu or 0), gpu or 0, "the new array")
    else:
        target = _on_gpu(out, gpu, "out")
    _require_alike(source, target, "out")
    if source.bytes:
        stream = current_stream(target.framework, target.gpu)
        copy_to_gpu(target.pointer, source.pointer, source.bytes, stream, target.gpu)
    return target.values


def to_host(tensor: Any, out: Any = None) -> Any:
    """Copy an array of a GPU to the host, by several threads where that is faster.

    >>> result = lanescope.to_host(tensor)  # doctest: +SKIP

    Comes behind what is on the current stream of its framework. Returns when the bytes are there.
    Pages of memory that was never touched, as that of a new array, are had by several threads, too.

    Parameters
    ----------
    tensor
        A tensor of PyTorch or an array of CuPy on a GPU, in C order.
    out
        Where it goes: an array of NumPy or a CPU tensor, of the same shape and type. None: a new
        one, a CPU tensor for one of PyTorch, an array of NumPy for one of CuPy.

    Returns
    -------
    tensor or array
        `out`, or the new one.

    Raises
    ------
    InputError
        If an argument cannot be used.
    LanescopeError
        If the driver fails.
    """
    source = _on_gpu(tensor, None, "the array to copy")
    made = out
    if out is None:
        made = new_host_array(source.framework, source.shape, source.values.dtype)
    target = host_array(made, "out")
    require_writable(target, "out")
    _require_alike(target, source, "out")
    if source.bytes:
        stream = current_stream(source.framework, source.gpu)
        copy_to_host(target.pointer, source.pointer, source.bytes, stream, source.gpu)
    return target.values


def _on_gpu(values: Any, gpu: int | None, what: str) -> GpuArray:
    """Return an array on a GPU: on `gpu`, or on any where that is None."""
    if gpu is None:
        framework = framework_of_array(values)
        if framework == "torch":
            gpu = values.device.index if values.is_cuda else 0
        elif framework == "cupy":
            gpu = int(values.device.id)
    return gpu_array(values, gpu or 0, what)


def _require_alike(host: HostArray, there: GpuArray, what: str) -> None:
    dtype = dtype_name(there.values.dtype)
    if host.shape != there.shape or host.dtype != dtype or host.bytes != there.bytes:
        raise InputError(
            f"{what} does not fit: the host's array is {host.dtype} of {host.shape}, the GPU's "
            f"{dtype} of {there.shape}; both have to be alike"
        )


def _new_on_gpu(source: HostArray, gpu: int) -> Any:
    framework = "torch" if source.framework == "torch" else _framework_for_numpy()
    count = _gpu_count(framework)
    if gpu >= count:
        raise MissingPartError(
            f"there is no GPU {gpu}: {_NAMES[framework]} finds {count}, counted from 0"
        )
    if framework == source.framework:
        return new_array(framework, source.shape, source.values.dtype, gpu)
    dtype = source.values.dtype
    if framework == "torch":
        dtype = getattr(importlib.import_module("torch"), source.dtype, None)
    try:
        if dtype is None:
            raise TypeError
        return new_array(framework, source.shape, dtype, gpu)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{_NAMES[framework]} has no arrays of {source.dtype}; view the values as another type"
        ) from error


def _framework_for_numpy() -> str:
    for name in ("cupy", "torch"):
        if name in sys.modules or importlib.util.find_spec(name) is not None:
            return name
    raise MissingPartError(
        "arrays on a GPU are those of CuPy or PyTorch, and neither is installed; install one"
    )


def _gpu_count(framework: str) -> int:
    """Return how many GPUs a framework can use."""
    module = importlib.import_module(framework)
    try:
        if framework == "torch":
            return int(module.cuda.device_count())
        return int(module.cuda.runtime.getDeviceCount())
    except Exception:  # CuPy raises what CUDA says where there is no driver
        return 0


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


def require_library() -> None:
    """Load what carries copies. Raises `MissingPartError` where that is not possible."""
    _loaded()


def copy_to_gpu(target: int, source: int, size: int, stream: int, gpu: int) -> None:
    """Copy bytes of the host's memory to a GPU, behind what a stream was given.

    Returns when the host's memory may be changed; what the stream is given later comes behind the
    copy.

    Parameters
    ----------
    target, source
        Addresses.
    stream
        As the driver counts it; 0: the default one of all threads.
    gpu
        In whose primary context.

    Raises
    ------
    LanescopeError
        If the driver fails.
    """
    _copy(target, source, size, stream, gpu, to_gpu=True)


def copy_to_host(target: int, source: int, size: int, stream: int, gpu: int) -> None:
    """Copy bytes of a GPU's memory to the host's, as `copy_to_gpu`; they are there on return."""
    _copy(target, source, size, stream, gpu, to_gpu=False)


def _copy(target: int, source: int, size: int, stream: int, gpu: int, *, to_gpu: bool) -> None:
    library = _loaded()
    code = library.lanescope_boost_copy(target, source, size, stream, gpu, int(to_gpu))
    if code:
        where = f"{size} bytes {'to' if to_gpu else 'from'} GPU {gpu}"
        raise LanescopeError(f"cannot copy {where}: {_why(library, code)}")


def _why(library: ctypes.CDLL, code: int) -> str:
    if code in _SAID:
        return _SAID[code]
    text = library.lanescope_boost_error(code)
    return (
        f"the driver says {text.decode(errors='replace')!r} ({code})"
        if text
        else (f"the driver returns {code}, which it has no words for")
    )


@functools.cache
def _loaded() -> ctypes.CDLL:
    """Return the library, for as long as the process lives: a boosted process has it already."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "lanescope_boost_copy"):
        library = _loaded_from(boost_library())
    numbers = ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_uint64
    library.lanescope_boost_copy.argtypes = (*numbers, ctypes.c_int, ctypes.c_int)
    library.lanescope_boost_copy.restype = ctypes.c_int
    library.lanescope_boost_error.argtypes = (ctypes.c_int,)
    library.lanescope_boost_error.restype = ctypes.c_char_p
    return library


def _loaded_from(path: Path | None) -> ctypes.CDLL:
    if path is None:
        raise MissingPartError(f"{LIBRARY} is missing from this installation; reinstall lanescope")
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise MissingPartError(f"{LIBRARY} cannot be loaded: {error}") from error
