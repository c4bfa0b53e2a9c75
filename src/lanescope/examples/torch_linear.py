"""What blocked LU computes on GPUs, by PyTorch, and panels sent as they are or compressed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lanescope.errors import InputError
from lanescope.examples.blocked_lu import Send


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
