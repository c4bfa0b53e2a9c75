"""Parcels: held within a limit of bytes, and as files that are read without a GPU.

What stands in a file before their streams is in docs/compression-format.md.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from math import prod
from pathlib import Path
from threading import RLock
from typing import Any, BinaryIO, cast
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from lanescope._core import native
from lanescope.calls import checked, shown
from lanescope.codec.fields import PositiveInt, build
from lanescope.codec.files import fields_of, open_file, parse_json, reading, write_named
from lanescope.compression.array_values import (
    coded_dtype,
    cupy_type,
    dtype_name,
    numpy_type,
    value_bytes,
)
from lanescope.compression.codec import require_threads
from lanescope.compression.container import KNOWN_TYPES
from lanescope.compression.deciding import Decision, dtype_of
from lanescope.compression.pages import PageGroup, PageParcel, PageRun, offsets_of, padded
from lanescope.compression.stream import as_bytes, input_errors, require_size
from lanescope.compression.transfers import Parcel, core_errors
from lanescope.errors import InputError
from lanescope.kinds import StrPath
from lanescope.units.sizes import Size, size_of

ENDING = ".lsp"
MAGIC = b"LSCP"
VERSION = 1
MOST_PAGES = 1 << 20
#: Magic, version, zeros, length of the description, its CRC-32.
_FRONT = struct.Struct("<4sB3xII")
_MOST_DESCRIPTION = 16 << 20
_HEADER_BYTES = 40
_BLOCK_BYTES = 64 << 10
_BLOCKS_AT_ONCE = 64
_KINDS = ("array", "pages")


@checked
def read_parcel(
    source: Any,
    *,
    framework: str = "numpy",
    threads: int = 0,
    max_bytes: Size | None = None,
) -> Any:
    """Return the array, or the list of pages, of a parcel that was saved; no GPU is needed.

    Parameters
    ----------
    source
        A path, bytes, or an object with `read` or `readinto`, of which no more is read than was
        saved.
    framework
        ``numpy``, where bf16 and fp8 come as with `lanescope.decompress`, or ``torch``.
    threads
        0: as many as there are CPUs at hand, 16 at most.
    max_bytes
        Of the array or the pages: larger ones are refused before memory is taken for them.

    Raises
    ------
    InputError
        If it is none, of another version, cut off, changed or too large.
    """
    most = None if max_bytes is None else size_of(max_bytes)
    if framework not in ("numpy", "torch"):
        raise InputError(f"there is no framework {shown(framework)}; give numpy or torch")
    require_threads(threads)
    with _opened(source) as reader:
        description = reader.description(most)
        pages: list[Any] = []
        of_page = (run for run in description.runs for _ in range(run.count))
        sizes, first = description.sizes(), 0
        for group, size in zip(description.groups, description.group_bytes(), strict=True):
            values = _decoded(reader, group.stored_bytes, size, threads)
            some = sizes[first : first + group.pages]
            first += group.pages
            for begin, length in zip(offsets_of(some).tolist(), some.tolist(), strict=True):
                pages.append(_array(values[begin : begin + length], next(of_page), framework))
        reader.require_end()
    return pages[0] if description.kind == "array" else pages


@checked
class ParcelCache:
    """Parcels by name, those used last, of so many stored bytes together. For several threads.

    >>> cache = ParcelCache("8GiB", folder="/scratch/kv", channel=channel)  # doctest: +SKIP
    >>> cache["prefix-17"] = channel.offload_many(cache_of_gpu, pages=[3, 17])  # doctest: +SKIP
    >>> channel.restore_many(cache["prefix-17"], out=cache_of_gpu, pages=[8, 2])  # doctest: +SKIP

    A parcel that is put in waits for the end of its offload, as its size is not known before. What
    has no more room is evicted, the one first that was used longest ago; with a folder it is saved
    there before, and comes back when it is asked for.

    Parameters
    ----------
    limit
        Of stored bytes in pinned memory, such as ``"8GiB"``. A larger parcel is refused.
    folder
        Where parcels that have no more room are saved; it grows without a limit. None: nowhere.
    channel
        One to the host, which loads them; needed with a folder.
    """

    def __init__(self, limit: Size, *, folder: StrPath | None = None, channel: Any = None) -> None:
        if folder is not None and channel is None:
            raise InputError("parcels that are saved in a folder need a channel that loads them")
        self._limit = size_of(limit)
        self._folder = None if folder is None else Path(folder)
        self._channel = channel
        self._parcels: OrderedDict[str, Parcel | PageParcel] = OrderedDict()
        self._saved: set[str] = set()
        self._bytes = 0
        self._lock = RLock()

    def __setitem__(self, name: str, parcel: Parcel | PageParcel) -> None:
        if not isinstance(name, str) or not name:
            raise InputError("a parcel's name in a cache is text, and not empty")
        size = parcel.stored_bytes
        if size > self._limit:
            raise InputError(
                f"the parcel has {size} bytes, and the cache takes {self._limit} together; give it "
                "a larger limit"
            )
        with self._lock:
            self.discard(name)
            while self._bytes + size > self._limit:
                self._evict_oldest()
            self._parcels[name] = parcel.named(name)
            self._bytes += size

    def __getitem__(self, name: str) -> Parcel | PageParcel:
        """Return a parcel, which counts as used; a `KeyError` where there is none."""
        with self._lock:
            if name in self._parcels:
                self._parcels.move_to_end(name)
                return self._parcels[name]
            if name not in self._saved:
                raise KeyError(name)
            assert self._channel is not None
            parcel: Parcel | PageParcel = self._channel.load(self._path(name))
            size = parcel.stored_bytes
            while self._parcels and self._bytes + size > self._limit:
                self._evict_oldest()
            self._parcels[name] = parcel
            self._bytes += size
            return parcel

    def get(self, name: str, default: Any = None) -> Any:
        """Return a parcel, or `default` where there is none."""
        try:
            return self[name]
        except KeyError:
            return default

    def __delitem__(self, name: str) -> None:
        with self._lock:
            if name not in self:
                raise KeyError(name)
            self.discard(name)

    def discard(self, name: str) -> None:
        """Forget a parcel, if there is one: its memory goes back, and its file."""
        with self._lock:
            parcel = self._parcels.pop(name, None)
            if parcel is not None:
                self._bytes -= parcel.stored_bytes
                parcel.evict()
            if name in self._saved:
                self._saved.remove(name)
                self._path(name).unlink(missing_ok=True)

    def __contains__(self, name: object) -> bool:
        with self._lock:
            return name in self._parcels or name in self._saved

    def __iter__(self) -> Iterator[str]:
        """Names, those in memory first, used longest ago before others."""
        with self._lock:
            return iter([*self._parcels, *sorted(self._saved - self._parcels.keys())])

    def __len__(self) -> int:
        with self._lock:
            return len(self._parcels.keys() | self._saved)

    @property
    def stored_bytes(self) -> int:
        """Of the parcels in memory."""
        return self._bytes

    def _evict_oldest(self) -> None:
        name, parcel = next(iter(self._parcels.items()))
        if self._folder is not None and name not in self._saved:
            self._folder.mkdir(parents=True, exist_ok=True)
            parcel.save(self._path(name))
            self._saved.add(name)
        del self._parcels[name]
        self._bytes -= parcel.stored_bytes
        parcel.evict()

    def _path(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{quote(name, safe='')}{ENDING}"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Pages of one type and shape that follow each other."""

    count: PositiveInt
    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.dtype not in KNOWN_TYPES:
            raise ValueError(f"{self.dtype[:40]!r} is no type of values")
        if len(self.shape) > 64:
            raise ValueError("a shape has more than 64 sides")

    @property
    def page_bytes(self) -> int:
        """Of one page."""
        return prod(self.shape) * value_bytes(self.dtype)


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """Pages whose values stand in one stream, of so many bytes."""

    pages: PositiveInt
    stored_bytes: PositiveInt


