"""Tensors of ``.safetensors`` files.

The package checks the file; its bytes are then taken from where the header says they lie, as the
package gives NumPy no bf16.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lanescope.compression.arrays import Entry, Opened, Values, read_values, storage
from lanescope.compression.segments import tensors_of
from lanescope.errors import InputError

#: What the format calls types (github.com/huggingface/safetensors, README, "Format").
_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "uint8",
    "F8_E4M3": "uint8",
    "F8_E5M2": "uint8",
}
#: Where a header begins: behind its length.
_HEADER = 8


def safetensors_arrays(path: Path) -> Opened:
    """Return every tensor of a file as an entry of its own.

    Raises
    ------
    InputError
        If the package is not installed, or the file is broken.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise InputError(
            f"reading {path} needs safetensors: pip install 'lanescope[safetensors]'"
        ) from error
    try:
        with safe_open(path, framework="np"):  # refuses what is cut off, overlaps or has gaps
            pass
    except SafetensorError as error:
        raise InputError(
            f"{path} is no whole file of safetensors: {error}; copy or write it again"
        ) from error
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_HEADER), "little")
        header = json.loads(file.read(length))
    entries, left_out = [], []
    for name, about in header.items():
        if name == "__metadata__":
            continue
        dtype = _DTYPES.get(about["dtype"])
        if dtype is None:
            left_out.append(f"{name} holds {about['dtype']}, which no codec takes")
        elif 0 in about["shape"]:
            left_out.append(f"{name} holds no values")
        else:
            entries.append(_entry(path, name, dtype, about, _HEADER + length))
    return Opened(tuple(entries), tuple(left_out))


def _entry(path: Path, name: str, dtype: str, about: dict[str, Any], data: int) -> Entry:
    shape = tuple(about["shape"])
    begin = data + about["data_offsets"][0]

    def load() -> Values:
        return read_values(path, storage(dtype), begin, shape)

    note = "fp8 as bytes" if about["dtype"].startswith("F8") else ""
    return Entry(f"{path}:{name}", dtype, shape, load, note=note)


def header_of_one(path: Path, front: bytes, name: str) -> bytes:
    """Return what stands before the bytes of one tensor in a file of that alone.

    Parameters
    ----------
    front
        What stands before those of all tensors.

    Raises
    ------
    InputError
        If it is no header, or has no such tensor.
    """
    found = tensors_of(path, front[_HEADER:])
    if name not in found:
        raise InputError(f"{path} does not hold a tensor {name!r}; its header has others")
    dtype, shape, _, size = found[name]
    header = {name: {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}
    metadata = json.loads(front[_HEADER:]).get("__metadata__")
    content = json.dumps(({} if metadata is None else {"__metadata__": metadata}) | header)
    padded = content.encode().ljust(-(-len(content.encode()) // 8) * 8)
    return len(padded).to_bytes(_HEADER, "little") + padded
