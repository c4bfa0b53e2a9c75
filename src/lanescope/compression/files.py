"""Compress files of arrays, and get them back byte by byte, or one array at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np

from lanescope._core import native
from lanescope.calls import checked, shown
from lanescope.codec.files import open_file, reading, write_named
from lanescope.compression.array_files import (
    LONGEST_HEADER,
    NPY,
    RAW,
    SAFETENSORS,
    BaseFile,
    FileSegment,
    SegmentedFile,
    arrays_of,
    as_values,
    cut,
    header_of_one,
)
from lanescope.compression.array_values import numpy_type, stored_type
from lanescope.compression.arrays import npy_header
from lanescope.compression.codec import AUTO, compress, decompress, most_bytes, require_threads
from lanescope.compression.container import (
    ENDING,
    FRONT,
    PART_BYTES,
    UPDATE_VERSION,
    VERSION,
    BaseName,
    Index,
    StoredSegment,
    StoredStream,
    base_text,
    damaged,
    part_sizes,
    read_index,
    require_part,
    write_index,
)
from lanescope.compression.stream import Codec, OtherBaseError, Stream, describe, require_size
from lanescope.errors import InputError, argument
from lanescope.units.sizes import Size, size_of

#: An update with so small a share of the values is not compared with these by themselves.
_SURELY_SMALLER = 0.5
#: Takes the bytes of the file that are done, and all of them.
Progress = Callable[[int, int], None]


def quiet(done: int, total: int) -> None:
    """Show no progress."""


@checked
def compress_file(
    source: Path,
    target: Path,
    *,
    codec: str = AUTO,
    dtype: str | None = None,
    threads: int = 0,
    progress: Progress = quiet,
    base: Path | None = None,
) -> Index:
    """Compress a file of arrays into another one, which is there whole or not at all.

    Parameters
    ----------
    source
        ``.npy``, ``.safetensors``, or values one after the other, as `segments.cut` reads them.
    codec
        As of `compress`; an array whose type it does not take is stored as it is.
    dtype
        What the values of a file without a header are.
    base
        An earlier file of that kind, without which this one then cannot be read: of arrays that it
        has by the same name, type and shape the differences are stored, where that is smaller.

    Raises
    ------
    InputError
        If `source` or `base` cannot be read, or is damaged, or changes meanwhile, or `target`
        cannot be written or is `source` or `base`, or no array is in `base`, too.
    """
    require_host_codec(codec)
    require_threads(threads)
    _require_other(target, source)
    if base is not None and _is_same(base, target):
        raise InputError(
            f"{target} is the base, and what would replace it cannot be read without that; name "
            "another place"
        )
    with reading(source), open_file(source) as file:
        before = os.fstat(file.fileno())
        pieces = cut(source, file, dtype)
        file.seek(0)
        old = None if base is None else _base_for(source, pieces, base, dtype)
        work = _Compressing(source, file, codec, threads, progress, before.st_size, old)
        index = Index(VERSION, pieces.kind, ())

        def write(out: BinaryIO) -> None:
            nonlocal index
            os.fchmod(out.fileno(), before.st_mode & 0o777)  # no more may read it
            out.write(FRONT)
            stored = tuple(work.segment(one, out) for one in pieces.segments)
            index = Index(VERSION, pieces.kind, stored)
            if old is not None and any(one.needs_base for one in stored):
                name = BaseName(old.path.name, old.bytes)
                index = Index(UPDATE_VERSION, pieces.kind, stored, name)
            write_index(out, index, source)
            after = os.fstat(file.fileno())
            if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                raise _changed(source)

        try:
            _replace(target, write)
        finally:
            if old is not None:
                old.close()
    return index


def _base_for(source: Path, pieces: SegmentedFile, base: Path, dtype: str | None) -> BaseFile:
    """Return the base of a file, open.

    Raises
    ------
    InputError
        If it holds none of its arrays.
    """
    old = BaseFile(base, dtype)
    if any(old.has(pieces.segments[i]) for i in arrays_of(pieces)):
        return old
    old.close()
    if base.suffix == ENDING:
        raise InputError(f"{base} is compressed; decompress it, and give that as the base")
    raise InputError(
        f"{base} holds no array that {source} has by the same name, type and shape; compress it "
        "without a base"
    )


def host_codecs() -> list[str]:
    """Return the codecs that need no GPU."""
    return [str(one) for one in Codec if not one.by_nvcomp]


def names_of_codecs() -> str:
    """Return what can be given as a codec of files."""
    return ", ".join([AUTO, *host_codecs()])


def require_host_codec(codec: str) -> None:
    """Refuse what is no codec, or needs a GPU.

    Raises
    ------
    InputError
        If it is so.
    """
    if codec != AUTO and codec not in host_codecs():
        raise InputError(f"{shown(codec)} is no codec of the host; give one of {names_of_codecs()}")


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths are of one file, by links, too."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one is not there
        return os.path.realpath(one) == os.path.realpath(other)


def _require_other(target: Path, source: Path) -> None:
    """Refuse to write onto the file that is read, which would be lost.

    Raises
    ------
    InputError
        If they are one file.
    """
    if _is_same(target, source):
        raise InputError(f"{target} would be written onto itself; name another place")


def _replace(path: Path, write: Callable[[BinaryIO], object]) -> None:
    try:
        write_named(path, write)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; name another place") from error


def _fill(room: Stream, file: BinaryIO, path: Path) -> None:
    """Read the next bytes of a file into memory, all that has room there."""
    with reading(path):
        count = cast(BufferedReader, file).readinto(room.data)
    if count != len(room):
        raise _changed(path)


def _changed(path: Path) -> InputError:
    return InputError(f"{path} changed while it was read; give it again when nobody writes to it")


class _Compressing:
    """Compresses the segments of a file, part by part, in the same memory."""

    def __init__(
        self,
        path: Path,
        file: BinaryIO,
        codec: str,
        threads: int,
        progress: Progress,
        total: int,
        base: BaseFile | None,
    ) -> None:
        self._base = base
        self._path, self._file, self._codec, self._threads = path, file, codec, threads
        self._progress, self._done, self._total = progress, 0, total
        largest = min(PART_BYTES, total)
        self._values = np.empty(largest, np.uint8)
        self._room = np.empty(most_bytes(largest, 1 if base is None else 2), np.uint8)
        self._other_room = np.empty(0, np.uint8)

    def segment(self, one: FileSegment, out: BinaryIO) -> StoredSegment:
        """Write the streams of the next segment."""
        begins = range(0, one.bytes, PART_BYTES)
        sizes = part_sizes(one.bytes)
        parts = tuple(self._part(one, *part, out) for part in zip(begins, sizes, strict=True))
        return StoredSegment(one.name, one.dtype, one.shape, parts)

    def _part(self, one: FileSegment, begin: int, size: int, out: BinaryIO) -> StoredStream:
        values = self._values[:size]
        _fill(values, self._file, self._path)
        dtype = stored_type(one.dtype)
        typed = as_values(values, one)
        codec = self._codec if _takes(self._codec, dtype) else Codec.RAW
        stream = self._smallest(one, begin, typed, codec, dtype)
        out.write(stream.data)
        self._done += size
        self._progress(self._done, self._total)
        checksum = int.from_bytes(stream[36:40].tobytes(), "little")
        info = describe(stream)
        return StoredStream(info.codec, len(stream), checksum, base_text(info))

    def _smallest(
        self, one: FileSegment, begin: int, values: Any, codec: str, dtype: str
    ) -> Stream:
        """Return the stream of a part: of its differences to the base where that is smaller."""

        def stream(room: Stream, base: Any = None) -> Stream:
            made: Stream = compress(
                values, codec, dtype=dtype, threads=self._threads, out=room, base=base
            )
            return made

        if self._base is None or not self._base.has(one) or codec == Codec.RAW:
            return stream(self._room)
        update = stream(self._room, self._base.part(one, begin, values.nbytes))
        if len(update) < values.nbytes * _SURELY_SMALLER:
            return update
        if not len(self._other_room):
            self._other_room = np.empty_like(self._room)
        whole = stream(self._other_room)
        return update if len(update) < len(whole) else whole


def _takes(codec: str, dtype: str) -> bool:
    kind = native.Dtype["bytes" if dtype == "uint8" else dtype]
    return codec == AUTO or native.can_compress(native.Codec[codec], kind)


@checked
class CompressedFile:
    """A file that ``lanescope compress`` wrote, to be read whole or one array at a time.

    Memory is taken for what is returned, and besides for 32 MiB of the file and their stream.

    Parameters
    ----------
    path
        Of the file.
    max_bytes
        More bytes than these are not decompressed; None: whatever it holds.
    base
        The file that it was compressed against, if it was: as it was then, or one with the same
        arrays. Arrays that need none can be read without it.

    Raises
    ------
    InputError
        If it is none, is damaged, or holds more than `max_bytes`; if it needs no base, and there is
        one, or that cannot be read.
    """

    def __init__(
        self, path: Path, *, max_bytes: Size | None = None, base: Path | None = None
    ) -> None:
        self.path = path
        most = None if max_bytes is None else size_of(max_bytes)
        with ExitStack() as stack:
            with reading(path):
                self._file = stack.enter_context(open_file(path))
                self.index = read_index(path, self._file)
                self._mode = os.fstat(self._file.fileno()).st_mode
            require_size(self.index.bytes, most, str(path))
            self._base = None if base is None else self._opened_base(base)
            if self._base is not None:
                stack.callback(self._base.close)
            self._closing = stack.pop_all()
        self._begins = self._places()
        named = reversed(list(enumerate(self.index.segments)))  # the first of a name counts
        self._numbers = {one.name: number for number, one in named if one.name is not None}
        self._room = np.empty(0, np.uint8)

    def __enter__(self) -> CompressedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._closing.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the tensors, in the order of the file; of an array without a name there is none."""
        return tuple(one.name for one in self.index.segments if one.name is not None)

    def read(self, name: str | None = None, *, framework: str = "numpy", threads: int = 0) -> Any:
        """Return an array, decompressed by itself.

        Parameters
        ----------
        name
            Of a tensor; None: of a file that holds one array, that one, as NumPy reads it.
        framework
            ``numpy``, whose bf16 and fp8 are those of ml_dtypes if the program has imported that,
            else uint16 and uint8; or ``torch``. Values of a type without a name here are bytes.
        threads
            0: as many as there are CPUs at hand, 16 at most.

        Raises
        ------
        InputError
            If there is none of that name, or it is damaged, or there is no such framework.
        """
        if framework not in ("numpy", "torch"):
            raise InputError(f"there is no framework {shown(framework)}; give numpy or torch")
        number = self._number(name)
        one = self.index.segments[number].segment
        values = self._bytes(number, threads)
        if name is None and self.index.kind == NPY:
            array = self._of_npy(values)
            return array if framework == "numpy" else _tensor(array, str(array.dtype))
        with _shaping(self.path, one.shape):
            if framework == "torch":
                return _tensor(values, one.dtype).reshape(one.shape)
            return values.view(numpy_type(one.dtype)).reshape(one.shape)

    def restore(self, target: Path, *, threads: int = 0, progress: Progress = quiet) -> None:
        """Write the file that was compressed; it is there whole or not at all.

        Raises
        ------
        InputError
            If this one is damaged, or `target` cannot be written or is this one.
        """

        _require_other(target, self.path)
        for one in self.index.segments:
            self._require_base(one)
        total = self.index.bytes  # a sum over all segments: once, and not for each

        def write(out: BinaryIO) -> None:
            os.fchmod(out.fileno(), self._mode & 0o777)
            done = 0
            for number in range(len(self.index.segments)):
                for values in self._parts(number, threads):
                    out.write(values.data)
                    done += len(values)
                    progress(done, total)

        _replace(target, write)

    def extract(self, name: str, target: Path, *, threads: int = 0) -> None:
        """Write a file of safetensors with one tensor, and the metadata of all.

        Raises
        ------
        InputError
            If there is none of that name, or what is there is damaged, or `target` cannot be
            written or is this one.
        """
        _require_other(target, self.path)
        number = self._number(name)
        if self.index.kind != SAFETENSORS:
            raise InputError(f"{self.path} holds no tensors with names; restore all of it")
        header = header_of_one(self.path, self._header(), name)

        def write(out: BinaryIO) -> None:
            os.fchmod(out.fileno(), self._mode & 0o777)
            out.write(header)
            for values in self._parts(number, threads):
                out.write(values.data)

        _replace(target, write)

    def _opened_base(self, base: Path) -> BaseFile:
        if self.index.base is None:
            raise InputError(f"{self.path} needs no base; leave it out")
        raw = self.index.kind == RAW
        return BaseFile(base, self.index.segments[0].dtype if raw else None)

    def _require_base(self, one: StoredSegment) -> None:
        """Refuse an array whose base is not there."""
        if not one.needs_base or self.index.base is None:
            return
        array = "it" if one.name is None else f"its tensor {shown(one.name)}"
        if self._base is None:
            raise InputError(
                f"{self.path} was compressed against {self.index.base.name}, and {array} needs "
                f"that; give the file with {argument.base}"
            )
        if not self._base.has(one.segment):
            raise InputError(
                f"{self._base.path} does not hold the base of {self.path}: {array} has none of the "
                f"same type and shape there; give {self.index.base.name} as it was"
            )

    def _places(self) -> list[int]:
        """Return where the streams of each segment begin."""
        places = [len(FRONT)]
        for one in self.index.segments:
            places.append(places[-1] + one.stored_bytes)
        return places

    def _number(self, name: str | None) -> int:
        """Return the number of the segment of a name; None: of a file that holds one array."""
        if name is None:
            nameless = [i for i, one in enumerate(self.index.segments) if one.name is None]
            own = nameless[self.index.kind == NPY :]  # behind its header
            found = own[0] if own and self.index.kind != SAFETENSORS else None
        else:
            found = self._numbers.get(name)
        if found is None:
            names = self.names
            known = ", ".join(map(shown, names[:5])) + (", ..." if len(names) > 5 else "")
            what = "one array" if name is None else f"a tensor {shown(name)}"
            has = f"it has {known}" if known else "it has none with a name"
            raise InputError(f"{self.path} does not hold {what}; {has}")
        return found

    def _header(self) -> bytes:
        """Return what stands before the first array."""
        if self.index.segments[0].segment.bytes > LONGEST_HEADER:
            raise damaged(self.path, "what stands before its first array is no header")
        return self._bytes(0, 1).tobytes()

    def _bytes(self, number: int, threads: int) -> Stream:
        """Return all of a segment, in memory of its own."""
        size = self.index.segments[number].segment.bytes
        try:
            whole = np.empty(size, np.uint8)
        except MemoryError as error:
            raise InputError(f"there is no memory for the {size} bytes of an array") from error
        for _ in self._parts(number, threads, whole):
            pass
        return whole

    def _parts(self, number: int, threads: int, whole: Any = None) -> Iterator[Stream]:
        """Return the parts of a segment, each in memory that the next one overwrites.

        `whole` is memory for all of them, one after the other, in place of that.
        """
        one = self.index.segments[number]
        require_threads(threads)
        self._require_base(one)
        if self._file.closed:
            raise InputError(f"{self.path} is closed; read it before, or open it again")
        self._file.seek(self._begins[number])
        begin = 0
        for i, size in enumerate(one.part_bytes):
            stream = self._stream(one.parts[i].stored_bytes)
            out = np.empty(size, np.uint8) if whole is None else whole[begin : begin + size]
            try:
                require_part(describe(stream), stream, one, i)
                decompress(stream, out=out, threads=threads, base=self._base_of(one, i, begin))
            except OtherBaseError as error:
                where = "its array" if one.name is None else f"tensor {shown(one.name)}"
                raise self._other_base(where) from error
            except InputError as error:
                where = "" if one.name is None else f" of tensor {shown(one.name)}"
                raise damaged(self.path, f"part {i}{where}: {error}") from error
            begin += size
            yield out

    def _base_of(self, one: StoredSegment, part: int, begin: int) -> Any:
        """Return the values that a part is an update of, or None if it is none."""
        if self._base is None or one.parts[part].base is None:
            return None
        return self._base.part(one.segment, begin, one.part_bytes[part])

    def _other_base(self, where: str) -> InputError:
        base, name = self._base, self.index.base
        assert base is not None
        assert name is not None
        return InputError(
            f"{base.path} is not what {self.path} was compressed against: {where} differs; give "
            f"{name.name} as it was"
        )

    def _stream(self, size: int) -> Stream:
        if len(self._room) < size:
            self._room = np.empty(size, np.uint8)
        room = self._room[:size]
        _fill(room, self._file, self.path)
        return room

    def _of_npy(self, values: Stream) -> Any:
        """Return an array as the header of its file says."""
        header = BytesIO(self._header())
        shape, fortran, kind, _ = npy_header(self.path, header)
        if int(np.prod(shape, dtype=object)) * kind.itemsize != len(values) or kind.hasobject:
            raise damaged(self.path, "the header of its array is of another one")
        order: Literal["C", "F"] = "F" if fortran else "C"
        with _shaping(self.path, shape):
            if not kind.itemsize:  # nothing can be viewed as values of no bytes
                return np.ndarray(shape, kind, order=order)
            return values.view(kind).reshape(shape, order=order)


@contextmanager
def _shaping(path: Path, shape: tuple[int, ...]) -> Iterator[None]:
    """Refuse a shape that a file can have and the framework's arrays cannot."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        words = f"{len(shape)} dimensions" if len(shape) > 8 else f"the shape {shape}"
        why = " ".join(str(error).split())[:200]
        raise InputError(
            f"no array here can have {words}, as one of {path} has ({why}); restore the whole file"
        ) from error


def _tensor(values: Any, dtype: str) -> Any:
    """Return an array of NumPy, or bytes of such values, as a tensor in the same memory."""
    try:
        import torch

        kind = getattr(torch, dtype)
        # an empty tensor has no stride by which its type could be another one
        return torch.from_numpy(values).view(kind) if values.size else torch.empty(0, dtype=kind)
    except ImportError as error:
        raise InputError(f"PyTorch cannot be loaded ({error}); give framework numpy") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"this PyTorch has no {dtype}; give framework numpy") from error
