"""Parquet files: their columns by name and type; whatever is wrong is one sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lanescope.codec.fields import decode
from lanescope.codec.files import fields_of, parse_json
from lanescope.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Column = npt.NDArray[Any]


class Holds(Enum):
    """What the values of a column are; the name is that of a test in `pyarrow.types`."""

    WHOLE = "is_integer"
    NUMBER = "is_floating"
    TRUTH = "is_boolean"
    TEXT = "is_string"

    def fits(self, kind: pa.DataType) -> bool:
        """Whether a column of this type holds that."""
        from pyarrow import types

        if self is Holds.TEXT and types.is_dictionary(kind):
            kind = kind.value_type
        return bool(getattr(types, self.value)(kind))

    @property
    def words(self) -> str:
        """What it holds, in words."""
        named = {Holds.WHOLE: "whole numbers", Holds.NUMBER: "numbers", Holds.TEXT: "texts"}
        return named.get(self, "truth values")


def open_table(path: Path) -> pq.ParquetFile:
    """Return a Parquet file, its header read.

    Raises
    ------
    InputError
        If it cannot be read, or is no Parquet file.
    """
    import pyarrow.parquet as pq

    with table_errors(path):
        return pq.ParquetFile(path, page_checksum_verification=True)


def require_columns(
    schema: pa.Schema, path: Path, wanted: Mapping[str, Holds], optional: Collection[str] = ()
) -> None:
    """Check that columns are there, once, and of their types; raises `InputError`."""
    for name, holds in wanted.items():
        there = schema.names.count(name)
        if there == 0 and name in optional:
            continue
        if there != 1:
            raise InputError(f"{path} has {there} columns {name!r}, not one; name another run")
        if not holds.fits(schema.field(name).type):
            raise InputError(
                f"{path}: the column {name!r} is of type {schema.field(name).type}, it must hold "
                f"{holds.words}; name another run"
            )


def read_columns(
    path: Path, wanted: Mapping[str, Holds], optional: Collection[str] = ()
) -> dict[str, Column]:
    """Return the columns of a table that are wanted and there, all values known and finite.

    Raises
    ------
    InputError
        If the file cannot be read, or a column is missing or holds something else.
    """
    with open_table(path) as file:
        require_columns(file.schema_arrow, path, wanted, optional)
        names = [name for name in wanted if name in file.schema_arrow.names]
        with table_errors(path):
            table = file.read(columns=names)
        return {name: values_of(table.column(name), path, name) for name in names}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table as plain values; raises `InputError` as `open_table` does."""
    with open_table(path) as file, table_errors(path):
        names = file.schema_arrow.names
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(f"{path} has two columns {twice[0]!r}; name another run")
        rows: list[dict[str, Any]] = file.read().to_pylist()
        return rows


def values_of(column: pa.ChunkedArray, path: Path, name: str) -> Column:
    """Return the values of a column; raises `InputError` if one is missing or not finite."""
    if column.null_count:
        raise InputError(f"{path}: the column {name!r} lacks values; name another run")
    with table_errors(path):
        values: Column = column.to_numpy()
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"{path}: the column {name!r} holds no finite number; name another run")
    return values


def metadata_of(file: pq.ParquetFile, path: Path, key: str, hint: Any) -> Any:
    """Return what a table's header says under a key, as JSON of a type; raises `InputError`."""
    held = (file.schema_arrow.metadata or {}).get(key.encode())
    if held is None:
        raise InputError(f"{path} does not say its {key}; name another run")
    text = held.decode("utf-8", "replace")
    with fields_of(path, "name another run"):
        return decode(hint, parse_json(text, f"{path}, {key}"), key)


@contextmanager
def table_errors(path: Path) -> Iterator[None]:
    """Turn what pyarrow raises about a file into one sentence."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (OSError, MemoryError, ArithmeticError, LookupError, ValueError, pa.ArrowException) as e:
        if isinstance(e, OSError) and e.errno:
            import os

            why = os.strerror(e.errno)
            raise InputError(f"cannot read {path}: {why}; name another run") from e
        raise InputError(
            f"{path} is no Parquet file, or is damaged or cut short; name another run"
        ) from e
