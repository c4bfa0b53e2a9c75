"""Compress arrays in the host's or a GPU's memory, and get them back bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lanescope._core import native
from lanescope.calls import checked, shown
from lanescope.compression.array_values import (
    STORED,
    Known,
    cupy_type,
    known_values,
    meaning_of,
    numpy_type,
    room_for_values,
    stored_type,
    why_no_array,
)
from lanescope.compression.stream import (
    NO_GPU_ARRAY,
    NO_GPU_ROOM,
    Codec,
    Stream,
    StreamInfo,
    as_bytes,
    compress_on_gpu,
    decompress_on_gpu,
    describe,
    input_errors,
    nvcomp_for,
    on_gpu,
    open_nvcomp,
    require_size,
    there_is_nvcomp,
)
from lanescope.errors import InputError, MissingPartError
from lanescope.units.sizes import Size, size_of

AUTO = "auto"
_NO_ROOM = "values can be put only into a writable array in the host's memory and in C order"
_MOST_THREADS = 1024
#: By which nvCOMP codes arrays in the host's memory.
_GPU = 0


def compress(
    values: Any,
    codec: str = AUTO,
    *,
    dtype: str | None = None,
    dimensionality: int = 1,
    threads: int = 0,
    out: Any = None,
    base: Any = None,
) -> Any:
    """Compress an array without loss, where it lies.

    Parameters
    ----------
    values
        In C order, by DLPack or Python's buffer interface: of NumPy, PyTorch and others, in the
        host's memory; of PyTorch, CuPy and others with DLPack, in a GPU's. Integers, fp16, bf16,
        fp32 and fp64; of NumPy, PyTorch and CuPy also bool, fp8 and complex numbers of 64 and 128
        bits. Of NumPy bf16 and fp8 are those of ml_dtypes. Others are viewed as one of these by the
        caller.
    codec
        A name of `Codec`, or ``auto``: the one of lanescope's own that makes some blocks of the
        array smallest. ``ans`` and ``bitcomp`` are NVIDIA's nvCOMP: they need that (``pip install
        'lanescope[nvcomp]'``) and a GPU, here and where the stream is read; an array in the host's
        memory goes over GPU 0.
    dtype
        What the values are, where their type does not tell: ``bfloat16`` of an array of uint16 or
        of two bytes without a type, ``float8_e4m3fn`` of one of uint8; ``uint8`` of bool.
    dimensionality
        Of GFC: from how many values before a value is predicted, 1 to 32. ``auto`` tries some.
    threads
        Of the host; 0: as many as there are CPUs at hand, 16 at most.
    out
        Memory for the stream, `most_bytes` of it, where complex numbers have one dimension more and
        updates another one, apart from the array, in place of new memory, which costs time.
    base
        An array of the same type and shape, where `values` lie, that whoever reads the stream has,
        too: then it is an update, which holds the differences to that. They are taken by xor or by
        subtraction of the values' bits, whichever makes some blocks smaller. In a GPU's memory that
        takes as much memory again as the array.

    Returns
    -------
    Stream
        Bytes that describe themselves: shape (n,), uint8; the first ones of `out` if given. Of an
        array in a GPU's memory they lie in the same memory, an array of PyTorch or CuPy, and are
        those that the host makes, to the bit, where the host has that codec. Kernels run in the
        caller's current stream of that library, after what is there, and are done when this
        returns.

    Raises
    ------
    InputError
        If the array is none, or the codec does not take its values, or needs what is not there; if
        `out` overlaps the array; if `base` is of another type or shape, or lies elsewhere.
    """
    if dtype is not None:
        _dtype_named(dtype)
    require_threads(threads)
    if not 1 <= dimensionality <= 32:  # of codecs that have none, too
        raise InputError(f"dimensionality cannot be {dimensionality}; give 1 to 32")
    known = known_values(values, dtype)
    chosen = None if codec == AUTO else _codec_named(codec)
    if base is not None:
        require_coder(chosen)
        base = base_of_values(base, dtype, known)
    values, dtype, meaning = known
    kind = None if dtype is None else _dtype_named(dtype)
    coded = None if chosen is None else native.Codec[chosen]
    if on_gpu(values):
        with _naming_types(chosen, known, kind), input_errors(), _type_errors(lambda: NO_GPU_ARRAY):
            nvcomp = None if chosen is None else nvcomp_for(chosen)
            return compress_on_gpu(values, coded, kind, dimensionality, out, nvcomp, meaning, base)
    no_array = _type_errors(lambda: why_no_array(values))
    with _naming_types(chosen, known, kind), input_errors(), no_array:
        if chosen is not None and chosen.by_nvcomp:
            return _compress_by_nvcomp(values, chosen, kind, out, meaning)
        settings = (coded, kind, dimensionality, threads, meaning, base)
        if out is None:
            return native.compress(values, *settings)
        _require_bytes(out)
        return out[: native.compress_into(values, out, *settings)]


def _compress_by_nvcomp(
    values: Any, codec: Codec, kind: native.Dtype | None, out: Any, meaning: native.Meaning
) -> NDArray[np.uint8]:
    """Compress an array in the host's memory on a GPU."""
    nvcomp = nvcomp_for(codec)
    if nvcomp is None or not _is_gpu():
        raise MissingPartError(f"codec {codec} needs a GPU, and CUDA shows none here")
    if out is not None:
        _require_bytes(out)
        used = nvcomp.compress(_GPU, values, out, native.Codec[codec], kind, meaning)
        taken: NDArray[np.uint8] = out[:used]
        return taken
    view, _, _ = native.bytes_view(values)
    room = np.empty(most_bytes(len(view), np.ndim(values)), np.uint8)
    return room[: nvcomp.compress(_GPU, values, room, native.Codec[codec], kind, meaning)].copy()


