"""Variables of classic NetCDF files, and tensors of ``.safetensors`` files.

The package safetensors checks its file; the bytes are then taken from where the header says they
lie, as the package gives NumPy no bf16.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.compression.arrays import (
    TURNED,
    Entry,
    Opened,
    Values,
    dtype_name,
    read_values,
    storage,
)
from lanescope.compression.segments import tensors_of
from lanescope.errors import InputError

_HDF5 = b"\x89HDF\r\n\x1a\n"
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


def netcdf_arrays(path: Path) -> Opened:
    """Return every variable of a classic file; its values are big-endian there, and turned.

    Raises
    ------
    InputError
        If it is another kind of file, or broken.
    """
    with path.open("rb") as file:
        magic = file.read(len(_HDF5))
    if magic == _HDF5:
        raise InputError(
            f"{path} is netCDF-4, which takes h5py or netCDF4 to read and lanescope does not; save "
            "its variables with numpy.save, or the file anew with 'nccopy -k classic'"
        )
    entries, left_out = [], []
    with _netcdf_file(path, mapped=True) as file:  # no value is looked at
        for name, variable in file.variables.items():
            values = variable.data
            dtype = dtype_name(values.dtype)
            if dtype is None:
                left_out.append(f"{name} holds {values.dtype}, which no codec takes")
            elif values.size == 0:
                left_out.append(f"{name} holds no values")
            else:
                entries.append(_netcdf_entry(path, name, dtype, values.shape))
            del values
        del variable
    return Opened(tuple(entries), tuple(left_out))


def _netcdf_entry(path: Path, name: str, dtype: str, shape: tuple[int, ...]) -> Entry:
    def load() -> Values:
        with _netcdf_file(path, mapped=False) as file:
            return np.array(file.variables[name].data, dtype=storage(dtype), order="C")

    return Entry(f"{path}:{name}", dtype, shape, load, note=TURNED)


@contextmanager
def _netcdf_file(path: Path, *, mapped: bool) -> Iterator[Any]:
    from scipy.io import netcdf_file

    try:
        with warnings.catch_warnings():
            # that arrays outlive the mapping: they do not, or are copied
            warnings.simplefilter("ignore", RuntimeWarning)
            with netcdf_file(path, "r", mmap=mapped) as file:
                yield file
    except InputError:
        raise
    except Exception as error:  # scipy's parser lets through whatever a broken header leads to
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{path} cannot be read as classic NetCDF: {said}; copy or write it again"
        ) from error


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
            entries.append(_tensor_entry(path, name, dtype, about, _HEADER + length))
    return Opened(tuple(entries), tuple(left_out))


def _tensor_entry(path: Path, name: str, dtype: str, about: dict[str, Any], data: int) -> Entry:
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
