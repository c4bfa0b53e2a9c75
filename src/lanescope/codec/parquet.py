"""Parquet files: their columns by name and type; whatever is wrong is one sentence.

The footer is read before pyarrow looks into it: pyarrow 26 ends the process where it is asked for
the metadata of a column chunk that contradict themselves, as one flipped bit makes them, and no
Python error comes of the exception. So how many values chunks hold is read here. The footer is a
struct of Thrift's compact protocol (https://github.com/apache/thrift, doc/specs), whose fields are
numbered in https://github.com/apache/parquet-format (parquet.thrift).

pyarrow encodes the row groups of a file one after the other. Here each is encoded as a file of its
own, several at once; where they are put together, offsets in the footer move.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from lanescope.codec.fields import decode
from lanescope.codec.files import fields_of, open_file, parse_json
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
_MAGIC = b"PAR1"
_TAIL_BYTES = 8
#: Footers are shorter, and structs in them not deeper.
_MOST_BYTES, _MOST_DEPTH = 64 << 20, 16
_ROW_GROUPS, _COLUMNS, _META_DATA, _NUM_VALUES = 4, 1, 3, 5
_CRYPTO_METADATA = 8
#: Fields that hold places in the file: of a row group, a column chunk, and its metadata.
_OF_GROUP, _OF_CHUNK, _OF_META_DATA = {5}, {2}, {9, 10, 11}
#: Row groups that are encoded at once; each takes 60 MB.
_MOST_ENCODED = 3
#: Types of the compact protocol.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

Struct = dict[int, Any]
T = TypeVar("T")


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


def write_groups(
    file: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table], **options: Any
) -> None:
    """Write tables of one schema, each as row groups, into an empty file; raises OSError.

    What is written is what one `pyarrow.parquet.ParquetWriter` with these options writes. Old
    versions of pyarrow repeat the metadata of a column behind it, which no reader uses: those
    copies keep the offsets of files of their own.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def encoded(*part: pa.Table) -> pa.Buffer:
        content = pa.BufferOutputStream()
        with pq.ParquetWriter(content, schema, **options) as writer:
            for table in part:
                writer.write_table(table)
        return content.getvalue()

    whole = _Joined(file)
    threads = min(len(os.sched_getaffinity(0)), _MOST_ENCODED)
    with ThreadPoolExecutor(threads, "encoder of columns") as pool:
        coming: deque[Future[pa.Buffer]] = deque()
        for table in tables:  # the next one is made while others are encoded
            coming.append(pool.submit(encoded, table))
            del table
            if len(coming) > threads:
                whole.add(coming.popleft().result())
        while coming:
            whole.add(coming.popleft().result())
    if not whole.moved:
        whole.add(encoded())
    whole.end()


class _Joined:
    """Puts the row groups of files together in one that is empty; raises OSError.

    Attributes
    ----------
    moved
        By how many bytes each row group lies further on.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.moved: list[int] = []
        self._file, self._at = file, file.write(_MAGIC)
        self._about: pq.FileMetaData | None = None

    def add(self, content: pa.Buffer) -> None:
        """Add the row groups of a file, which has the schema of those before."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        about = pq.read_metadata(pa.BufferReader(content))
        groups = memoryview(content)[len(_MAGIC) : -_TAIL_BYTES - about.serialized_size]
        self.moved += [self._at - len(_MAGIC)] * about.num_row_groups
        self._at += self._file.write(groups)
        if self._about is None:
            self._about = about
        else:
            self._about.append_row_groups(about)

    def end(self) -> None:
        """Write the footer."""
        import pyarrow as pa

        assert self._about is not None, "a file without rows has a schema, too"
        content = pa.BufferOutputStream()
        self._about.write_metadata_file(content)
        footer = bytes(memoryview(content.getvalue())[len(_MAGIC) : -_TAIL_BYTES])
        footer = _moved(footer, self.moved)
        length = len(footer).to_bytes(_TAIL_BYTES - len(_MAGIC), "little")
        self._file.write(footer + length + _MAGIC)


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