@dataclass(frozen=True, slots=True)
class Description:
    """What stands before the streams of a parcel.

    Attributes
    ----------
    kind
        ``array`` or ``pages``.
    dtype
        The type by which values were coded.
    """

    kind: str
    name: str
    tag: str
    framework: str
    dtype: str
    runs: tuple[StoredRun, ...]
    groups: tuple[StoredGroup, ...]

    def __post_init__(self) -> None:
        if self.kind not in _KINDS or self.framework not in ("torch", "cupy"):
            raise ValueError("it is of no kind that is known")
        if sum(run.count for run in self.runs) > MOST_PAGES:
            raise ValueError(f"it has more than {MOST_PAGES} pages")
        if sum(run.count for run in self.runs) != sum(group.pages for group in self.groups):
            raise ValueError("its streams have not as many pages as it tells of")
        if self.dtype not in KNOWN_TYPES or coded_dtype(self.dtype) != self.dtype:
            raise ValueError(f"{self.dtype[:40]!r} is no type that values are coded by")
        if self.kind == "array" and sum(run.count for run in self.runs) != 1:
            raise ValueError("it is one array, and has another number of them")
        if any(run.page_bytes >= 1 << 62 for run in self.runs) or self.bytes >= 1 << 62:
            raise ValueError("it is larger than anything can be")

    @property
    def bytes(self) -> int:
        """Of all pages."""
        return sum(run.count * run.page_bytes for run in self.runs)

    def sizes(self) -> NDArray[np.uint64]:
        """Return the bytes of each page."""
        each = np.array([run.page_bytes for run in self.runs], np.uint64)
        return np.repeat(each, [run.count for run in self.runs])

    def group_bytes(self) -> list[int]:
        """Return of each stream the bytes of its array."""
        ends = np.cumsum(padded(self.sizes()))
        last, found, before = 0, [], 0
        for group in self.groups:
            last += group.pages
            found.append(int(ends[last - 1]) - before)
            before = int(ends[last - 1])
        if self.kind == "array":  # which is no page, and not filled up
            return [self.bytes]
        return found


