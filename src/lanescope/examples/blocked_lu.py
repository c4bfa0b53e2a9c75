"""Blocked LU factors of a matrix whose block columns lie on several devices.

Right-looking, without exchange of rows, which a diagonally dominant matrix does not need: for
each block column in turn, its device factors it below the diagonal (the panel) and sends it to
the others, and each device updates the block columns to the right that it has. The algorithm
knows nothing of devices: `Linear` computes, by NumPy or by PyTorch, and `Send` brings panels from
one device to another, as they are or compressed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lanescope.errors import InputError

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


def load_torch(gpus: int, instead: str = "") -> Any:
    """Return PyTorch, if it sees so many GPUs; `instead` ends the sentence that tells otherwise.

    Raises
    ------
    InputError
        If it is not installed, or sees fewer.
    """
    try:
        import torch
    except ImportError as error:
        raise InputError(
            f"PyTorch cannot be loaded ({error}); install it with CUDA{instead}"
        ) from error
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found < gpus:
        raise InputError(
            f"{gpus} GPUs are needed and PyTorch sees {found}; use a machine that has them{instead}"
        )
    return torch


class TorchLinear:
    """By PyTorch, on the GPU that the matrices are on."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def factor(self, block: Any) -> Any:
        """Return L and U."""
        return self._torch.linalg.lu_factor(block, pivot=False)[0]

    def solve_lower(self, block: Any, right: Any) -> Any:
        """Return X with L X = `right`."""
        lower = self._torch.tril(block, -1)
        return self._torch.linalg.solve_triangular(lower, right, upper=False, unitriangular=True)

    def solve_upper(self, block: Any, left: Any) -> Any:
        """Return X with X U = `left`."""
        upper = self._torch.triu(block)
        return self._torch.linalg.solve_triangular(upper, left, upper=True, left=False)

    def in_one_piece(self, panel: Any) -> Any:
        """Return it contiguous."""
        return panel.contiguous()


class Timed:
    """Sends by something else, waits for both ends before and after, and adds up the time.

    Attributes
    ----------
    seconds, bytes, count
        Of all panels so far.
    """

    def __init__(self, send: Send, wait: Callable[[], None]) -> None:
        self._send, self._wait = send, wait
        self.seconds, self.bytes, self.count = 0.0, 0, 0

    def __call__(self, panel: Any, owner: int, device: int) -> Any:
        """Send one panel."""
        self._wait()
        begin = time.perf_counter()
        there = self._send(panel, owner, device)
        self._wait()
        self.seconds += time.perf_counter() - begin
        self.bytes += panel.nbytes
        self.count += 1
        return there


def waiting_for(torch: Any, gpus: Sequence[int]) -> Callable[[], None]:
    """Return what waits for all work on some GPUs."""

    def wait() -> None:
        for gpu in gpus:
            torch.cuda.synchronize(gpu)

    return wait


def raw_copies(gpus: Sequence[int]) -> Send:
    """Return what sends panels by PyTorch's own copies."""
    return lambda panel, owner, device: panel.to(f"cuda:{gpus[device]}")


class _Sending:
    """What sends panels by channels."""

    def __init__(self, channels: Iterable[Any]) -> None:
        self._all = list(channels)

    def ratio(self) -> float | None:
        """Return bytes of panels over those that crossed the links, as far as it is known."""
        records = [one for channel in self._all for one in channel.log]
        outcomes = [one.outcome for one in records if one.outcome is not None]
        wire = sum(one.wire_bytes for one in outcomes)
        return sum(one.raw_bytes for one in outcomes) / wire if wire else None

    def close(self) -> None:
        """Give back what the channels hold."""
        for channel in self._all:
            channel.close()


class Channels(_Sending):
    """Sends panels over a channel for each pair of GPUs and direction."""

    def __init__(self, gpus: Sequence[int], compression: str) -> None:
        import lanescope

        pairs = [(a, b) for a in range(len(gpus)) for b in range(len(gpus)) if a != b]
        self._of = {
            (a, b): lanescope.Channel(gpus[a], gpus[b], compression=compression, via="peer")
            for a, b in pairs
        }
        super().__init__(self._of.values())

    def __call__(self, panel: Any, owner: int, device: int) -> Any:
        """Send one panel."""
        return self._of[owner, device].send(panel, tag="panel")


class Parcels(_Sending):
    """Sends panels by pinned memory of the host: one GPU brings them there, the other gets them."""

    def __init__(self, gpus: Sequence[int], compression: str) -> None:
        import lanescope

        super().__init__(lanescope.Channel(gpu, "host", compression=compression) for gpu in gpus)

    def __call__(self, panel: Any, owner: int, device: int) -> Any:
        """Send one panel."""
        return self._all[device].restore(self._all[owner].offload(panel, tag="panel"))
