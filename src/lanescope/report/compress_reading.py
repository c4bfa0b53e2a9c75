"""Results of ``lanescope bench compress`` as they were stored, of this schema and older ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from lanescope.compression.advice import Link
from lanescope.compression.crossings import WRONG_SHAPE, crossing
from lanescope.compression.device import Choice
from lanescope.compression.results import ArrayResult, Kernels, Measured, Timing
from lanescope.compression.stream import Codec
from lanescope.errors import InputError
from lanescope.report.compress_json import SCHEMA, Asked

_FILE = "compress.json"


@dataclass(frozen=True, slots=True)
class Stored:
    """What a file holds.

    Attributes
    ----------
    complete
        Whether all arrays were measured.
    """

    results: tuple[ArrayResult, ...]
    asked: Asked
    left_out: tuple[str, ...]
    complete: bool = True


def read_compress(path: Path) -> Stored:
    """Return the results of a ``compress.json``, or of the run folder that has one.

    Raises
    ------
    InputError
        If it cannot be read, is none, or of a newer lanescope.
    """
    file = path / _FILE if path.is_dir() else path
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        if told["schema"] > SCHEMA:
            raise InputError(f"{file} was written by a newer lanescope; read it with that one")
        return Stored(
            tuple(_array(one) for one in told["arrays"]),
            _asked(told),
            tuple(map(str, told["left_out"])),
            bool(told["complete"]),
        )
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}; name a compress.json") from error
    except WRONG_SHAPE as error:
        raise InputError(
            f"{file} holds no results of lanescope bench compress ({type(error).__name__}: "
            f"{error}); name a compress.json"
        ) from error


def _asked(told: dict[str, Any]) -> Asked:
    link = told["link"]
    named = link and Link(str(link["name"]), float(link["gbs"]), float(link["first_seconds"]))
    return Asked(named, int(told["slab_bytes"]), tuple(map(str, told.get("gpus", []))))


def _array(told: dict[str, Any]) -> ArrayResult:
    size = int(told["bytes"])
    return ArrayResult(
        str(told["name"]),
        str(told["dtype"]),
        tuple(map(int, told["shape"])),
        size,
        bool(told["made_up"]),
        str(told["note"]),
        tuple(_measured(one, size) for one in told["codecs"]),
        tuple(_measured(one, size) for one in told["dimensionalities"]),
        tuple(_kernels(one) for one in told.get("gpu", [])),
        tuple(crossing(one) for one in told.get("crossings", [])),
        tuple(map(str, told.get("gpu_notes", []))),
    )


def _measured(told: dict[str, Any], size: int) -> Measured:
    return Measured(
        str(told["device"]),
        _choice(told),
        size,
        int(told["stored_bytes"]),
        int(told["coded_blocks"]),
        int(told["blocks"]),
        tuple(_timing(one) for one in told.get("timings", [])),
    )


def _kernels(told: dict[str, Any]) -> Kernels:
    timings = tuple(_timing(one) for one in told["timings"])
    if not timings:
        raise ValueError("kernels have no times")
    return Kernels(
        int(told["gpu"]), _choice(told), int(told["bytes"]), int(told["stored_bytes"]), timings
    )


def _choice(told: dict[str, Any]) -> Choice:
    return Choice(Codec(told["codec"]), int(told["dimensionality"]))


def _timing(told: dict[str, Any]) -> Timing:
    made = Timing(
        int(told["threads"]),
        int(told["timed_bytes"]),
        tuple(map(float, told["compress_seconds"])),
        tuple(map(float, told["decompress_seconds"])),
    )
    times = made.compress_seconds + made.decompress_seconds
    if not made.compress_seconds or not made.decompress_seconds:
        raise ValueError("a codec has no times")
    if not all(0 < one < inf for one in times):
        raise ValueError("times are not above zero")
    return made
