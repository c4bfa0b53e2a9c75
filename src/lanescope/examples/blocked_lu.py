"""Blocked LU factors of a matrix whose block columns lie on several devices.

Right-looking, without exchange of rows, which a diagonally dominant matrix does not need: for
each block column in turn, its device factors it below the diagonal (the panel) and sends it to
the others, and each device updates the block columns to the right that it has. The algorithm
knows nothing of devices: `Linear` computes, `Send` brings panels from one to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

#: Brings a panel from one device, by number, to another, and returns it there.
Send = Callable[[Any, int, int], Any]


class Linear(Protocol):
    """What the algorithm computes with matrices of one library, where they lie."""

    def factor(self, block: Any) -> Any:
        """Return L and U of a square block in one matrix, without exchange of rows."""

    def solve_lower(self, block: Any, right: Any) -> Any:
        """Return X with L X = `right`, L the lower part of `block` with ones on its diagonal."""

    def solve_upper(self, block: Any, left: Any) -> Any:
        """Return X with X U = `left`, U the upper part of `block`."""

    def in_one_piece(self, panel: Any) -> Any:
        """Return a panel that lies in memory without gaps, row by row."""


@dataclass(frozen=True, slots=True)
class Dealt:
    """A square matrix, its block columns dealt in turns.

    Attributes
    ----------
    rows
        Of the matrix; a multiple of `block`.
    block
        Columns of a block column.
    parts
        For each device its block columns, side by side: shape (rows, columns there).
    """

    rows: int
    block: int
    parts: Sequence[Any]

    @property
    def blocks(self) -> int:
        """Block columns of the matrix."""
        return self.rows // self.block

    def place(self, number: int) -> tuple[int, int]:
        """Return a block column's device, and its first column there."""
        devices = len(self.parts)
        return number % devices, number // devices * self.block

    def first_after(self, number: int, device: int) -> int:
        """Return the first column on a device of the block columns after one."""
        devices = len(self.parts)
        before = (number + devices - device) // devices
        return before * self.block


def columns_of(device: int, devices: int, rows: int, block: int) -> Iterator[slice]:
    """Yield the columns of the whole matrix that a device has, block column by block column."""
    for number in range(device, rows // block, devices):
        yield slice(number * block, (number + 1) * block)


def factor(matrix: Dealt, linear: Linear, send: Send) -> None:
    """Put the factors L and U in place of a matrix; the ones on L's diagonal are not stored."""
    block = matrix.block
    for number in range(matrix.blocks):
        owner, column = matrix.place(number)
        top = number * block
        panel = matrix.parts[owner][top:, column : column + block]
        panel[:block] = linear.factor(panel[:block])
        panel[block:] = linear.solve_upper(panel[:block], panel[block:])
        if number == matrix.blocks - 1:
            return
        whole = linear.in_one_piece(panel)
        for device, part in enumerate(matrix.parts):
            first = matrix.first_after(number, device)
            if first < part.shape[1]:
                there = whole if device == owner else send(whole, owner, device)
                _update(part[top:, first:], there, block, linear)


def _update(right: Any, panel: Any, block: int, linear: Linear) -> None:
    """Update what lies to the right of a panel, from the panel's first row on."""
    right[:block] = linear.solve_lower(panel[:block], right[:block])
    right[block:] -= panel[block:] @ right[:block]


class NumpyLinear:
    """By NumPy and SciPy, in the host's memory: the reference."""

    def factor(self, block: Any) -> Any:
        """Return L and U, column by column."""
        made = np.array(block)
        for column in range(len(made) - 1):
            made[column + 1 :, column] /= made[column, column]
            below, right = made[column + 1 :, column], made[column, column + 1 :]
            made[column + 1 :, column + 1 :] -= np.outer(below, right)
        return made

    def solve_lower(self, block: Any, right: Any) -> Any:
        """Return X with L X = `right`."""
        from scipy.linalg import solve_triangular

        return solve_triangular(block, right, lower=True, unit_diagonal=True)

    def solve_upper(self, block: Any, left: Any) -> Any:
        """Return X with X U = `left`."""
        from scipy.linalg import solve_triangular

        return solve_triangular(block, left.T, trans="T").T

    def in_one_piece(self, panel: Any) -> Any:
        """Return it in C order."""
        return np.ascontiguousarray(panel)
