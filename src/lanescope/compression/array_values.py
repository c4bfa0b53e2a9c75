"""Arrays as codecs see them: what their values are, and where those of a GPU lie.

Values that no codec knows lie in a stream as others: bool, complex numbers and fp8. What a stream
cannot say is refused with the reason.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from lanescope._core import native
from lanescope.errors import InputError

#: As what values lie in a stream: fp8 and bool as bytes, complex numbers as their two parts.
STORED = {
    "bool": "uint8",
    "float8_e4m3fn": "uint8",
    "float8_e5m2": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0fnu": "uint8",
    "complex64": "float32",
    "complex128": "float64",
}
#: Those that NumPy knows only with ml_dtypes, and by what it takes their place without.
_OF_ML_DTYPES = {
    "bfloat16": "uint16",
    **{name: stored for name, stored in STORED.items() if name.startswith("float8")},
}
#: How the core calls what they mean, where it is not by their own name.
_MEANINGS = {"bool": "boolean", "complex64": "complex", "complex128": "complex"}
#: Of Python's buffers, for bool, complex64 and complex128.
_MEANT_FORMATS = {"?", "Zf", "Zd"}
#: As what values of NumPy's other kinds can be viewed.
_VIEWS = {"M": "int64", "m": "int64"}
_NO_ARRAY = (
    "only an array in the host's memory, in C order and of numbers in this machine's byte order "
    "can be compressed; make one with numpy.ascontiguousarray, or .contiguous().cpu() of a tensor"
)
#: Types by whose values codecs tell what repeats; all others are bytes to them.
KNOWN = {"float16", "bfloat16", "float32", "float64"} | {
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
#: What arrays of a framework have, by which they are told from other things of it.
_POINTERS = {"torch": "data_ptr", "cupy": "data"}


def meaning_of(dtype: str | None) -> native.Meaning:
    """Return what values mean to the core; plain ones of types that codecs know, and of None."""
    if dtype not in STORED:
        return native.Meaning.plain
    return native.Meaning[_MEANINGS.get(dtype, dtype)]


def meant(layout: native.StreamLayout) -> tuple[str, tuple[int, ...]]:
    """Return type and shape of the array of a stream."""
    stored, shape = layout.dtype.name, tuple(layout.shape)
    stored = "uint8" if stored == "bytes" else stored
    if layout.meaning is native.Meaning.plain:
        return stored, shape
    fits = (name for name in STORED if meaning_of(name) is layout.meaning)
    name = next(name for name in fits if STORED[name] == stored)
    return name, shape[:-1] if _is_complex(name) else shape


def _is_complex(dtype: str) -> bool:
    return dtype.startswith("complex")


def as_stored(array: Any, dtype: str) -> Any:
    """Return an array of such values as one of those that codecs know; nothing is copied.

    Parameters
    ----------
    array
        Of NumPy, CuPy or PyTorch, wherever it lies.

    Raises
    ------
    InputError
        If its memory is not what it means.
    """
    if framework_of_array(array) == "torch":
        require_plain(array, "the array")
        library = sys.modules["torch"]
        if _is_complex(dtype):
            return library.view_as_real(array)
        return array.view(library.uint8)
    if _is_complex(dtype) and not array.flags.c_contiguous:
        return array  # which the core refuses; what follows would copy it
    if _is_complex(dtype):  # of one that has no sides another itemsize cannot be viewed
        return array.reshape(-1).view(STORED[dtype]).reshape(*array.shape, 2)
    return array.view(STORED[dtype])


def coding_type(kind: np.dtype[Any]) -> str:
    """Return the type as which values of NumPy are coded.

    It is their own where codecs know that; else one whose bits they have: dates are int64, texts
    uint32 for each character, two bytes without a type bfloat16, which NumPy stores so; all others,
    also of another byte order, are bytes.
    """
    if not kind.isnative or not kind.itemsize:
        return "uint8"
    if kind.name in STORED or kind.name == "bfloat16" or kind.kind in "iu":
        return kind.name
    if kind.kind == "f" and kind.itemsize <= 8:
        return kind.name
    if kind.kind == "V" and kind.itemsize == 2 and kind.fields is None:
        return "bfloat16"
    return {"M": "int64", "m": "int64", "U": "uint32"}.get(kind.kind, "uint8")


def stored_type(dtype: str) -> str:
    """Return the type that codecs know of what values are."""
    return STORED.get(dtype, dtype)


def value_bytes(dtype: str) -> int:
    """Return the bytes of one value."""
    return np.dtype(_OF_ML_DTYPES.get(dtype, dtype)).itemsize


def array_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the bytes of an array."""
    return prod(shape) * value_bytes(dtype)


def cupy_type(dtype: str) -> str:
    """Return CuPy's name of a type: it has neither bf16 nor fp8."""
    return _OF_ML_DTYPES.get(dtype, dtype)


def numpy_type(dtype: str) -> np.dtype[Any]:
    """Return NumPy's type of values: bf16 and fp8 are those of ml_dtypes where that is loaded."""
    if dtype not in _OF_ML_DTYPES:
        return np.dtype(dtype)
    library = sys.modules.get("ml_dtypes")
    return np.dtype(getattr(library, dtype, _OF_ML_DTYPES[dtype]))


