"""The codecs that may make values of a type smaller."""

from __future__ import annotations

#: For each type of values, the likeliest first. Whether there are zeros for `zvc` no type tells.
CODECS_BY_DTYPE = {
    "bfloat16": ("exponent", "delta", "zvc"),
    "float16": ("exponent", "delta", "zvc"),
    "float32": ("delta", "exponent", "zvc"),
    "float64": ("delta", "gfc", "zvc"),
    "int8": ("zvc",),
    "uint8": ("zvc",),
} | dict.fromkeys(("int16", "int32", "int64", "uint16", "uint32", "uint64"), ("delta", "zvc"))


def takes(codec: str, dtype: str) -> bool:
    """Return whether a codec takes values of a type, suitable or not."""
    if codec == "raw" or codec in CODECS_BY_DTYPE.get(dtype, ()):
        return True
    return codec == "gfc" and dtype == "float32"
