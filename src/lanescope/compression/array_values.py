"""What arrays hold, as far as a stream can say it: the others are refused with the reason."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lanescope._core import native
from lanescope.compression.gpu_arrays import framework_of_array
from lanescope.compression.meanings import STORED, as_stored, meaning_of
from lanescope.errors import InputError

_KNOWN = {"float16", "bfloat16", "float32", "float64"} | {
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
#: As what values of NumPy's other kinds can be viewed.
_VIEWS = {"M": "int64", "m": "int64"}
_NO_ARRAY = (
    "only an array in the host's memory, in C order and of numbers in this machine's byte order "
    "can be compressed; make one with numpy.ascontiguousarray, or .contiguous().cpu() of a tensor"
)


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
    if isinstance(values, memoryview) and values.format == "?":
        values = np.asarray(values)
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
    if name in _KNOWN or (name == "bool" and dtype == "uint8"):
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