def save_parcel(parcel: Parcel | PageParcel, target: Any) -> int:
    """Write a parcel; return the bytes. See `Parcel.save`."""
    if hasattr(target, "write"):
        return _write(parcel, target)
    try:
        path = Path(target)
    except Exception as error:  # of the value's own methods
        raise InputError(
            f"a parcel cannot be written to {shown(target)}; give a path or a binary stream"
        ) from error
    try:
        written = [0]

        def write(file: BinaryIO) -> None:
            written[0] = _write(parcel, file)

        write_named(path, write)
        return written[0]
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; name another place") from error


def load_parcel(
    source: Any, core: Any, max_bytes: int | None, framework: str | None
) -> Parcel | PageParcel:
    """Read a parcel into the pinned memory of a channel's core. See `Channel.load`."""
    with _opened(source) as reader:
        description = reader.description(max_bytes)
        framework = _known_framework(framework or description.framework)
        runs = tuple(
            PageRun(run.count, _type_in(framework, run.dtype), run.shape)
            for run in description.runs
        )
        groups, first = [], 0
        for group, size in zip(description.groups, description.group_bytes(), strict=True):
            held = _load_group(reader, core, group.stored_bytes, size)
            decision = Decision(True, held.codec.name, 1, None, None, "as it was saved")
            groups.append(PageGroup(first, group.pages, decision, held))
            first += group.pages
        reader.require_end()
    if description.kind == "array":
        run, group_ = runs[0], groups[0]
        return Parcel(
            run.shape, run.dtype, framework, description.tag, group_.decision, description.dtype,
            group_.held, description.name,
        )  # fmt: skip
    return PageParcel(
        framework, description.tag, description.name, runs, description.sizes(),
        description.dtype, tuple(groups),
    )  # fmt: skip


