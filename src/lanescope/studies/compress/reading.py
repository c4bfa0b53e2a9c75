"""Results of ``lanescope bench compress`` as they were stored, of this schema and older ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lanescope.codec.fields import FieldError, Positive, PositiveInt, build
from lanescope.codec.files import fields_of, read_json, require_version
from lanescope.compression.device import Choice
from lanescope.compression.stream import Codec
from lanescope.studies.compress.advice import Link
from lanescope.studies.compress.crossings import Crossing
from lanescope.studies.compress.json import SCHEMA, CompressRequest, MeasuredBy
from lanescope.studies.compress.results import ArrayResult, Kernels, Measured, Timing

_FILE = "compress.json"


@dataclass(frozen=True, slots=True)
class Stored:
    """What a file holds.

    Attributes
    ----------
    complete
        Whether all arrays were measured.
    by
        Where and by what they were measured; None: here, by this lanescope.
    """

    results: tuple[ArrayResult, ...]
    asked: CompressRequest
    left_out: tuple[str, ...]
    complete: bool = True
    by: MeasuredBy | None = None


def read_compress(path: Path) -> Stored:
    """Return the results of a ``compress.json``, or of the run folder that has one.

    Raises
    ------
    InputError
        If it cannot be read, is none, or of a newer lanescope.
    """
    file = path / _FILE if path.is_dir() else path
    table = read_json(file, inner=int(file.name == _FILE))  # of a folder, maybe a stranger's
    with fields_of(file, "name a compress.json of lanescope bench compress"):
        if not isinstance(table, dict) or "schema" not in table:
            raise FieldError("it holds no results of lanescope bench compress", "schema")
        require_version(table["schema"], SCHEMA, file, writer=table.get("lanescope"))
        told = build(_File, table, others=True)
    return Stored(
        tuple(_array(one) for one in told.arrays),
        CompressRequest(told.link, told.slab_bytes, told.gpus),
        told.left_out,
        told.complete,
        MeasuredBy(told.lanescope, told.cpu),
    )


@dataclass(frozen=True, slots=True)
class _Timing:
    """As `Timing`."""

    threads: int
    timed_bytes: PositiveInt
    compress_seconds: tuple[Positive, ...]
    decompress_seconds: tuple[Positive, ...]

    def __post_init__(self) -> None:
        if not self.compress_seconds or not self.decompress_seconds:
            raise ValueError("a codec has no times")


@dataclass(frozen=True, slots=True)
class _Codec:
    """As `Measured`."""

    device: str
    codec: Codec
    dimensionality: int
    stored_bytes: PositiveInt
    coded_blocks: int
    blocks: int
    timings: tuple[_Timing, ...] = ()


@dataclass(frozen=True, slots=True)
class _Kernels:
    """As `Kernels`."""

    gpu: int
    codec: Codec
    dimensionality: int
    bytes: PositiveInt
    stored_bytes: PositiveInt
    timings: tuple[_Timing, ...]

    def __post_init__(self) -> None:
        if not self.timings:
            raise ValueError("kernels have no times")


@dataclass(frozen=True, slots=True)
class _Array:
    """As `ArrayResult`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: PositiveInt
    made_up: bool
    note: str
    codecs: tuple[_Codec, ...]
    dimensionalities: tuple[_Codec, ...]
    gpu: tuple[_Kernels, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    gpu_notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    """What is read of a file; what follows from it is computed anew."""

    lanescope: str
    cpu: str | None
    complete: bool
    link: Link | None
    slab_bytes: PositiveInt
    arrays: tuple[_Array, ...]
    left_out: tuple[str, ...]
    gpus: tuple[str, ...] = ()


def _array(told: _Array) -> ArrayResult:
    return ArrayResult(
        told.name,
        told.dtype,
        told.shape,
        told.bytes,
        told.made_up,
        told.note,
        tuple(_measured(one, told.bytes) for one in told.codecs),
        tuple(_measured(one, told.bytes) for one in told.dimensionalities),
        tuple(_kernels(one) for one in told.gpu),
        told.crossings,
        told.gpu_notes,
    )


def _measured(told: _Codec, size: int) -> Measured:
    return Measured(
        told.device,
        Choice(told.codec, told.dimensionality),
        size,
        told.stored_bytes,
        told.coded_blocks,
        told.blocks,
        tuple(_timing(one) for one in told.timings),
    )


def _kernels(told: _Kernels) -> Kernels:
    choice = Choice(told.codec, told.dimensionality)
    timings = tuple(_timing(one) for one in told.timings)
    return Kernels(told.gpu, choice, told.bytes, told.stored_bytes, timings)


def _timing(told: _Timing) -> Timing:
    return Timing(told.threads, told.timed_bytes, told.compress_seconds, told.decompress_seconds)
