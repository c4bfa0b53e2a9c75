"""Types of values that codecs know as others: bool, complex numbers and fp8."""

from __future__ import annotations

import sys
from math import prod
from typing import Any

import numpy as np

from lanescope._core import native
from lanescope.compression.gpu_arrays import framework_of_array, require_plain

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
