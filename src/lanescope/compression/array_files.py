"""Files of arrays: cut into their arrays and what is between, and what NetCDF and safetensors hold.

The segments of a file follow each other without gaps, so that they are the file. A file that it is
an update of is cut as well, and its arrays are found by name, type and shape. The package
safetensors checks its file; the bytes are then taken from where the header says they lie, as the
package gives NumPy no bf16.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from lanescope.codec.fields import is_text
from lanescope.codec.files import open_file, reading
from lanescope.compression.array_values import array_bytes, coding_type, stored_type, value_bytes
from lanescope.compression.arrays import (
    DTYPES,
    SUFFIXES,
    TURNED,
    ArrayEntry,
    Opened,
    Values,
    dtype_name,
    npy_header,
    read_values,
    storage,
)
from lanescope.compression.stream import Stream
from lanescope.errors import InputError, argument

NPY, SAFETENSORS, RAW = "npy", "safetensors", "raw"
#: What safetensors calls types (github.com/huggingface/safetensors, README, "Format"); values of
#: others, as of 4 and 6 bits, are bytes to us.
SAFETENSORS_TYPES = {
    "BOOL": "bool",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "C64": "complex64",
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
#: Those of them that `bench compress` takes, and as what.
_TAKEN = {
    name: stored_type(dtype)
    for name, dtype in SAFETENSORS_TYPES.items()
    if dtype in DTYPES or name.startswith("F8") or name == "BOOL"
}
#: Bytes of the length in front of a header of safetensors, and of the longest header with it that
#: the format allows.
LENGTH_BYTES = 8
LONGEST_HEADER = LENGTH_BYTES + 100_000_000
#: Type, shape, first byte behind the header, bytes.
_Tensor = tuple[str, tuple[int, ...], int, int]
_HDF5 = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class FileSegment:
    """A part of a file: an array, or bytes that are none.

    Attributes
    ----------
    name
        Of the tensor; None of whatever else is in a file.
    dtype
        What its values are, as NumPy or ml_dtypes name it.
    """

    name: str | None
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Of the file."""
        return array_bytes(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class SegmentedFile:
    """A file in its segments.

    Attributes
    ----------
    kind
        One of `NPY`, `SAFETENSORS` and `RAW`.
    """

    kind: str
    segments: tuple[FileSegment, ...]


def cut(path: Path, file: BinaryIO, dtype: str | None = None) -> SegmentedFile:
    """Return the segments of an open file, whose end of the name says what it is.

    Parameters
    ----------
    dtype
        One of `DTYPES`: what the values of a file without a header are; None: what the end of its
        name says, else bytes.

    Raises
    ------
    InputError
        If it is damaged.
    """
    size = os.fstat(file.fileno()).st_size
    suffix = path.suffix.lower()
    if suffix in (".npy", ".safetensors"):
        if dtype is not None:
            raise InputError(f"{path} says itself what its values are; leave out {argument.dtype}")
        of_file = _of_npy if suffix == ".npy" else _of_safetensors
        return of_file(path, file, size)
    kind = dtype or SUFFIXES.get(suffix, "uint8")
    if kind not in DTYPES:
        raise InputError(f"{argument.dtype} {kind!r} is not known; give one of {', '.join(DTYPES)}")
    values = FileSegment(None, kind, (size // value_bytes(kind),))
    return SegmentedFile(RAW, _with_rest([values], size))


def _with_rest(segments: list[FileSegment], size: int) -> tuple[FileSegment, ...]:
    """Return segments with the bytes behind them, where there are some."""
    rest = size - sum(one.bytes for one in segments)
    return tuple([*segments, _bytes(rest)] if rest else segments)


def _bytes(count: int) -> FileSegment:
    return FileSegment(None, "uint8", (count,))


def _of_npy(path: Path, file: BinaryIO, size: int) -> SegmentedFile:
    shape, _, kind, begin = npy_header(path, file)
    if kind.hasobject:
        raise InputError(
            f"{path} holds Python objects, which are no values; convert them, as with "
            "astype('float64')"
        )
    needed = begin + int(np.prod(shape, dtype=object)) * kind.itemsize
    if size < needed:
        raise InputError(
            f"{path} is cut off: it has {size} bytes, and its header says {needed}; copy or write "
            "it again"
        )
    return SegmentedFile(NPY, _with_rest([_bytes(begin), _array_of(kind, shape)], size))


def _array_of(kind: np.dtype[Any], shape: tuple[int, ...]) -> FileSegment:
    """Return the segment of an array of NumPy, as what codecs know best of its bits."""
    dtype = coding_type(kind)
    each = value_bytes(dtype)
    return FileSegment(
        None, dtype, shape if kind.itemsize == each else (*shape, kind.itemsize // each)
    )


def _of_safetensors(path: Path, file: BinaryIO, size: int) -> SegmentedFile:
    with reading(path):
        file.seek(0)
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        if size < LENGTH_BYTES or length > min(size, LONGEST_HEADER) - LENGTH_BYTES:
            raise _damaged(path, "its header does not lie within it")
        header = tensors_of(path, file.read(length))
    found = [_bytes(LENGTH_BYTES + length)]
    end = LENGTH_BYTES + length
    for name, (dtype, shape, begin, bytes_) in sorted(header.items(), key=_place):
        begin += LENGTH_BYTES + length
        if begin < end or begin + bytes_ > size:
            raise _damaged(path, f"tensor {name!r} overlaps another one, or does not lie within it")
        tensor = FileSegment(name, SAFETENSORS_TYPES.get(dtype, ""), shape)
        if not tensor.dtype:
            tensor = FileSegment(name, "uint8", (bytes_,))
        elif tensor.bytes != bytes_:
            raise _damaged(path, f"tensor {name!r} has {bytes_} bytes, and its shape needs others")
        found += [_bytes(begin - end), tensor] if begin > end else [tensor]
        end = begin + bytes_
    return SegmentedFile(SAFETENSORS, _with_rest(found, size))


def _place(item: tuple[str, _Tensor]) -> tuple[int, int]:
    _, _, begin, bytes_ = item[1]
    return begin, bytes_


def tensors_of(path: Path, header: bytes) -> dict[str, _Tensor]:
    """Return what a header of safetensors says of its tensors.

    Raises
    ------
    InputError
        If it is none.
    """
    try:
        found = json.loads(header)
        tensors = {name: _tensor(about) for name, about in found.items() if name != "__metadata__"}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _damaged(path, "its header is none of safetensors") from error
    for name in tensors:
        if not is_text(name):
            raise _damaged(path, f"the name of tensor {name!r} is no text")
    return tensors


def _tensor(about: Any) -> _Tensor:
    """Return what a header says of a tensor; raises `ValueError` and others if it is wrong."""
    begin, end = about["data_offsets"]
    numbers = [*about["shape"], begin, end]
    if not all(type(one) is int and 0 <= one < 1 << 62 for one in numbers) or begin > end:
        raise ValueError("no size")
    if not isinstance(about["dtype"], str):
        raise TypeError("no type")
    return about["dtype"], tuple(about["shape"]), begin, end - begin


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"{path} is no whole file of safetensors: {why}; copy or write it again")


class BaseFile:
    """A file of arrays, open to be read in parts.

    Parameters
    ----------
    dtype
        What values of a file without a header are.

    Raises
    ------
    InputError
        If it cannot be read, or is damaged.
    """

    def __init__(self, path: Path, dtype: str | None = None) -> None:
        self.path = path
        has_header = path.suffix.lower() in (f".{NPY}", f".{SAFETENSORS}")
        with ExitStack() as stack:
            with reading(path):
                self._file = stack.enter_context(open_file(path))
                pieces = cut(path, self._file, None if has_header else dtype)
                self.bytes = sum(one.bytes for one in pieces.segments)
            self._closing = stack.pop_all()
        self._begins: dict[FileSegment, int] = {}
        arrays, begin = set(arrays_of(pieces)), 0
        for number, one in enumerate(pieces.segments):
            if number in arrays:
                self._begins[one] = begin
            begin += one.bytes

    def close(self) -> None:
        """Close the file."""
        self._closing.close()

    def has(self, array: FileSegment) -> bool:
        """Return whether it holds one of that name, type and shape."""
        return array in self._begins

    def part(self, array: FileSegment, begin: int, size: int) -> Any:
        """Return some bytes of an array, as values, in memory of their own.

        Raises
        ------
        InputError
            If they cannot be read.
        """
        room: Stream = np.empty(size, np.uint8)
        with reading(self.path):
            self._file.seek(self._begins[array] + begin)
            count = cast(BufferedReader, self._file).readinto(room.data)
        if count != size:
            raise InputError(
                f"{self.path} changed while it was read; give it again when nobody writes to it"
            )
        return as_values(room, array)


def arrays_of(pieces: SegmentedFile) -> list[int]:
    """Return which segments of a file are its arrays, and not what stands around them."""
    numbers = range(len(pieces.segments))
    if pieces.kind == SAFETENSORS:
        return [i for i in numbers if pieces.segments[i].name is not None]
    first = {NPY: 1, RAW: 0}[pieces.kind]
    return [i for i in numbers if i == first]


def as_values(room: Stream, array: FileSegment) -> Any:
    """Return bytes of an array as the values that codecs know."""
    dtype = stored_type(array.dtype)
    return room.view(np.uint16 if dtype == "bfloat16" else dtype)


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


def _netcdf_entry(path: Path, name: str, dtype: str, shape: tuple[int, ...]) -> ArrayEntry:
    def load() -> Values:
        with _netcdf_file(path, mapped=False) as file:
            return np.array(file.variables[name].data, dtype=storage(dtype), order="C")

    return ArrayEntry(f"{path}:{name}", dtype, shape, load, note=TURNED)


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
        raise _damaged(path, str(error)) from error
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        tensors = tensors_of(path, file.read(length))
    entries, left_out = [], []
    for name, (kind, shape, begin, _) in tensors.items():
        if kind == "C64":
            left_out.append(f"{name} holds {kind}, which is measured as real numbers alone")
        elif kind not in _TAKEN:
            left_out.append(f"{name} holds {kind}, which no codec takes")
        elif 0 in shape:
            left_out.append(f"{name} holds no values")
        else:
            entries.append(_tensor_entry(path, name, kind, shape, LENGTH_BYTES + length + begin))
    return Opened(tuple(entries), tuple(left_out))


def _tensor_entry(
    path: Path, name: str, kind: str, shape: tuple[int, ...], begin: int
) -> ArrayEntry:
    dtype = _TAKEN[kind]

    def load() -> Values:
        return read_values(path, storage(dtype), begin, shape)

    note = "fp8 as bytes" if kind.startswith("F8") else ""
    return ArrayEntry(f"{path}:{name}", dtype, shape, load, note=note)


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
    found = tensors_of(path, front[LENGTH_BYTES:])
    if name not in found:
        raise InputError(f"{path} does not hold a tensor {name!r}; its header has others")
    dtype, shape, _, size = found[name]
    header = {name: {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}
    metadata = json.loads(front[LENGTH_BYTES:]).get("__metadata__")
    content = json.dumps(({} if metadata is None else {"__metadata__": metadata}) | header)
    padded = content.encode().ljust(-(-len(content.encode()) // 8) * 8)
    return len(padded).to_bytes(LENGTH_BYTES, "little") + padded
