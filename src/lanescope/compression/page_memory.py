"""Memory of a GPU in which pages lie side by side, and the transfers that use it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from lanescope.compression.gpu_arrays import GpuArray, new_bytes
from lanescope.compression.transfers import core_errors
from lanescope.errors import LanescopeError
from lanescope.units.sizes import size_text

#: Of pages that travel as one array: so much memory of the GPU holds them side by side.
GROUP_BYTES = 256 << 20
LEAST_GROUP_BYTES = 1 << 20


class NoMemoryError(Exception):
    """A GPU has no memory left for pages side by side."""


@dataclass(slots=True)
class Transferring:
    """A transfer whose end the stream of its caller does not wait for yet.

    Attributes
    ----------
    room
        Memory that it uses and nobody else holds.
    then
        What is put on the stream behind its end.
    """

    ticket: Any
    stream: int
    room: GpuArray | None
    then: Callable[[], None] | None = None


class Unjoined:
    """Transfers that streams do not wait for yet, oldest first: the next begin meanwhile.

    What of the GPU's memory they use goes back, in the order of the stream, when they are joined;
    as a context it joins all at its end, and where that is an error does nothing else with them.
    """

    def __init__(self, core: Any) -> None:
        self._core = core
        self._transfers: deque[Transferring] = deque()
        self._bytes = 0

    def add(self, transfer: Transferring) -> Transferring:
        """Take one on, and return it."""
        self._transfers.append(transfer)
        self._bytes += _room_bytes(transfer)
        return transfer

    def scratch(self, framework: str, gpu: int, size: int) -> GpuArray:
        """Return memory as `scratch` does, for which others are joined where it is too much."""
        while self._bytes > 0 and self._bytes + size > GROUP_BYTES:
            self._join_first()
        while True:
            try:
                return scratch(framework, gpu, size)
            except NoMemoryError:
                if self._bytes == 0:
                    raise
                self._join_first()

    def _join_first(self) -> None:
        transfer = self._transfers.popleft()
        self._bytes -= _room_bytes(transfer)
        with core_errors():
            self._core.join(transfer.ticket, transfer.stream)
        if transfer.then is not None:
            transfer.then()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        while self._transfers:
            if kind is not None:
                self._transfers[0].then = None
            self._join_first()


def _room_bytes(transfer: Transferring) -> int:
    return 0 if transfer.room is None else transfer.room.bytes


def scratch(framework: str, gpu: int, size: int) -> GpuArray:
    """Return memory of a GPU, of a framework's: it goes back in the order of the current stream.

    Raises
    ------
    NoMemoryError
        If there is none left.
    """
    try:
        return new_bytes(framework, size, gpu)
    except Exception as error:
        if "OutOfMemory" not in type(error).__name__:
            raise
        raise NoMemoryError(gpu, size) from error


class out_of_memory:  # noqa: N801  (a context, used as one word)
    """Turns that a GPU has no memory left into one sentence."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if isinstance(error, NoMemoryError):
            raise _no_memory(error) from error
        if error is not None and "OutOfMemory" in type(error).__name__:
            raise LanescopeError(
                "the GPU has no memory left for new arrays; free some, or give out="
            ) from error


def _no_memory(error: NoMemoryError) -> LanescopeError:
    gpu, size = error.args
    return LanescopeError(
        f"GPU {gpu} has no memory left for pages side by side, {size_text(size)}; free some"
    )


def less(most: int, pages: int, error: NoMemoryError) -> int:
    """Return for how much to look next where there was no memory for so much, or give up."""
    if pages == 1 or most <= LEAST_GROUP_BYTES:
        raise _no_memory(error) from error
    return max(most // 4, LEAST_GROUP_BYTES)
