"""The codecs that may make values of a type smaller."""

from __future__ import annotations

#: For each type of values, the likeliest first.
CODECS_BY_DTYPE = {
    "bfloat16": ("exponent", "delta"),
    "float16": ("exponent", "delta"),
    "float32": ("delta", "exponent"),
    "float64": ("delta", "gfc"),
} | dict.fromkeys(("int16", "int32", "int64", "uint16", "uint32", "uint64"), ("delta",))


def takes(codec: str, dtype: str) -> bool:
    """Return whether a codec takes values of a type, suitable or not."""
    if codec == "raw" or codec in CODECS_BY_DTYPE.get(dtype, ()):
        return True
    return codec == "gfc" and dtype == "float32"