def _is_gpu() -> bool:
    try:
        return len(native.cuda_devices()) > 0
    except native.NativeError:
        return False


def _require_bytes(out: Any) -> None:
    fits = isinstance(out, np.ndarray) and out.ndim == 1 and out.dtype == np.uint8
    if not fits or not out.flags.writeable or not out.flags.c_contiguous:
        raise InputError(
            "a stream can be put only into a writable NumPy array of uint8 in one piece"
        )


@checked
def most_bytes(array_bytes: int, dimensions: int = 1) -> int:
    """Return the most bytes of the stream of an array; an update has one dimension more."""
    return native.most_stream_bytes(array_bytes, dimensions)


def decompress(
    stream: Any,
    *,
    out: Any = None,
    framework: str = "numpy",
    threads: int = 0,
    max_bytes: Size | None = None,
    base: Any = None,
) -> Any:
    """Return the array that was compressed.

    Parameters
    ----------
    stream
        As `compress` returned it, or the same bytes, on the host or in a GPU's memory; or the bytes
        of a parcel that was saved, of which pages come as a list.
    out
        An array where the stream lies, in C order, that gets the values in place of a new one; it
        has as many bytes, and shares none with the stream.
    framework
        Of a new array: ``numpy``, where bf16 and fp8 come as those of ml_dtypes if the program has
        imported that, else as uint16 and uint8, or ``torch``; for a stream in a GPU's
        memory ``torch`` or ``cupy``, else what the stream is of.
    threads
        0: as many as there are CPUs at hand, 16 at most.
    max_bytes
        Of the array, such as ``"1GiB"``: a larger one is refused before memory is taken for it.
        Give it for streams from strangers, which may become thousands of times as long as they are.
    base
        Of an update: the array that it was made against, where the stream lies. `out` may be that
        array: then all blocks are checked before the first of it is changed. Without a GPU this
        takes twice as long; with one an update always takes as much memory again as the array.

    Raises
    ------
    InputError
        If the stream was cut off or changed: the block is named. `out` then holds some of it. If
        it needs nvCOMP or a GPU, and there is none. If `out` overlaps the stream, or a part of the
        base. If the array is larger than `max_bytes`. If the stream is an update and `base` is
        missing, or is another one, or the stream is none and there is a base: before anything is
        written.
    """
    most = None if max_bytes is None else size_of(max_bytes)
    require_threads(threads)
    if on_gpu(stream):
        info = describe(stream)
        require_size(info.bytes, most)
        base = base_of_stream(base, stream, info)
        with input_errors(), _type_errors(lambda: NO_GPU_ROOM):
            nvcomp = nvcomp_for(info.codec) if info.coded_blocks else None
            return decompress_on_gpu(stream, out, info.shape, info.dtype, framework, nvcomp, base)
    data = as_bytes(stream)
    if is_parcel(data):
        return _arrays_of_parcel(data, out, most, framework, threads)
    info = describe(data)
    require_size(info.bytes, most)
    base = base_of_stream(base, data, info)
    if out is None:
        out = _new(info.shape, info.dtype, framework)
    with input_errors(), _type_errors(lambda: _NO_ROOM):
        if info.coded_blocks and info.codec.by_nvcomp and _is_gpu() and there_is_nvcomp():
            open_nvcomp().decompress(_GPU, data, room_for_values(out))
        else:
            native.decompress(data, room_for_values(out), threads, base)
    return out


