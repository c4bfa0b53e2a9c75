"""Arrays to a GPU and back from Python, on the path of boosted programs."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

from lanescope.boosting.driver_copies import copy_to_gpu, copy_to_host
from lanescope.boosting.host_arrays import (
    HostArray,
    host_array,
    new_host_array,
    require_writable,
)
from lanescope.compression.gpu_arrays import (
    GpuArray,
    current_stream,
    dtype_name,
    framework_of_array,
    gpu_array,
    new_array,
)
from lanescope.errors import InputError, MissingPartError

_NAMES = {"torch": "PyTorch", "cupy": "CuPy"}


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
