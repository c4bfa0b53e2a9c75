"""Times as people write them: ``100us``, ``15s``, ``2min``."""

from __future__ import annotations

import re
from typing import Annotated

from lanescope.codec.fields import shown
from lanescope.errors import InputError
from lanescope.kinds import Kind, kind_of
from lanescope.units.sizes import NUMBER

_SECOND = 1_000_000_000
#: Keyboards and fonts have a Greek mu, too, which looks like the micro sign.
_GREEK_MU = "\u03bc"
_MICROS = ("us", "µs", f"{_GREEK_MU}s")
_UNITS = {"ns": 1, "ms": 1_000_000, "s": _SECOND} | dict.fromkeys(_MICROS, 1_000)
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
    float, Kind("seconds, such as 0.012 or '12ms'", _taken, "seconds", hint=float | str)
]
