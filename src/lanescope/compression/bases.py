"""The base of an update: the array that the other side has, and to which differences are taken."""

from __future__ import annotations

from typing import Any, NamedTuple

from lanescope._core import native
from lanescope.calls import shown
from lanescope.compression import gpu
from lanescope.compression.array_values import Known, known_values, why_no_array
from lanescope.compression.meanings import STORED, cupy_type, meaning_of, stored_type
from lanescope.compression.stream import Codec, StreamInfo
from lanescope.errors import InputError


class _Kind(NamedTuple):
    """What an array is, as far as its type tells; None where it does not."""

    dtype: str | None
    meaning: native.Meaning
    shape: tuple[int, ...] | None

    def __str__(self) -> str:
        names = [name for name in STORED if meaning_of(name) is self.meaning]
        name = next((one for one in names if STORED[one] == self.dtype), self.dtype)
        if self.dtype is None or self.shape is None:
            return "bytes without a type"
        return f"{name} of shape {self.shape}"


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
    if gpu.on_gpu(base):
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
    if gpu.on_gpu(base) is gpu.on_gpu(other):
        return
    places = {True: "in a GPU's memory", False: "in the host's memory"}
    here, there = places[gpu.on_gpu(base)], places[gpu.on_gpu(other)]
    lies = "lies" if what == "stream" else "lie"
    raise InputError(
        f"the base lies {here}, and the {what} {lies} {there}; give one in the same memory"
    )
