"""Stand-ins of PyTorch and CuPy whose GPU arrays lie in memory of the driver for tests."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

cuda = ctypes.CDLL("libcuda.so.1")
contexts: list[ctypes.c_void_p] = []
#: The current stream of both frameworks, by GPU.
streams = {0: 0, 1: 0}


def call(name: str, *values: Any) -> None:
    code = getattr(cuda, name)(*values)
    assert code == 0, (name, code)


def in_context(gpu: int) -> None:
    call("cuCtxSetCurrent", contexts[gpu])


def begin() -> None:
    """Begin CUDA, and have both frameworks imported."""
    call("cuInit", 0)
    for gpu in (0, 1):
        contexts.append(ctypes.c_void_p())
        call("cuDevicePrimaryCtxRetain", ctypes.byref(contexts[gpu]), gpu)
    in_context(0)
    torch = ModuleType("torch")
    for dtype in ("uint8", "float32", "bfloat16", "int64"):
        setattr(torch, dtype, f"torch.{dtype}")
    torch.empty = _torch_empty  # type: ignore[attr-defined]
    torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        current_stream=lambda gpu: SimpleNamespace(cuda_stream=streams[gpu]),
        device_count=lambda: 2,
    )
    cupy = ModuleType("cupy")
    cupy.empty = _cupy_empty  # type: ignore[attr-defined]
    cupy.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        Device=lambda gpu: _Device(gpu),
        get_current_stream=lambda: SimpleNamespace(ptr=streams[_Device.current]),
        runtime=SimpleNamespace(getDeviceCount=lambda: 2),
    )
    sys.modules |= {"torch": torch, "cupy": cupy}


def new_stream() -> int:
    """Return a stream of the current context that does not wait for the default one."""
    made = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(made), 1)
    assert made.value is not None
    return made.value


def fill(address: int, value: int, size: int, stream: int) -> None:
    call("cuMemsetD8Async", ctypes.c_uint64(address), value, ctypes.c_size_t(size),
         ctypes.c_void_p(stream))  # fmt: skip


def pinned(size: int) -> np.ndarray[Any, Any]:
    made = ctypes.c_void_p()
    call("cuMemHostAlloc", ctypes.byref(made), ctypes.c_size_t(size), 0)
    assert made.value is not None
    return np.frombuffer((ctypes.c_char * size).from_address(made.value), np.uint8)


class _Device:
    current = 0

    def __init__(self, gpu: int) -> None:
        self.gpu = gpu

    def __enter__(self) -> None:
        self.before, _Device.current = _Device.current, self.gpu

    def __exit__(self, *error: object) -> None:
        _Device.current = self.before


class _Array:
    """An array in C order; `gpu` None: in the host's memory."""

    def __init__(self, shape: Any, itemsize: int, dtype: Any, gpu: int | None) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.itemsize, self.dtype, self.gpu = itemsize, dtype, gpu
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * itemsize
        self.is_cuda, self.layout = gpu is not None, "torch.strided"
        self.device = SimpleNamespace(index=gpu, id=gpu, type="cpu" if gpu is None else "cuda")
        self.flags = SimpleNamespace(c_contiguous=True)
        self.host = np.empty(self.nbytes, np.uint8)
        self.address = self.host.ctypes.data
        if gpu is not None:
            made = ctypes.c_uint64()
            with _in(gpu):
                call("cuMemAlloc_v2", ctypes.byref(made), ctypes.c_size_t(max(self.nbytes, 1)))
            self.address = made.value

    def is_contiguous(self) -> bool:
        return True

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def numel(self) -> int:
        return self.nbytes // self.itemsize

    def element_size(self) -> int:
        return self.itemsize

    def data_ptr(self) -> int:
        return self.address

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.address)

    def content(self) -> bytes:
        """Return its bytes once all that was begun is over; a GPU's memory is the host's."""
        if self.gpu is not None:
            with _in(self.gpu):
                call("cuCtxSynchronize")
        return ctypes.string_at(self.address, self.nbytes)


class _in:  # noqa: N801
    def __init__(self, gpu: int) -> None:
        self.gpu = gpu

    def __enter__(self) -> None:
        self.before = ctypes.c_void_p()
        call("cuCtxGetCurrent", ctypes.byref(self.before))
        in_context(self.gpu)

    def __exit__(self, *error: object) -> None:
        call("cuCtxSetCurrent", self.before)


Tensor = type("Tensor", (_Array,), {"__module__": "torch"})
CupyArray = type("ndarray", (_Array,), {"__module__": "cupy"})
_BYTES = {"uint8": 1, "bfloat16": 2, "float32": 4, "int64": 8}


def _torch_empty(shape: Any, dtype: str, device: str) -> Any:
    gpu = None if device == "cpu" else int(device.removeprefix("cuda:"))
    return Tensor(shape, _BYTES[dtype.removeprefix("torch.")], dtype, gpu)


def _cupy_empty(shape: Any, dtype: Any) -> Any:
    return CupyArray(shape, np.dtype(dtype).itemsize, np.dtype(dtype), _Device.current)