def is_parcel(data: Stream) -> bool:
    """Return whether bytes begin as a parcel that was saved."""
    return bytes(data[:4]) == b"LSCP"


def _arrays_of_parcel(
    data: Stream, out: Any, most: int | None, framework: str, threads: int
) -> Any:
    from lanescope.compression.parcels import read_parcel

    if out is not None:
        raise InputError("a parcel that was saved is decompressed to new arrays; leave out= out")
    return read_parcel(data, framework=framework, threads=threads, max_bytes=most)


@contextmanager
def _type_errors(sentence: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise InputError(sentence()) from error


def _new(shape: tuple[int, ...], dtype: str, framework: str) -> Any:
    if framework not in ("numpy", "torch"):
        raise InputError(f"there is no framework {shown(framework)}; give numpy or torch")
    try:
        if framework == "numpy":
            return np.empty(shape, numpy_type(dtype))
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype))
    except ImportError as error:
        raise InputError(f"PyTorch cannot be loaded ({error}); give framework numpy") from error
    except AttributeError as error:
        raise InputError(f"this PyTorch has no {dtype}; give framework numpy") from error
    except (ValueError, MemoryError, RuntimeError) as error:
        sides = " × ".join(map(str, shape))
        raise InputError(f"an array of {sides} {dtype} cannot be made: {error}") from error


def require_threads(threads: int) -> None:
    """Refuse more threads than anybody has. Raises `InputError`."""
    if threads > _MOST_THREADS:
        raise InputError(f"{threads} threads are not 0 to {_MOST_THREADS}; give fewer")


def _codec_named(name: str) -> Codec:
    try:
        return Codec(name)
    except ValueError:
        names = ", ".join([AUTO, *Codec])
        raise InputError(f"there is no codec {shown(name)}; give one of {names}") from None


def _dtype_named(name: str) -> native.Dtype:
    stored = stored_type(name)
    try:
        return native.Dtype["bytes" if stored == "uint8" else stored]
    except KeyError:
        names = ", ".join([*(one.name for one in native.Dtype if one.name != "bytes"), *STORED])
        raise InputError(
            f"there is no type of values {shown(name)}; give one of uint8, {names}"
        ) from None


class _Kind(NamedTuple):
    """What an array is, as far as its type tells; None where it does not."""

    dtype: str | None
    meaning: native.Meaning
    shape: tuple[int, ...] | None

    @property
    def name(self) -> str | None:
        """Of the type of its values, as the caller knows it."""
        names = [name for name in STORED if meaning_of(name) is self.meaning]
        return next((one for one in names if STORED[one] == self.dtype), self.dtype)

    def __str__(self) -> str:
        if self.dtype is None or self.shape is None:
            return "bytes without a type"
        return f"{self.name} of shape {self.shape}"


@contextmanager
def _naming_types(codec: Codec | None, values: Known, kind: native.Dtype | None) -> Iterator[None]:
    """Say which types a codec takes, where values were refused for theirs.

    Parameters
    ----------
    kind
        What the caller says that they are.
    """
    try:
        yield
    except InputError as error:
        # what the core refused is an array
        if codec is None or not isinstance(error.__cause__, native.NativeError):
            raise
        own = _kind_of(values)
        if kind is None and own.dtype is not None:
            kind = _dtype_named(own.dtype)
        elif kind is None and not on_gpu(values.values):
            kind = native.bytes_view(values.values)[1]
        if codec.by_nvcomp or kind is None:
            raise
        coded = native.Codec[codec]
        if native.can_compress(coded, kind):
            raise
        taken = ", ".join(
            _type_name(one) for one in native.Dtype if native.can_compress(coded, one)
        )
        raise InputError(
            f"codec {codec} does not take values of type {own.name or _type_name(kind)}, but of "
            f"{taken}; give auto or another"
        ) from None


