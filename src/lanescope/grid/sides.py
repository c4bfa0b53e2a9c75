"""Sides of a grid as a user writes them."""

from __future__ import annotations

import re

from lanescope.errors import InputError

#: One array of them takes 512 GiB.
MOST_POINTS = 1 << 36


def parse_sides(text: str, option: str, example: str) -> tuple[int, int, int]:
    """Return the points from west to east, to north, and the levels of ``XxYxZ``.

    Raises
    ------
    InputError
        If it is not that; it names the option and shows the example.
    """
    match = re.fullmatch(r"([0-9]{1,6})[xX]([0-9]{1,6})[xX]([0-9]{1,6})", text)
    x, y, z = map(int, match.groups()) if match else (0, 0, 0)
    if not 0 < x * y * z <= MOST_POINTS:
        raise InputError(
            f"{option} {text[:60]!r} is no grid; give three whole numbers such as {example}, "
            f"{MOST_POINTS:,} points at most"
        )
    return x, y, z
