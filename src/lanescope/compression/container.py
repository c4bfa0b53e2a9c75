"""The format of compressed files: what stands around the streams (docs/compression-format.md)."""

from __future__ import annotations

import dataclasses
import json
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lanescope.codec.fields import build
from lanescope.codec.files import MOST_TEXT_BYTES, fields_of, parse_json, require_version
from lanescope.compression.array_files import FileSegment
from lanescope.compression.array_values import STORED, stored_type, value_bytes
from lanescope.compression.codec import most_bytes
from lanescope.compression.stream import Codec, StreamInfo
from lanescope.errors import InputError

ENDING = ".lsc"
#: Of files that need no base; those that do have the other one.
VERSION, UPDATE_VERSION = 1, 2
#: Of a segment, that one stream holds: memory for a file of any size is a few times this.
PART_BYTES = 32 << 20
FRONT = struct.pack("<4s12x", b"LSCF")
#: Where the index lies, its length, its CRC-32, zeros.
_TRAILER = struct.Struct("<QQI8s4s")
_END = (bytes(8), b"FCSL")
_STREAM, _PARCEL = b"LSCZ", b"LSCP"
KNOWN_TYPES = {
    *STORED,
    *("float16", "bfloat16", "float32", "float64"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
}


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream in a compressed file.

    Attributes
    ----------
    stored_bytes
        Of the stream.
    checksum
        Of its header and its table of blocks, as stands in bytes 36 to 39.
    base
        Of an update: the checksum of its base, 16 hexadecimal digits.
    """

    codec: Codec
    stored_bytes: int
    checksum: int
    base: str | None = None


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment in a compressed file; see `FileSegment`."""

    name: str | None
    dtype: str
    shape: tuple[int, ...]
    parts: tuple[StoredStream, ...]

    @property
    def segment(self) -> FileSegment:
        """What it holds."""
        return FileSegment(self.name, self.dtype, self.shape)

    @property
    def stored_bytes(self) -> int:
        """Of its streams."""
        return sum(part.stored_bytes for part in self.parts)

    @property
    def needs_base(self) -> bool:
        """Whether one of its parts is an update."""
        return any(part.base is not None for part in self.parts)

    @property
    def part_bytes(self) -> list[int]:
        """Of the file, in each part."""
        return part_sizes(self.segment.bytes)

    @property
    def codecs(self) -> list[str]:
        """Of its parts, each once."""
        return list(dict.fromkeys(str(part.codec) for part in self.parts))


@dataclass(frozen=True, slots=True)
class BaseName:
    """The file that another one is an update of.

    Attributes
    ----------
    name
        As it was called, without its folder.
    """

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Index:
    """What a compressed file holds.

    Attributes
    ----------
    kind
        Of the file that was compressed: ``npy``, ``safetensors`` or ``raw``.
    base
        The file that is needed to read it, or some of its arrays; None: it needs none.
    """

    version: int
    kind: str
    segments: tuple[StoredSegment, ...]
    base: BaseName | None = None

    @property
    def bytes(self) -> int:
        """Of the file that was compressed."""
        return sum(one.segment.bytes for one in self.segments)


def part_sizes(size: int) -> list[int]:
    """Return the bytes of each part of a segment of so many."""
    return [min(PART_BYTES, size - begin) for begin in range(0, size, PART_BYTES)]


def write_index(file: BinaryIO, index: Index, source: Path) -> int:
    """Write what stands behind the streams; return the bytes of the whole file.

    Parameters
    ----------
    source
        The file that was compressed.

    Raises
    ------
    InputError
        If `read_index` would refuse it: so nobody deletes a file that does not come back.
    """
    content = _index_json(index)
    begin = file.tell()
    try:
        _require_readable(content, begin, source)
    except InputError as error:
        raise InputError(
            f"{source} cannot be compressed as what it is ({error}); give it another ending, such "
            "as .bin, to compress its bytes"
        ) from error
    file.write(content)
    file.write(_TRAILER.pack(begin, len(content), zlib.crc32(content), *_END))
    return file.tell()


def file_bytes(index: Index) -> int:
    """Return the bytes of the whole file whose index this is."""
    streams = sum(one.stored_bytes for one in index.segments)
    return len(FRONT) + streams + len(_index_json(index)) + _TRAILER.size


def _index_json(index: Index) -> bytes:
    # what needs no base is read by programs that know of none
    fields = dataclasses.asdict(index, dict_factory=_without_none_base)
    return json.dumps(fields, separators=(",", ":")).encode()


def _without_none_base(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in fields if key != "base" or value is not None}


def read_index(path: Path, file: BinaryIO) -> Index:
    """Read and check what a compressed file says of itself, not its streams.

    Raises
    ------
    InputError
        If it is none, cut off or changed.
    """
    size = os.fstat(file.fileno()).st_size
    front = file.read(len(FRONT))
    if front[:4] == _STREAM:
        raise InputError(
            f"{path} is a stream of lanescope.compress and no compressed file; read its bytes and "
            "give them to lanescope.decompress"
        )
    if front[:4] == _PARCEL:
        raise InputError(
            f"{path} is a parcel of a channel and no compressed file; read it by read_parcel of "
            "lanescope.compression.parcels"
        )
    if front[:4] != FRONT[:4]:
        raise InputError(
            f"{path} is no compressed file: it does not begin with {FRONT[:4].decode()}; name one "
            "that 'lanescope compress' wrote"
        )
    if front != FRONT or size < len(FRONT) + _TRAILER.size:
        raise damaged(path, "its beginning was changed, or it is cut off")
    file.seek(size - _TRAILER.size)
    begin, length, checksum, *end = _TRAILER.unpack(file.read(_TRAILER.size))
    if tuple(end) != _END or begin + length + _TRAILER.size != size or length > MOST_TEXT_BYTES:
        raise damaged(path, "its end is missing, or something stands behind it")
    file.seek(begin)
    content = file.read(length)
    if zlib.crc32(content) != checksum:
        raise damaged(path, "the checksum of its index does not fit")
    index = _index_of(content, path)
    _require_sizes(path, index, begin)
    return index


def _require_readable(content: bytes, end: int, path: Path) -> None:
    if len(content) > MOST_TEXT_BYTES:
        raise InputError(f"its arrays need an index of more than {MOST_TEXT_BYTES >> 20} MiB")
    _require_sizes(path, _index_of(content, path), end)


def damaged(path: Path, why: str) -> InputError:
    """Return the error of a file that cannot be read as it is."""
    return InputError(f"{path} is damaged: {why}; copy it again")


def _index_of(content: bytes, path: Path) -> Index:
    try:
        table: Any = parse_json(content.decode(), str(path))
    except UnicodeDecodeError as error:
        raise damaged(path, "its index is no text") from error
    with fields_of(path):
        if isinstance(table, dict):
            require_version(table.get("version"), UPDATE_VERSION, path)
        return build(Index, table)


def _require_sizes(path: Path, index: Index, end: int) -> None:
    """Refuse an index whose streams do not lie where it says, or are longer than they can be.

    So no file makes whoever reads it take more memory than a part needs.
    """
    begin = len(FRONT)
    if any(one.needs_base for one in index.segments) and index.base is None:
        raise damaged(path, "its index does not say which base it needs")
    for one in index.segments:
        if one.dtype not in KNOWN_TYPES:
            raise damaged(path, f"its index has values of {one.dtype[:40]!r}, which is no type")
        # before there is a list of them, which a size made up would make endless
        if -(-one.segment.bytes // PART_BYTES) != len(one.parts):
            raise damaged(path, "its index has not all parts of an array")
        for part, size in zip(one.parts, one.part_bytes, strict=True):
            if part.stored_bytes > most_bytes(size, 2) or part.stored_bytes % 16:
                raise damaged(path, "its index has a stream of a length that none has")
            begin += part.stored_bytes
    if begin != end:
        raise damaged(path, "its streams are not as long as its index says")


def base_text(info: StreamInfo) -> str | None:
    """Return the checksum of a stream's base as an index has it."""
    return None if info.base_checksum is None else f"{info.base_checksum:016x}"


def require_part(info: StreamInfo, stream: Any, one: StoredSegment, number: int) -> None:
    """Refuse a stream that is another than its index says.

    Raises
    ------
    InputError
        If it is.
    """
    part = one.parts[number]
    dtype = stored_type(one.dtype)
    fits = (
        (info.dtype, info.codec) == (dtype, part.codec)
        and info.shape == (one.part_bytes[number] // value_bytes(dtype),)
        and int.from_bytes(stream[36:40].tobytes(), "little") == part.checksum
        and base_text(info) == part.base
    )
    if not fits:
        raise InputError("it is another stream than the index of the file says")