class Known(NamedTuple):
    """An array as the core takes it.

    Attributes
    ----------
    dtype
        What its values are, where its type does not tell.
    meaning
        What they mean beyond that.
    """

    values: Any
    dtype: str | None
    meaning: native.Meaning


def known_values(values: Any, dtype: str | None) -> Known:
    """Return an array as the core takes it, not copied.

    An array of ``ml_dtypes.bfloat16``, and one of two-byte values that `dtype` says are bfloat16,
    become one of uint16: Python's buffers and DLPack know neither. bool and fp8 become bytes,
    complex numbers two values each.

    Raises
    ------
    InputError
        If a stream cannot say what the values are, or they do not lie in C order.
    """
    own = getattr(values, "dtype", None)
    if own is None:
        values = _with_a_type(values)
        own = getattr(values, "dtype", None)
    name = str(getattr(own, "name", own)).removeprefix("torch.")
    if own is None or isinstance(values, type):
        return _said(values, dtype)
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(
            "a stream has no room for the mask of a masked array; give .filled(), or .data and "
            ".mask.view('uint8') each for itself"
        )
    if not isinstance(values, np.ndarray | np.generic):
        if framework_of_array(values) and _has_meaning(name, dtype):
            return _meant(values, name)
        _require_known(own, name, dtype)
        return _said(values, dtype)
    array = np.asarray(values)
    if not array.flags.c_contiguous:
        raise InputError("the values do not lie in C order; make them with numpy.ascontiguousarray")
    if not array.dtype.isnative:
        raise InputError(
            f"values of {array.dtype.str} are not in this machine's byte order; turn them with "
            ".astype(values.dtype.newbyteorder('='))"
        )
    if array.dtype.itemsize == 2 and (name == "bfloat16" or _is_void(array.dtype, dtype)):
        return _said(array.view(np.uint16), dtype or "bfloat16")
    if _has_meaning(name, dtype):
        return _meant(array, name)
    if array.dtype.itemsize == 1 and name == "bool" and dtype == "uint8":
        return _said(array.view(np.uint8), dtype)
    _require_known(own, name, dtype)
    return _said(array, dtype)


def _with_a_type(values: Any) -> Any:
    """Return a buffer of bool or complex numbers as an array of NumPy: the core knows neither."""
    try:
        view = memoryview(values)
    except (TypeError, ValueError, BufferError):
        return values  # which is no buffer
    return np.asarray(view) if view.format.lstrip("@=<") in _MEANT_FORMATS else values


def _has_meaning(name: str, dtype: str | None) -> bool:
    return name in STORED and dtype in (None, name)


def _meant(array: Any, name: str) -> Known:
    """Return an array whose type says what its values mean."""
    return Known(as_stored(array, name), STORED[name], meaning_of(name))


def _said(array: Any, dtype: str | None) -> Known:
    """Return an array whose values mean what `dtype` says, if that says more than their type."""
    return Known(array, STORED.get(dtype or "", dtype), meaning_of(dtype))


def _is_void(own: np.dtype[Any], dtype: str | None) -> bool:
    """Whether two bytes without a type, as a ``.npy`` of bf16 has them, are said to be bf16."""
    if own.kind != "V" or own.fields is not None or own.type is not np.void:
        return False
    if dtype is None:
        raise InputError("values of two bytes have no type; say dtype='bfloat16' if they are that")
    return dtype == "bfloat16"


def _require_known(own: Any, name: str, dtype: str | None) -> None:
    if name in KNOWN or (name == "bool" and dtype == "uint8"):
        return
    if getattr(own, "hasobject", False):
        raise InputError(
            "Python objects are no values that a stream can hold; convert them, as with "
            ".astype('float64')"
        )
    if getattr(own, "fields", None):
        raise InputError(
            "a stream knows no fields; compress each of them for itself, made contiguous"
        )
    if getattr(own, "type", None) in (np.bytes_, np.str_, np.void):
        name = own.str  # by whose name NumPy finds none
    view = STORED.get(name) or _VIEWS.get(getattr(own, "kind", ""), "uint8")
    raise InputError(
        f"a stream does not know values of {name}; view them as {view}, and what comes back as "
        f"{name}"
    )


def why_no_array(values: Any) -> str:
    """Return why the core does not take an object as an array."""
    if not hasattr(values, "__dlpack__") or isinstance(values, type):
        try:
            memoryview(values)
        except TypeError:
            kind = type(values).__name__
            return f"an object of type {kind} is no array; make one with numpy.asarray"
        except (ValueError, BufferError):
            pass
        return _NO_ARRAY
    try:
        values.__dlpack__()
    except Exception as error:  # whatever the library raises is the reason
        return f"the {type(values).__name__} is not given as an array: {_one_line(error)}"
    return _NO_ARRAY


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def room_for_values(out: Any) -> Any:
    """Return an array that gets values as the core takes it, whatever its type."""
    if framework_of_array(out):
        name = str(getattr(out.dtype, "name", out.dtype)).removeprefix("torch.")
        return as_stored(out, name) if name in STORED else out
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        return out
    whole = out.flags.c_contiguous and out.dtype.itemsize > 0
    if out.dtype.hasobject or not out.dtype.isnative or not whole:
        return out  # which the core refuses
    return out.reshape(-1).view(np.uint8)


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
    name = stored_type(dtype_name(dtype))
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
