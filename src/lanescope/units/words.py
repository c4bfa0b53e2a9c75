"""Times and rates in sentences, and times as people write them: ``100us``, ``15s``, ``2min``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from lanescope.codec.fields import shown
from lanescope.errors import InputError
from lanescope.kinds import ArgumentKind, kind_of
from lanescope.units.sizes import NUMBER

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SECOND = 1_000_000_000
#: Keyboards and fonts have a Greek mu, too, which looks like the micro sign.
_GREEK_MU = "\u03bc"
_MICROS = ("us", "µs", f"{_GREEK_MU}s")
_UNITS = {"ns": 1, "ms": 1_000_000, "s": _SECOND} | dict.fromkeys(_MICROS, 1_000)


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many letters; an ellipsis stands for the rest.

    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def enumeration(words: Sequence[str]) -> str:
    """Return some words, one or more, as a sentence lists them.

    >>> enumeration(["a"]), enumeration(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def time_text(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> time_text(0.0142), time_text(3e-10)
    ('14.2 ms', '0.3 ns')
    >>> time_text(-480e-6)
    '-480 µs'
    """
    if seconds < 0:
        return f"-{time_text(-seconds)}"
    rounded = seconds * (1 + 1e-9)  # 999.5 µs is 1.00 ms, though as a float it is a little less
    for scale, unit in _TIMES:
        if rounded >= scale * 0.9995:
            return f"{three_digits(rounded / scale)} {unit}"
    return f"{seconds * 1e9:.2g} ns"


def rate_text(gbs: float) -> str:
    """Return a bandwidth with its unit, such as ``12.1 GB/s``."""
    return f"{three_digits(gbs)} GB/s"


def three_digits(value: float) -> str:
    """Return three significant digits, never an exponent."""
    rounded = float(f"{value:.3g}")
    if rounded >= 100:
        return f"{rounded:.0f}"
    return f"{rounded:.2f}" if rounded < 10 else f"{rounded:.1f}"


_UNITS |= {"min": 60 * _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND, "d": 86400 * _SECOND}


def parse_ns(text: str, option: str) -> int:
    """Return a time in nanoseconds.

    Raises
    ------
    InputError
        If the text is no time, or not above zero; `option` is where it was given.

    >>> parse_ns("100us", "--interval"), parse_ns("1e-3s", "--interval")
    (100000, 1000000)
    """
    match = re.fullmatch(rf"\s*({NUMBER})\s*([a-zµ{_GREEK_MU}]+)\s*", text)
    scale = _UNITS.get(match[2]) if match else None
    if match is None or scale is None:
        raise InputError(f"{option} {shown(text)} is no time; write for example 100us, 1ms or 2s")
    found = round(float(match[1]) * scale)
    if found < 1:
        raise InputError(f"{option} {shown(text)} is not above zero; write for example 100us")
    return found


def is_zero(text: str) -> bool:
    """Whether a text is no time at all: ``0``, with a unit of up to seconds or without.

    >>> is_zero("0us"), is_zero("0.1us")
    (True, False)
    """
    return re.fullmatch(rf"\s*0\s*(ns|{'|'.join(_MICROS)}|ms|s)?\s*", text) is not None


def parse_seconds(text: str, option: str) -> float:
    """Return a time in seconds; see `parse_ns`.

    >>> parse_seconds("1.5min", "--within")
    90.0
    """
    return parse_ns(text, option) / _SECOND


def duration_text(nanoseconds: int) -> str:
    """Return a time in words, to three digits.

    >>> duration_text(86_400 * 10**9), duration_text(90 * 10**9)
    ('24 hours', '90 s')
    """
    for unit, scale in (("days", _UNITS["d"]), ("hours", _UNITS["h"]), ("minutes", _UNITS["min"])):
        if nanoseconds >= 2 * scale:
            return f"{nanoseconds / scale:.3g} {unit}"
    return f"{nanoseconds / _SECOND:.3g} s"


def _taken(time: object) -> float:
    if isinstance(time, str):
        return 0.0 if is_zero(time) else parse_seconds(time, "time")
    seconds: float = kind_of(float).take(time)
    return seconds


#: Seconds as Python programs give them, a number or text such as ``"12ms"``; fields hold a float.
Seconds = Annotated[
    float, ArgumentKind("seconds, such as 0.012 or '12ms'", _taken, "seconds", hint=float | str)
]
