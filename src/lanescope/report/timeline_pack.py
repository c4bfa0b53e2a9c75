"""Columns of numbers as one compressed block of text for the script of a page.

A column is whole numbers, told as differences where it grows. Its bytes are written
plane by plane, the lowest bytes of all rows first, as most planes then hold nearly
nothing; all columns together are compressed and written in base64.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lanescope.watch.codes import BoolArray, IntArray

#: Bits of a rounded number: it differs from the exact one by less than 0.05 %.
_ROUNDED_BITS = 11
#: Stands in a rounded column for what is not known.
UNKNOWN_CODE = 0xFFFF
#: Higher levels take much longer and save little.
_LEVEL = 6


@dataclass(slots=True)
class Pack:
    """Collects columns; `columns` describes each, in the order of their bytes."""

    columns: list[dict[str, Any]] = field(default_factory=list)
    _parts: list[bytes] = field(default_factory=list)

    def add(self, values: IntArray, *, growing: bool = False) -> int:
        """Add a column of whole numbers and return its number.

        Parameters
        ----------
        growing
            Whether neighbours are alike, so that their differences are smaller.
        """
        whole = np.asarray(values, np.int64)
        if growing and whole.size:
            whole = np.diff(whole, prepend=0)
        signed = bool(whole.size) and bool(whole.min() < 0)
        if signed:
            whole = (whole << 1) ^ (whole >> 63)
        unsigned = whole.view(np.uint64)
        most = int(unsigned.max()) if unsigned.size else 0
        width = max(1, (most.bit_length() + 7) // 8)
        planes = unsigned.view(np.uint8).reshape(-1, 8)[:, :width]
        self._parts.append(np.ascontiguousarray(planes.T).tobytes())
        told = {"rows": int(whole.size), "width": width, "signed": signed, "growing": growing}
        self.columns.append(told)
        return len(self.columns) - 1

    def add_rounded(self, values: IntArray, known: BoolArray | None = None) -> int:
        """Add a column of numbers that need not be exact and are not negative."""
        codes = rounded_codes(np.asarray(values, np.int64))
        if known is not None:
            codes = np.where(known, codes, UNKNOWN_CODE)
        return self.add(codes)

    def base64(self) -> str:
        """Return the bytes of all columns, compressed, as text."""
        return base64.b64encode(zlib.compress(b"".join(self._parts), _LEVEL)).decode("ascii")


def rounded_codes(values: IntArray) -> IntArray:
    """Return numbers as 16-bit codes of 11 significant bits; small ones stay exact.

    The code is ``(exponent << 10) + mantissa`` and grows with the number.

    >>> rounded_codes(np.array([7, 2047, 2048, 5_000_000])).tolist()
    [7, 2047, 2048, 13509]
    """
    half = 1 << (_ROUNDED_BITS - 1)
    exponent: IntArray = np.maximum(_bit_length(values) - _ROUNDED_BITS, 0)
    mantissa = (values + (np.left_shift(1, exponent) >> 1)) >> exponent
    codes: IntArray = exponent * half + mantissa  # a mantissa rounded up carries over by itself
    return codes


def _bit_length(values: IntArray) -> IntArray:
    _, exponent = np.frexp(values.astype(np.float64))
    lengths: IntArray = exponent.astype(np.int64)
    return lengths
