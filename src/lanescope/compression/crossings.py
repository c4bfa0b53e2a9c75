"""Transfers measured as they are and compressed, as ``benchmarks/compress`` keeps them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from lanescope.compression.costs import MARGIN
from lanescope.compression.device import Choice
from lanescope.compression.speeds import speed
from lanescope.compression.stream import Codec
from lanescope.errors import InputError
from lanescope.model.transfer.estimate import Estimate

#: What reading JSON leads to that is none, or of another shape.
WRONG_SHAPE = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, slots=True)
class Crossing:
    """One array over one path by one codec, and as it is in turns with that.

    Attributes
    ----------
    path, data
        Such as ``p2p``, and what the array holds.
    bytes, wire_bytes
        Of the array, and that crossed the link compressed.
    sms
        Multiprocessors that the codec may use on each side; 0: all.
    raw_seconds, seconds
        Every sample, as it is and compressed, in turns.
    dimensionality
        Of GFC.
    """

    path: str
    data: str
    codec: str
    bytes: int
    sms: int
    raw_seconds: tuple[float, ...]
    seconds: tuple[float, ...]
    wire_bytes: int
    dimensionality: int = 1

    @property
    def choice(self) -> Choice:
        """The codec with its dimensionality."""
        return Choice(Codec(self.codec), self.dimensionality)

    @property
    def ratio(self) -> float:
        """Bytes of the array over those that crossed the link."""
        return self.bytes / self.wire_bytes

    @property
    def gbs(self) -> Estimate:
        """Effective data rate compressed: GB/s of the array, median and its 95 % interval."""
        return speed(self.bytes, self.seconds)

    @property
    def raw_gbs(self) -> Estimate:
        """Data rate as it is: GB/s, median and its 95 % interval."""
        return speed(self.bytes, self.raw_seconds)

    @property
    def speedup(self) -> Estimate:
        """How many times as fast as it is: by the medians, and what their intervals allow."""
        coded, raw = self.gbs, self.raw_gbs
        return Estimate(coded.value / raw.value, coded.low / raw.high, coded.high / raw.low)

    @property
    def pays(self) -> bool:
        """Whether it took less than `MARGIN` of the time, by the medians."""
        return MARGIN * self.speedup.value > 1


def read_crossings(path: Path) -> tuple[Crossing, ...]:
    """Return the rows of a file; what is there beside their fields is not looked at.

    Parameters
    ----------
    path
        Of ``benchmarks/compress/channel.py``, or a ``compress.json`` of ``lanescope bench
        compress``.

    Raises
    ------
    InputError
        If it cannot be read, or is no such file.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        rows = told["rows"] if "rows" in told else _rows_of_arrays(told["arrays"])
        return tuple(crossing(row) for row in rows)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; name another file") from error
    except WRONG_SHAPE as error:
        raise InputError(
            f"{path} holds no measured transfers ({type(error).__name__}: {error}); name a file "
            "that benchmarks/compress/channel.py wrote, or a compress.json"
        ) from error


def _rows_of_arrays(arrays: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for one in arrays for row in one.get("crossings", [])]


def crossing(row: dict[str, Any]) -> Crossing:
    """Return a row of a file.

    Raises
    ------
    ValueError, TypeError, KeyError
        If it is none.
    """
    made = Crossing(
        str(row["path"]),
        str(row["data"]),
        str(Codec(row["codec"])),
        int(row["bytes"]),
        int(row["sms"]),
        tuple(map(float, row["raw_seconds"])),
        tuple(map(float, row["seconds"])),
        int(row["wire_bytes"]),
        int(row.get("dimensionality", 1)),
    )
    times = made.raw_seconds + made.seconds
    if not made.seconds or not made.raw_seconds or not all(0 < one < inf for one in times):
        raise ValueError("a row has no times, or some that are not above zero")
    if made.bytes <= 0 or made.wire_bytes <= 0:
        raise ValueError("a row has no bytes")
    return made
