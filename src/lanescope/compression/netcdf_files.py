"""Variables of classic NetCDF files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.compression.arrays import TURNED, Entry, Opened, Values, dtype_name, storage
from lanescope.errors import InputError

_HDF5 = b"\x89HDF\r\n\x1a\n"


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
    with _file(path, mapped=True) as file:  # no value is looked at
        for name, variable in file.variables.items():
            values = variable.data
            dtype = dtype_name(values.dtype)
            if dtype is None:
                left_out.append(f"{name} holds {values.dtype}, which no codec takes")
            elif values.size == 0:
                left_out.append(f"{name} holds no values")
            else:
                entries.append(_entry(path, name, dtype, values.shape))
            del values
        del variable
    return Opened(tuple(entries), tuple(left_out))


def _entry(path: Path, name: str, dtype: str, shape: tuple[int, ...]) -> Entry:
    def load() -> Values:
        with _file(path, mapped=False) as file:
            return np.array(file.variables[name].data, dtype=storage(dtype), order="C")

    return Entry(f"{path}:{name}", dtype, shape, load, note=TURNED)


@contextmanager
def _file(path: Path, *, mapped: bool) -> Iterator[Any]:
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