def _type_name(kind: native.Dtype) -> str:
    return "uint8" if kind is native.Dtype.bytes else kind.name


def base_of_values(base: Any, dtype: str | None, values: Known) -> Any:
    """Return the base of values that are to be compressed, as the core takes it.

    Parameters
    ----------
    base
        As the caller gave it.
    dtype
        What the caller says that values are.

    Raises
    ------
    InputError
        If it is no array, lies elsewhere, or is of another type or shape.
    """
    known = _known(base, dtype)
    _require_place(base, values.values, "values")
    one, other = _kind_of(known), _kind_of(values)
    if None not in (one.dtype, other.dtype) and one != other:
        raise InputError(
            f"the base is {one}, and the values are {other}; give the array that the other side has"
        )
    return known.values


def base_of_stream(base: Any, stream: Any, info: StreamInfo) -> Any:
    """Return the base of a stream that is to be decompressed, as the core takes it.

    Raises
    ------
    InputError
        If it is no array, lies elsewhere, or is of another type or shape; or if the stream needs
        one and there is none, or the other way round.
    """
    if base is None and info.update is None:
        return None
    if info.update is None:
        raise InputError("the stream holds the whole array and needs no base; leave the base out")
    if base is None:
        raise InputError(
            f"the stream is an update of an array with the checksum {info.base_checksum:016x}; "
            "give that array as base="
        )
    _require_place(base, stream, "stream")
    known = _known(base, None)
    one = _kind_of(known)
    dtype = info.dtype
    is_complex = dtype.startswith("complex")
    stored = _Kind(
        stored_type(dtype), meaning_of(dtype), (*info.shape, 2) if is_complex else info.shape
    )
    by_place = stored._replace(dtype=cupy_type(dtype), meaning=native.Meaning.plain)
    if one.dtype is not None and one not in (stored, by_place):
        raise InputError(
            f"the base is {one}, and the stream is an update of {stored}; give the array that it "
            "was made against"
        )
    return known.values


def require_coder(codec: Codec | None) -> None:
    """Refuse codecs that make no updates.

    Raises
    ------
    InputError
        If it is one.
    """
    if codec is not None and codec.by_nvcomp:
        names = ", ".join(one for one in Codec if not one.by_nvcomp)
        raise InputError(f"codec {shown(str(codec))} makes no updates; give auto or one of {names}")


def _known(base: Any, dtype: str | None) -> Known:
    try:
        known = known_values(base, dtype)
    except InputError as error:
        raise InputError(f"the base cannot be used: {error}") from error
    if on_gpu(base):
        if not _is_whole(base):
            raise InputError(
                "the base has gaps or is not in C order; call .contiguous() or copy it"
            )
        return known
    try:
        native.bytes_view(known.values)
    except (TypeError, native.NativeError) as error:
        raise InputError(f"the base cannot be used: {why_no_array(base)}") from error
    return known


def _is_whole(array: Any) -> bool:
    """Whether an array in a GPU's memory lies in one piece, as far as it tells."""
    if hasattr(array, "is_contiguous"):
        return bool(array.is_contiguous())
    return bool(getattr(getattr(array, "flags", None), "c_contiguous", True))


def _kind_of(known: Known) -> _Kind:
    own, shape = getattr(known.values, "dtype", None), getattr(known.values, "shape", None)
    if own is None or shape is None:
        return _Kind(None, known.meaning, None)
    name = str(getattr(own, "name", own)).removeprefix("torch.")
    return _Kind(known.dtype or name, known.meaning, tuple(shape))


def _require_place(base: Any, other: Any, what: str) -> None:
    if on_gpu(base) is on_gpu(other):
        return
    places = {True: "in a GPU's memory", False: "in the host's memory"}
    here, there = places[on_gpu(base)], places[on_gpu(other)]
    lies = "lies" if what == "stream" else "lie"
    raise InputError(
        f"the base lies {here}, and the {what} {lies} {there}; give one in the same memory"
    )
