"""Arrays that users have: in files, each told before any of it is read."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lanescope.codec.files import open_file, reading
from lanescope.errors import InputError, argument

Values = NDArray[Any]

#: What the values of files without a header are, by the end of the file's name.
SUFFIXES = {
    ".f64": "float64",
    ".f32": "float32",
    ".f16": "float16",
    ".bf16": "bfloat16",
    ".i8": "int8",
    ".i16": "int16",
    ".i32": "int32",
    ".i64": "int64",
    ".u8": "uint8",
    ".u16": "uint16",
    ".u32": "uint32",
    ".u64": "uint64",
}
#: Types that can be compressed.
DTYPES = tuple(SUFFIXES.values())
_NETCDF = (".nc", ".cdf", ".nc3", ".nc4")
#: What is told of arrays whose bytes were of another order.
TURNED = "byte order turned"


@dataclass(frozen=True, slots=True)
class ArrayEntry:
    """One array that is to be compressed.

    Attributes
    ----------
    name
        By which the user knows it: the file, and the array in it where it holds several.
    dtype
        One of `DTYPES`.
    load
        Returns the values in C order and this machine's byte order, bf16 as uint16; where that
        can be, they are mapped from the file and not copied.
    made_up
        Whether it is an example of lanescope's own.
    note
        What was done to the file's bytes; empty where nothing was.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    load: Callable[[], Values]
    made_up: bool = False
    note: str = ""

    @property
    def bytes(self) -> int:
        """Of all its values."""
        return prod(self.shape) * storage(self.dtype).itemsize


class NothingToCompressError(InputError):
    """A file is whole, and no codec takes what it holds."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a file holds.

    Attributes
    ----------
    left_out
        A sentence for each array that cannot be compressed, and why.
    """

    entries: tuple[ArrayEntry, ...]
    left_out: tuple[str, ...] = ()


def open_arrays(path: Path, dtype: str | None = None) -> Opened:
    """Return the arrays of a file.

    Parameters
    ----------
    path
        ``.npy``, ``.safetensors``, classic NetCDF, or values one after the other without a
        header, in this machine's byte order.
    dtype
        One of `DTYPES`: what such values are; or ``bfloat16`` of a ``.npy`` of two-byte values.

    Raises
    ------
    NothingToCompressError
        If it holds nothing that can be compressed.
    InputError
        If it cannot be read.
    """
    if dtype is not None and dtype not in DTYPES:
        raise InputError(
            f"{argument.dtype} {dtype!r} is not known; give one of {', '.join(DTYPES)}"
        )
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; name the files in it")
        with open_file(path) as file:  # what is no regular file would seem to be empty
            size = os.fstat(file.fileno()).st_size
        return _opened(path, size, dtype)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot read {path}: {reason}; name a file of arrays") from error


def _opened(path: Path, size: int, dtype: str | None) -> Opened:
    if size == 0:
        raise NothingToCompressError(f"{path} is empty; name a file that holds values")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return Opened((_npy(path, size, dtype),))
    if suffix in (".safetensors", *_NETCDF) and dtype is not None:
        raise InputError(f"{path} tells its types itself; leave out {argument.dtype}")
    if suffix == ".safetensors":
        from lanescope.compression.array_files import safetensors_arrays

        return _some(path, safetensors_arrays(path))
    if suffix in _NETCDF:
        from lanescope.compression.array_files import netcdf_arrays

        return _some(path, netcdf_arrays(path))
    kind = dtype or SUFFIXES.get(suffix)
    if kind is None:
        raise InputError(
            f"{path} is of no kind that is known by its name: give .npy, .safetensors, .nc, "
            f"{', '.join(SUFFIXES)}, or say with {argument.dtype} what its bytes are"
        )
    return Opened((_raw(path, size, kind),))


def _some(path: Path, opened: Opened) -> Opened:
    if not opened.entries:
        why = opened.left_out[0] if opened.left_out else "it holds no arrays"
        raise NothingToCompressError(f"{path} holds nothing that can be compressed: {why}")
    return opened


def storage(dtype: str) -> np.dtype[Any]:
    """Return the NumPy type in which values lie; there is none for bf16."""
    return np.dtype(np.uint16 if dtype == "bfloat16" else dtype)


def read_values(path: Path, kind: np.dtype[Any], offset: int, shape: tuple[int, ...]) -> Values:
    """Return values of a file, in memory of their own.

    They are not mapped: of a mapped file that somebody truncates meanwhile, the next look at a
    value ends the process.

    Parameters
    ----------
    offset
        Of the first value in the file, bytes.

    Raises
    ------
    InputError
        If they are not all there, or cannot be read.
    """
    with reading(path), open_file(path) as file:
        file.seek(offset)
        values: Values = np.fromfile(file, kind, prod(shape))
    if values.size != prod(shape):
        raise InputError(
            f"{path} has been truncated since it was opened: {values.size} of its {prod(shape)} "
            "values are there; give it again when nobody writes to it"
        )
    values.setflags(write=False)
    return values.reshape(shape)