class Reader:
    """Reads a parcel from a file or a stream, whose errors name it."""

    def __init__(self, file: Any, name: str, *, alone: bool) -> None:
        self._file, self._name, self._alone = file, name, alone

    def damaged(self, why: str) -> InputError:
        """Return the error of one that cannot be read as it is."""
        return InputError(f"{self._name} is damaged: {why}; copy or save it again")

    def fill(self, room: NDArray[np.uint8]) -> None:
        """Read as many bytes as there is room for."""
        view, done = room.data, 0
        while done < len(view):
            with reading(self._name):
                got = self._some(view[done:])
            if not got:
                raise self.damaged("it is cut off")
            done += got

    def _some(self, room: memoryview) -> int:
        if hasattr(self._file, "readinto"):
            return int(self._file.readinto(room) or 0)
        some = self._file.read(min(len(room), 1 << 24))
        if not isinstance(some, bytes | bytearray | memoryview) or len(some) > len(room):
            raise InputError(f"{self._name} gives no bytes; open it as a binary one")
        room[: len(some)] = some
        return len(some)

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        room = np.empty(size, np.uint8)
        self.fill(room)
        return room.tobytes()

    def description(self, max_bytes: int | None) -> Description:
        """Read and check what stands before the streams."""
        front = self.take(4)
        if front != MAGIC:
            raise InputError(
                f"{self._name} is no parcel: it does not begin with LSCP; name one that "
                "Parcel.save wrote"
            )
        front += self.take(_FRONT.size - 4)
        _, version, length, checksum = _FRONT.unpack(front)
        if version != VERSION:
            raise InputError(
                f"{self._name} is a parcel of version {version}, and this lanescope reads version "
                f"{VERSION}; save it by this one, or read it by the one that wrote it"
            )
        if front[5:8] != bytes(3) or length > _MOST_DESCRIPTION or length % 16:
            raise self.damaged("its beginning was changed")
        content = self.take(length)
        if zlib.crc32(content) != checksum:
            raise self.damaged("the checksum of its description does not fit")
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise self.damaged("its description is no text") from error
        with fields_of(self._name):
            description = build(Description, parse_json(text, self._name))
        require_size(description.bytes, max_bytes, self._name)
        return description

    def front(self, stored: int, size: int) -> NDArray[np.uint8]:
        """Read all before the payloads of a stream of so many bytes, of an array of so many."""
        header = self.take(_HEADER_BYTES)
        told, length = struct.unpack_from("<QQ", header, 8)
        blocks = int.from_bytes(header[24:28], "little")
        if header[:4] != b"LSCZ" or (told, length) != (size, stored) or header[28] > 16:
            raise self.damaged("a stream in it is another than it tells of")
        if blocks != -(-size // _BLOCK_BYTES) or stored > native.most_stream_bytes(size, 16):
            raise self.damaged("a stream in it has another length than its array can have")
        whole = -(-(_HEADER_BYTES + 8 * header[28] + 8 * blocks) // 16) * 16
        if whole > stored:
            raise self.damaged("a stream in it ends before its blocks")
        room = np.empty(whole, np.uint8)
        room[:_HEADER_BYTES] = np.frombuffer(header, np.uint8)
        self.fill(room[_HEADER_BYTES:])
        return room

    def require_end(self) -> None:
        """Refuse what lies behind the last stream of a file of its own."""
        if self._alone and self._file.read(1):
            raise self.damaged("there are bytes behind its last stream")


class _Bytes:
    """Bytes that are there, as a file that is read; they are not copied."""

    def __init__(self, data: Any) -> None:
        self._left = as_bytes(data).data

    def readinto(self, room: memoryview) -> int:
        count = min(len(room), len(self._left))
        room[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def read(self, size: int) -> bytes:
        return bytes(self._left[:size])


class _opened:  # noqa: N801  (a context, used as one word)
    """Opens a path, or takes bytes or a binary stream as it is."""

    def __init__(self, source: Any) -> None:
        self._source, self._own = source, cast("BinaryIO | None", None)

    def __enter__(self) -> Reader:
        source = self._source
        if hasattr(source, "read") or hasattr(source, "readinto"):
            return Reader(source, "the stream", alone=False)
        if isinstance(source, bytes | bytearray | memoryview | np.ndarray):
            return Reader(_Bytes(source), "the parcel", alone=True)
        try:
            path = Path(source)
        except Exception as error:  # of the value's own methods
            raise InputError(
                f"a parcel cannot be read from {shown(source)}; give a path or a binary stream"
            ) from error
        with reading(path):
            self._own = open_file(path)
        return Reader(self._own, str(path), alone=True)

    def __exit__(self, *error: object) -> None:
        if self._own is not None:
            self._own.close()


def _write(parcel: Parcel | PageParcel, file: Any) -> int:
    if isinstance(parcel, PageParcel):
        kind, runs = "pages", parcel.runs
        held = [group.held for group in parcel.groups]
        counts = [group.count for group in parcel.groups]
    else:
        kind, runs = "array", (PageRun(1, parcel.dtype, parcel.shape),)
        held, counts = [parcel.held], [1]
    if sum(counts) > MOST_PAGES:
        raise InputError(f"a file holds {MOST_PAGES} pages at most; save them as several parcels")
    for run in runs:
        if dtype_name(run.dtype) not in KNOWN_TYPES:
            raise InputError(
                f"values of {dtype_name(run.dtype)} are none that files hold; offload them as uint8"
            )
    with core_errors():
        fronts = [one.stream_front(dtype_of(parcel.kind)) for one in held]
    lengths = [int.from_bytes(front[16:24].tobytes(), "little") for front in fronts]
    description = Description(
        kind, parcel.name, parcel.tag, parcel.framework, parcel.kind,
        tuple(StoredRun(run.count, dtype_name(run.dtype), run.shape) for run in runs),
        tuple(StoredGroup(*one) for one in zip(counts, lengths, strict=True)),
    )  # fmt: skip
    content = json.dumps(dataclasses.asdict(description), separators=(",", ":")).encode()
    content += b" " * (-len(content) % 16)
    if len(content) > _MOST_DESCRIPTION:
        raise InputError("pages of so many shapes do not fit into a file; save fewer of them")
    file.write(_FRONT.pack(MAGIC, VERSION, len(content), zlib.crc32(content)) + content)
    for one, front, length in zip(held, fronts, lengths, strict=True):
        file.write(front.data)
        done = len(front)
        for some in _payloads(one):
            file.write(some)
            done += len(some)
        if done != length:
            raise InputError("the parcel changed while it was saved; save it again")
    return _FRONT.size + len(content) + sum(lengths)


def _payloads(held: Any) -> Iterator[memoryview]:
    room = np.empty(_BLOCKS_AT_ONCE * _BLOCK_BYTES, np.uint8)
    blocks = -(-int(held.bytes) // _BLOCK_BYTES)
    for first in range(0, blocks, _BLOCKS_AT_ONCE):
        with core_errors():
            used = held.copy_payloads(first, min(first + _BLOCKS_AT_ONCE, blocks), room)
        yield room.data[:used]


def _load_group(reader: Reader, core: Any, stored: int, size: int) -> Any:
    front = reader.front(stored, size)
    with input_errors():
        held = core.load_parcel(front, stored)
    reader.fill(held.payload_room())
    return held


def _decoded(reader: Reader, stored: int, size: int, threads: int) -> NDArray[np.uint8]:
    front = reader.front(stored, size)
    stream = np.empty(stored, np.uint8)
    stream[: len(front)] = front
    reader.fill(stream[len(front) :])
    values = np.empty(size, np.uint8)
    with input_errors():
        native.decompress(stream, values, threads)
    return values


def _array(values: NDArray[np.uint8], run: StoredRun, framework: str) -> Any:
    """Return bytes as an array of such values, in the same memory."""
    if framework == "numpy":
        return values.view(numpy_type(run.dtype)).reshape(run.shape)
    try:
        torch = import_module("torch")
        kind = getattr(torch, run.dtype)
        if not values.size:
            return torch.empty(run.shape, dtype=kind)
        return torch.from_numpy(values).view(kind).reshape(run.shape)
    except ImportError as error:
        raise InputError(f"PyTorch cannot be loaded ({error}); give framework numpy") from error
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"this PyTorch has no {run.dtype}; give framework numpy") from error


def _known_framework(framework: str) -> str:
    if framework not in ("torch", "cupy"):
        raise InputError(f"there is no framework {shown(framework)}; give torch or cupy")
    return framework


def _type_in(framework: str, dtype: str) -> Any:
    """Return a framework's own type."""
    if framework == "cupy":
        return np.dtype(cupy_type(dtype))
    try:
        return getattr(import_module("torch"), dtype)
    except ImportError as error:
        raise InputError(f"PyTorch cannot be loaded ({error}); give framework cupy") from error
    except AttributeError as error:
        raise InputError(f"this PyTorch has no {dtype}; give framework cupy") from error
