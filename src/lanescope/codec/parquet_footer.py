"""The footer of a Parquet file, read before pyarrow looks into it.

pyarrow 26 ends the process where it is asked for the metadata of a column chunk that contradict
themselves, as one flipped bit makes them: no Python error comes of the exception. So how many
values chunks hold is read here. The footer is a struct of Thrift's compact protocol
(https://github.com/apache/thrift, doc/specs), whose fields are numbered in
https://github.com/apache/parquet-format (parquet.thrift).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, TypeVar

_MAGIC = b"PAR1"
_TAIL_BYTES = 8
#: Footers are shorter, and structs in them not deeper.
_MOST_BYTES, _MOST_DEPTH = 64 << 20, 16
_ROW_GROUPS, _COLUMNS, _META_DATA, _NUM_VALUES = 4, 1, 3, 5
_CRYPTO_METADATA = 8
#: Types of the compact protocol.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

Struct = dict[int, Any]
T = TypeVar("T")


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