def column_values(file: BinaryIO) -> list[int]:
    """Return how many values each column has in all row groups, those in lists included.

    Raises
    ------
    ValueError
        If the file has no footer, a damaged one, or encrypted columns.
    """
    totals: list[int] = []
    for group in _field(_footer(file), _ROW_GROUPS, list):
        chunks = _field(group, _COLUMNS, list)
        totals += [0] * (len(chunks) - len(totals))
        for at, chunk in enumerate(chunks):
            about = _field(chunk, _META_DATA, dict)
            if _CRYPTO_METADATA in chunk:
                raise ValueError("a column is encrypted")
            totals[at] += max(0, _field(about, _NUM_VALUES, int))
    return totals


def _field(struct: Any, number: int, kind: type[T]) -> T:
    """Return a field that a struct must have."""
    value = struct.get(number) if isinstance(struct, dict) else None
    if not isinstance(value, kind):
        raise ValueError(f"field {number} of its footer is missing or of another type")
    return value


def _footer(file: BinaryIO) -> Struct:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    tail = file.read(_TAIL_BYTES)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or not length <= min(size - _TAIL_BYTES, _MOST_BYTES):
        raise ValueError("it has no footer")
    file.seek(size - _TAIL_BYTES - length)
    return _Reader(file.read(length)).struct(0)


def _moved(footer: bytes, moved: Sequence[int]) -> bytes:
    """Return a footer whose row groups lie so many bytes further on in the file."""
    parts, done = [], 0
    for group, by in zip(_field(_Placed(footer).struct(0), _ROW_GROUPS, list), moved, strict=True):
        chunks = _field(group, _COLUMNS, list)
        found = [(group, _OF_GROUP), *((one, _OF_CHUNK) for one in chunks)]
        found += [(_field(one, _META_DATA, dict), _OF_META_DATA) for one in chunks]
        places = [struct[number] for struct, numbers in found for number in numbers & struct.keys()]
        for place in sorted(filter(None, places), key=lambda place: place.begin):  # 0: not told
            parts += [footer[done : place.begin], _zigzag_bytes(place + by)]
            done = place.end
    return b"".join((*parts, footer[done:]))


def _zigzag_bytes(value: int) -> bytes:
    value, found = value << 1, bytearray()
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


class _Reader:
    """Reads values of the compact protocol one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def struct(self, depth: int) -> Struct:
        """Return the fields of a struct by number."""
        if depth > _MOST_DEPTH:
            raise ValueError("it is nested beyond reason")
        fields: Struct = {}
        number = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._zigzag()
            fields[number] = self._value(kind, depth) if kind > _FALSE else kind == _TRUE
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):  # a truth value in a list is a byte
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            return list(self._items(depth))
        if kind == _MAP:
            return self._map(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ValueError(f"type {kind} is none of Thrift's")

    def _items(self, depth: int) -> Iterator[Any]:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        for _ in range(self._possible(count)):
            yield self._value(head & 15, depth)

    def _map(self, depth: int) -> dict[int, Any]:
        count = self._possible(self._varint())
        kinds = self._byte() if count else 0
        return {
            at: (self._value(kinds >> 4, depth), self._value(kinds & 15, depth))
            for at in range(count)
        }

    def _possible(self, count: int) -> int:
        """Return a number of values, each of which takes a byte at least."""
        if count > len(self._content) - self._at:
            raise ValueError("it is cut short")
        return count

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number is too long")

    def _byte(self) -> int:
        at = self._at
        if at >= len(self._content):
            raise ValueError("it is cut short")
        self._at = at + 1
        return self._content[at]

    def _bytes(self, count: int) -> bytes:
        taken = self._content[self._at : self._at + count]
        if len(taken) < count:
            raise ValueError("it is cut short")
        self._at += count
        return taken


class _Place(int):
    """A number, and where in the footer it lies."""

    begin: int
    end: int


class _Placed(_Reader):
    """Reads values, of which numbers are places."""

    def _zigzag(self) -> int:
        begin = self._at
        place = _Place(super()._zigzag())
        place.begin, place.end = begin, self._at
        return place