def dtype_name(dtype: np.dtype[Any]) -> str | None:
    """Return the type of `DTYPES` that a NumPy type is, whatever its byte order, or None."""
    if dtype.kind == "b":
        return "uint8"
    return dtype.newbyteorder("=").name if dtype.newbyteorder("=").name in DTYPES else None


def _raw(path: Path, size: int, dtype: str) -> ArrayEntry:
    item = storage(dtype).itemsize
    if size % item:
        raise NothingToCompressError(
            f"{path} has {size} bytes, no whole number of {dtype} values of {item}; say with "
            f"{argument.dtype} what they are"
        )
    shape = (size // item,)
    return ArrayEntry(str(path), dtype, shape, lambda: read_values(path, storage(dtype), 0, shape))


def _npy(path: Path, size: int, dtype: str | None) -> ArrayEntry:
    with reading(path), open_file(path) as file:
        shape, fortran, kind, offset = npy_header(path, file)
    name = _npy_dtype(path, kind, dtype)
    if 0 in shape:
        raise NothingToCompressError(
            f"{path} holds an array of shape {shape}, without values; name another"
        )
    needed = offset + prod(shape) * kind.itemsize
    if size < needed:
        raise InputError(
            f"{path} is cut off: it has {size} bytes and its header tells of {needed}; copy or "
            "write it again"
        )
    stored_shape = shape[::-1] if fortran else shape
    swapped = not kind.isnative

    def load() -> Values:
        values = read_values(path, kind, offset, stored_shape)
        if swapped:
            return values.astype(kind.newbyteorder("="))
        return values.view(storage(name)) if values.dtype != storage(name) else values

    notes = ["in Fortran order: transposed"] if fortran and len(shape) > 1 else []
    notes += [TURNED] if swapped else []
    return ArrayEntry(str(path), name, stored_shape, load, note=", ".join(notes))


def npy_header(path: Path, file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, whether in Fortran order, type and first byte of the array of an open ``.npy``.

    Raises
    ------
    InputError
        If it is none.
    """
    form = np.lib.format
    try:
        version = form.read_magic(file)
        read = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
        with warnings.catch_warnings():
            # that a header of Python 2 takes longer: nobody writes this file again for that
            warnings.simplefilter("ignore", UserWarning)
            shape, fortran, kind = read(file)
    except (ValueError, TypeError, SyntaxError, TokenError, RecursionError) as error:
        # what NumPy's parser says but as a ValueError, or of its own objects, is of no use
        useless = not isinstance(error, ValueError) or " at 0x" in str(error)
        why = "its header cannot be read" if useless else _first(error)
        advice = "copy or write it again"
        if why.startswith("EOF"):
            file.seek(0)
            if form.MAGIC_PREFIX.startswith(file.read(len(form.MAGIC_PREFIX))):
                raise InputError(f"{path} is empty or cut off; copy or write it again") from error
            why, advice = "it begins as none", "name another file"
        if why.startswith("Header info length"):  # NumPy would have an option of its own set
            raise InputError(
                f"{path} has a longer header than NumPy reads safely; give it a name without .npy, "
                "and it is compressed as bytes"
            ) from error
        raise InputError(f"{path} is no array of NumPy: {why}; {advice}") from error
    # NumPy takes true for 1, and what is negative for as many values as there are
    if not all(type(side) is int and 0 <= side < 1 << 63 for side in shape):
        raise InputError(
            f"{path} is no array of NumPy: its header has the shape {_first(shape)}, which no "
            "array has; copy or write it again"
        )
    return shape, fortran, kind, file.tell()


def _npy_dtype(path: Path, kind: np.dtype[Any], dtype: str | None) -> str:
    if kind.hasobject:
        raise NothingToCompressError(
            f"{path} holds Python objects, which are no values that can be compressed; convert "
            "them, as with astype('float64')"
        )
    if dtype is not None:
        if storage(dtype).itemsize != kind.itemsize:
            raise InputError(
                f"{path} holds {kind}, which cannot be {dtype}: its values have another size; "
                f"leave out {argument.dtype}"
            )
        return dtype
    name = dtype_name(kind)
    if name is None:
        if kind.kind == "V" and kind.itemsize == 2 and kind.fields is None:
            raise NothingToCompressError(
                f"{path} holds values of 2 bytes; say {argument.dtype} bfloat16 if they are"
            )
        why = "no codec takes; give another type"
        if kind.kind == "c":
            why = "is measured as real numbers alone; view it as such"
        raise NothingToCompressError(f"{path} holds {kind}, which {why}: {', '.join(DTYPES)}")
    return name


def _first(words: object) -> str:
    return " ".join(str(words).split())[:200]
