"""Sides of a grid as a user writes them."""

from __future__ import annotations

from lanescope.errors import InputError


def parse_sides(text: str, option: str, example: str) -> tuple[int, int, int]:
    """Return the points from west to east, to north, and the levels of ``XxYxZ``.

    Raises
    ------
    InputError
        If it is not that; it names the option and shows the example.
    """
    parts = text.lower().split("x")
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() and int(p) > 0 for p in parts):
        raise InputError(
            f"{option} '{text}' is no grid; give three whole numbers such as {example}"
        )
    x, y, z = map(int, parts)
    return x, y, z
