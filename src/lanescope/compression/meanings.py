"""Types of values that codecs know as others: bool, complex numbers and fp8."""

from __future__ import annotations

import sys
from math import prod
from typing import Any

import numpy as np

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


def stored_type(dtype: str) -> str:
    """Return the type that codecs know of what values are."""
    return STORED.get(dtype, dtype)


def value_bytes(dtype: str) -> int:
    """Return the bytes of one value."""
    return np.dtype(_OF_ML_DTYPES.get(dtype, dtype)).itemsize


def array_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the bytes of an array."""
    return prod(shape) * value_bytes(dtype)


def numpy_type(dtype: str) -> np.dtype[Any]:
    """Return NumPy's type of values: bf16 and fp8 are those of ml_dtypes where that is loaded."""
    if dtype not in _OF_ML_DTYPES:
        return np.dtype(dtype)
    library = sys.modules.get("ml_dtypes")
    return np.dtype(getattr(library, dtype, _OF_ML_DTYPES[dtype]))
