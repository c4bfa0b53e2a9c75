"""A link without a GPU, which moves as the real one would and notes what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lanescope.torch.activations import NoRoomError


class CopyingLink:
    """Sends by copying.

    Attributes
    ----------
    events
        What was begun and waited for, in order: ``send``, ``bring`` or ``wait``, and a number;
        ``reserve`` and bytes.
    most
        How many can be sent before the host has no more memory; None: any number.
    """

    def __init__(self, copy: Callable[[Any], Any], takes: Callable[[Any], bool]) -> None:
        self._copy, self._takes = copy, takes
        self.events: list[tuple[str, int]] = []
        self.most: int | None = None
        self._count = 0

    @property
    def log(self) -> tuple[Any, ...]:
        return tuple(self.events)

    def begin_pass(self) -> None:
        pass

    def takes(self, tensor: Any) -> bool:
        return self._takes(tensor)

    def send(self, tensor: Any) -> tuple[Any, int]:
        self._count += 1
        self.events.append(("send", self._count))
        if self.most is not None and self._count > self.most:
            raise NoRoomError
        return (self._count, self._copy(tensor)), self._count

    def bring(self, sent: Any) -> tuple[Any, int]:
        number, tensor = sent
        self.events.append(("bring", number))
        return self._copy(tensor), number

    def wait(self, end: int, used: Any = None) -> None:
        self.events.append(("wait", end))

    def reserve(self, size: int) -> None:
        self.events.append(("reserve", size))
        if self.most is not None:
            raise NoRoomError

    def of(self, what: str) -> list[int]:
        return [number for kind, number in self.events if kind == what]
