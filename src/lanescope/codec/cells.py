"""Cells of CSV that spreadsheets take for text and not for a formula."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: What spreadsheets begin a formula with, or skip before one.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def safe_cells(row: Iterable[Any]) -> list[Any]:
    """Return a row in which no text is a formula; numbers, also as text, stay.

    >>> safe_cells(["=1+1", "h2d", "-0.5", -1])
    ["'=1+1", 'h2d', '-0.5', -1]
    """
    return [f"'{cell}" if _is_formula(cell) else cell for cell in row]


def _is_formula(cell: Any) -> bool:
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False
