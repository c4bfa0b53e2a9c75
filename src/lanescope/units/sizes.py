"""Sizes as people write them, ``16``, ``200KB``, ``512MiB``, and bandwidths: bytes in a time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, TypeVar

from lanescope.codec.fields import shown
from lanescope.errors import InputError
from lanescope.kinds import ArgumentKind, Unfit, kind_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    Number = TypeVar("Number", float, FloatArray)

#: A number as people and programs write it.
NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,2})?"
_UNITS = {"": 1, "B": 1}
#: 1 EiB: sums of such sizes still fit into 64 bits.
LARGEST_BYTES = 1 << 60
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")
#: Whole bytes below this are told as such where no unit makes them short.
_PLAIN_BYTES = 10_000
#: More than any memory has.
_MOST_BYTES = 1 << 50
_MOST_LETTERS = 60
_WORDS = "a size in bytes, such as 64 << 20 or '64MiB'"
_BYTES_PER_GB = 1e9

for _power, _letter in enumerate("KMGTP", start=1):
    _UNITS[f"{_letter}B"] = 1000**_power
    _UNITS[f"{_letter}IB"] = 1024**_power


def parse_size(text: str) -> int:
    """Return a size in bytes.

    KB to PB are decimal, KiB to PiB binary; case does not matter, but that ``Gb`` is bits.

    Raises
    ------
    InputError
        If the text is no size, in bits, not above zero, or above 1 EiB.

    >>> parse_size("512MiB"), parse_size("2e9")
    (536870912, 2000000000)
    """
    match = re.fullmatch(rf"\s*({NUMBER})\s*([A-Za-z]*)\s*", text)
    if (instead := in_bytes(text)) is not None:
        raise InputError(f"{shown(text)} is in bits; give bytes, as in {instead}")
    if (both := with_unit(text)) is not None:
        raise InputError(f"{shown(text)} is not a size without its unit; write {both}")
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise InputError(f"{shown(text)} is not a size; write for example 16, 200KB, 64KiB or 2GiB")
    size = Fraction(match[1]) * unit
    if size < 1 or size.denominator != 1:
        raise InputError(
            f"size {shown(text)} is not a whole number of bytes above zero; give 1 B or more"
        )
    if size > LARGEST_BYTES:
        raise InputError(f"size {text!r} is above 1 EiB; give less")
    return int(size)


def in_bytes(text: str) -> str | None:
    """Return a size in bits as the same number of bytes, which may be meant; None for others.

    >>> in_bytes("2 Gb"), in_bytes("2gb"), in_bytes("2 Gbit")
    ('2GB', None, '2GB')
    """
    match = re.fullmatch(rf"\s*({NUMBER})\s*([KMGTP]i?)(?:b|[Bb]its?)\s*", text)
    return None if match is None else f"{match[1]}{match[2]}B"


def with_unit(text: str) -> str | None:
    """Return a size with a prefix alone as both sizes that may be meant; None for others.

    >>> with_unit("64k"), with_unit("1.5 Gi"), with_unit("64kB")
    ('64KiB (powers of 1024) or 64KB (of 1000)', '1.5GiB', None)
    """
    match = re.fullmatch(rf"\s*({NUMBER})\s*([KMGTP])(i?)\s*", text, re.IGNORECASE)
    if match is None:
        return None
    number, prefix = match[1], match[2].upper()
    if match[3]:
        return f"{number}{prefix}iB"
    return f"{number}{prefix}iB (powers of 1024) or {number}{prefix}B (of 1000)"


def size_text(count: float) -> str:
    """Return a size for people: as it was asked for, where that was a round number of bytes.

    Decimal units for what has at most three digits in them, else binary ones, rounded to three.

    >>> size_text(512 << 20), size_text(1.5e9), size_text(5256), size_text(123456789)
    ('512 MiB', '1.5 GB', '5256 B', '118 MiB')
    """
    if _is_round(count):
        power = len(str(int(count))) // 3 - (len(str(int(count))) % 3 == 0)
        power = min(power, len(_DECIMAL) - 1)
        return f"{float(f'{count / 1000**power:.12g}'):g} {_DECIMAL[power]}"
    if (
        count < _PLAIN_BYTES
        and count == int(count)
        and float(f"{count / 1024:.3g}") * 1024 != count
    ):
        return f"{int(count)} B"
    return binary_text(count)


def binary_text(count: float) -> str:
    """Return a size in binary units, rounded to three digits: sums, that nobody asked for.

    Bytes without a prefix are whole.

    >>> binary_text(800e6), binary_text(1e3), binary_text(1001)
    ('763 MiB', '1000 B', '1001 B')
    """
    value, power = float(count), 0
    while value >= 1024 and power < len(_BINARY) - 1:
        value, power = value / 1024, power + 1
    number = f"{value:.0f}" if not power and value >= 100 else _three(value)
    return f"{number} {_BINARY[power]}"


def is_decimal(sizes: Iterable[float]) -> bool:
    """Whether most of some sizes are tens, hundreds and so on of bytes."""
    known = [_is_round(size) or size % 10 == 0 for size in sizes]
    return 2 * sum(known) > len(known)


def _is_round(count: float) -> bool:
    """Whether it has at most three digits and then noughts, from 1000 bytes on."""
    return count >= 1000 and count == int(count) and len(str(int(count)).rstrip("0")) <= 3


def _three(value: float) -> str:
    rounded = float(f"{value:.3g}")
    return f"{rounded:.0f}" if rounded >= 100 else f"{rounded:g}"


def exact_size_text(size: int) -> str:
    """Return a size in bytes as text that `parse_size` reads back, in the largest whole unit.

    >>> exact_size_text(512 << 20), exact_size_text(1000)
    ('512MiB', '1000B')
    """
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return f"{size}B"


def rising_sizes(smallest: int, largest: int, step: int = 2) -> tuple[int, ...]:
    """Return smallest, step * smallest, ... up to and with the last one not above `largest`.

    Raises
    ------
    InputError
        If the smallest is larger than the largest.

    >>> rising_sizes(4, 100, step=4)
    (4, 16, 64)
    """
    if smallest > largest:
        raise InputError(
            f"the smallest size ({size_text(smallest)}) is larger than the largest "
            f"({size_text(largest)}); swap them"
        )
    sizes = []
    while smallest <= largest:
        sizes.append(smallest)
        smallest *= step
    return tuple(sizes)


def size_of(size: int | str) -> int:
    """Return a size in bytes that is given as a number or as text, such as ``"64MiB"``.

    Raises
    ------
    InputError
        If the text is no size.
    """
    return parse_size(size) if isinstance(size, str) else size


def _taken(size: object) -> int:
    if isinstance(size, str) and len(size) <= _MOST_LETTERS:
        size = parse_size(size)
    count: int = kind_of(int).take(size)
    if count > _MOST_BYTES:
        raise Unfit
    return count


def _taken_above_zero(size: object) -> int:
    count = _taken(size)
    if count < 1:
        raise Unfit
    return count


#: A size in bytes as Python programs give it, and as fields hold it.
Size = Annotated[int | str, ArgumentKind(_WORDS, _taken_above_zero, "sizes in bytes")]
#: The same where a field holds an int, and says itself why none is 0.
Count = Annotated[int, ArgumentKind(_WORDS, _taken, "sizes in bytes", hint=int | str)]
#: The same, or 0.
Bytes = Annotated[int, ArgumentKind(f"{_WORDS}, or 0", _taken, "sizes in bytes", hint=int | str)]


def bandwidth_gbs(counted_bytes: float, seconds: float) -> float:
    """Return the bandwidth in GB/s.

    Raises
    ------
    ValueError
        If the time is not positive: such a reading is below the clock's
        resolution and has no bandwidth.

    >>> bandwidth_gbs(64 << 20, 1.2e-3)
    55.92405333333333
    """
    if not seconds > 0:
        raise ValueError(f"{seconds} s is below the clock's resolution and gives no bandwidth")
    return counted_bytes / seconds / _BYTES_PER_GB


def bandwidths_gbs(counted_bytes: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return the bandwidth of each row in GB/s; not a number where no time passed."""
    import numpy as np

    positive = np.where(seconds > 0, seconds, np.nan)
    return counted_bytes / positive / _BYTES_PER_GB


def transfer_seconds(counted_bytes: Number, gbs: float) -> Number:
    """Return how long bytes take at a bandwidth in GB/s, which is above zero."""
    return counted_bytes / (gbs * _BYTES_PER_GB)


def bytes_a_second(gbs: float) -> float:
    """Return a bandwidth in GB/s as bytes a second."""
    return gbs * _BYTES_PER_GB
