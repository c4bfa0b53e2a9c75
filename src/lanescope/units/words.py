"""Times and rates in sentences."""

from __future__ import annotations

from collections.abc import Sequence

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


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
