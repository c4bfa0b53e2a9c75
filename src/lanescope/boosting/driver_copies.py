"""Single copies between memory of the host and of a GPU, carried as a boosted program's are."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

from lanescope.boosting.running import LIBRARY, boost_library
from lanescope.errors import LanescopeError, MissingPartError

#: Of a driver older than CUDA 12, and of a stream that is captured: numbers of CUresult.
_NOT_INITIALIZED, _OLD_DRIVER, _CAPTURED = 3, 801, 900
_SAID = {
    _NOT_INITIALIZED: "CUDA has not begun in this process, or it is a child by fork; use CUDA in "
    "one process, or start others by 'spawn'",
    _OLD_DRIVER: "the NVIDIA driver is older than CUDA 12; install a newer one",
    _CAPTURED: "the current stream is captured into a CUDA graph, which holds no such copy; copy "
    "before the capture",
}


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
