"""The file whose arrays another one is an update of: found by name, type and shape."""

from __future__ import annotations

from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import numpy as np

from lanescope.codec.files import open_file, reading
from lanescope.compression.meanings import stored_type
from lanescope.compression.segments import NPY, RAW, SAFETENSORS, Cut, Segment, cut
from lanescope.compression.stream import Stream
from lanescope.errors import InputError


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
        self._begins: dict[Segment, int] = {}
        arrays, begin = set(arrays_of(pieces)), 0
        for number, one in enumerate(pieces.segments):
            if number in arrays:
                self._begins[one] = begin
            begin += one.bytes

    def close(self) -> None:
        """Close the file."""
        self._closing.close()

    def has(self, array: Segment) -> bool:
        """Return whether it holds one of that name, type and shape."""
        return array in self._begins

    def part(self, array: Segment, begin: int, size: int) -> Any:
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


def arrays_of(pieces: Cut) -> list[int]:
    """Return which segments of a file are its arrays, and not what stands around them."""
    numbers = range(len(pieces.segments))
    if pieces.kind == SAFETENSORS:
        return [i for i in numbers if pieces.segments[i].name is not None]
    first = {NPY: 1, RAW: 0}[pieces.kind]
    return [i for i in numbers if i == first]


def as_values(room: Stream, array: Segment) -> Any:
    """Return bytes of an array as the values that codecs know."""
    dtype = stored_type(array.dtype)
    return room.view(np.uint16 if dtype == "bfloat16" else dtype)
