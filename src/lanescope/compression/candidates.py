"""The codecs that may make values of a type smaller."""

from __future__ import annotations

#: For each type of values, the likeliest first.
CODECS_BY_DTYPE = {
    "bfloat16": ("exponent", "delta"),
    "float16": ("exponent", "delta"),
    "float32": ("delta", "exponent"),
    "float64": ("delta", "gfc"),
} | dict.fromkeys(("int16", "int32", "int64", "uint16", "uint32", "uint64"), ("delta",))
