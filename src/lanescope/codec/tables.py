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
from lanescope.codec.files import fields_of, open_file, parse_json
from lanescope.codec.parquet_footer import column_values
from lanescope.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Column = npt.NDArray[Any]
#: Rows of a group, which is read at once; lanescope and pyarrow write 2^20.
_MOST_GROUP_ROWS = 1 << 22
#: Values of tables that are read whole, of all their columns: some hundred MB.
_MOST_VALUES = 10_000_000
#: The same, where they become objects of Python.
_MOST_ROW_VALUES = 4_000_000


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


def table_of(columns: Mapping[str, Any], schema: pa.Schema | None = None) -> pa.Table:
    """Return columns of numbers or truth values as a table.

    pyarrow's own conversion of an array loads pandas where that is installed, which takes half a
    second.

    Parameters
    ----------
    schema
        The columns' types and what is said of them; None: the types of the arrays.
    """
    import pyarrow as pa

    types = schema or pa.schema(
        {name: pa.from_numpy_dtype(np.asarray(one).dtype) for name, one in columns.items()}
    )
    arrays = []
    for name, one in columns.items():
        kind = types.field(name).type
        values = np.ascontiguousarray(one, kind.to_pandas_dtype())
        held = np.packbits(values, bitorder="little") if kind == pa.bool_() else values
        arrays.append(pa.Array.from_buffers(kind, values.size, [None, pa.py_buffer(held)]))
    return pa.Table.from_arrays(arrays, schema=types)


def open_table(path: Path, inner: int = 1) -> pq.ParquetFile:
    """Return a Parquet file, its header read.

    Parameters
    ----------
    inner
        How many of the path's last names lie in a run folder: see `open_file`.

    Raises
    ------
    InputError
        If it cannot be read, or is no Parquet file.
    """
    import pyarrow.parquet as pq

    with table_errors(path), open_file(path, inner) as file:
        # by its descriptor: pyarrow opens what was looked at, and reads without Python
        held = f"/proc/self/fd/{file.fileno()}"
        found = pq.ParquetFile(held, page_checksum_verification=True)
    groups = range(found.metadata.num_row_groups)
    if any(found.metadata.row_group(group).num_rows > _MOST_GROUP_ROWS for group in groups):
        raise InputError(
            f"{path} has more than {_MOST_GROUP_ROWS} rows in a group, which no run has; name "
            "another run"
        )
    return found


def require_columns(
    schema: pa.Schema, path: Path, wanted: Mapping[str, Holds], optional: Collection[str] = ()
) -> None:
    """Check that columns are there, once, and of their types; raises `InputError`."""
    for name, holds in wanted.items():
        there = schema.names.count(name)
        if there == 0 and name in optional:
            continue
        if there != 1:
            found = f"has {there} columns {name!r}, not one" if there else f"has no column {name!r}"
            raise InputError(f"{path} {found}; name another run")
        if not holds.fits(schema.field(name).type):
            raise InputError(
                f"{path}: the column {name!r} is of type {schema.field(name).type}, it must hold "
                f"{holds.words}; name another run"
            )


def read_columns(
    path: Path, wanted: Mapping[str, Holds], optional: Collection[str] = (), inner: int = 1
) -> dict[str, Column]:
    """Return the columns of a table that are wanted and there, all values known and finite.

    Raises
    ------
    InputError
        If the file cannot be read, or a column is missing or holds something else.
    """
    with open_table(path, inner) as file:
        require_columns(file.schema_arrow, path, wanted, optional)
        names = [name for name in wanted if name in file.schema_arrow.names]
        require_short(path, file.metadata.num_rows * len(names))
        with table_errors(path):
            table = file.read(columns=names)
        return {name: values_of(table.column(name), path, name) for name in names}


def require_short(path: Path, values: int, most: int = _MOST_VALUES) -> None:
    """Refuse a table of more values, those in lists included; raises `InputError`."""
    if values > most:
        raise InputError(f"{path} has {values} values, more than any run has; name another run")


def read_rows(path: Path, inner: int = 1) -> list[dict[str, Any]]:
    """Return the rows of a table as plain values; raises `InputError` as `open_table` does."""
    with table_errors(path), open_file(path, inner) as footer:
        values = sum(column_values(footer))
    with open_table(path, inner) as file, table_errors(path):
        names = file.schema_arrow.names
        require_short(path, max(values, file.metadata.num_rows), _MOST_ROW_VALUES)
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(f"{path} has two columns {twice[0]!r}; name another run")
        rows: list[dict[str, Any]] = file.read().to_pylist()
        return rows


def values_of(column: pa.ChunkedArray, path: Path, name: str) -> Column:
    """Return the values of a column; raises `InputError` if one is missing or not finite."""
    if column.null_count:
        raise InputError(f"{path}: the column {name!r} lacks values; name another run")
    with table_errors(path):
        values = _numpy_of(column)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"{path}: the column {name!r} holds no finite number; name another run")
    return values


def _numpy_of(column: pa.ChunkedArray) -> Column:
    """Return values that are all known, without pandas: see `table_of`."""
    from pyarrow import types

    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
        encoded = column if types.is_dictionary(kind) else column.dictionary_encode()
        parts = [_texts(chunk) for chunk in encoded.chunks]
        return np.concatenate([np.empty(0, object), *parts])
    if types.is_boolean(kind):
        bits = [_bits(chunk) for chunk in column.chunks]
        return np.concatenate([np.empty(0, bool), *bits])
    parts = [_numbers(chunk) for chunk in column.chunks if len(chunk)]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.empty(0, kind.to_pandas_dtype()), *parts])


def _numbers(chunk: pa.Array) -> Column:
    kind = chunk.type
    begin = chunk.offset * kind.bit_width // 8
    return np.frombuffer(chunk.buffers()[1], kind.to_pandas_dtype(), len(chunk), begin)


def _bits(chunk: pa.Array) -> Column:
    held = np.frombuffer(chunk.buffers()[1] or b"", np.uint8)
    found = np.unpackbits(held, count=chunk.offset + len(chunk), bitorder="little")
    return found[chunk.offset :].astype(bool)


def _texts(chunk: pa.DictionaryArray) -> Column:
    words = np.empty(len(chunk.dictionary), object)
    words[:] = chunk.dictionary.to_pylist()
    return words[_numbers(chunk.indices)] if len(chunk) else words[:0]


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
