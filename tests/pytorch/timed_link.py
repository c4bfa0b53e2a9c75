"""A link and a GPU on a clock of their own, to see what a schedule takes and holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import finalize


class Memory:
    """Bytes of a GPU that tensors take, in the order in which the program asks for them."""

    def __init__(self) -> None:
        self.held = self.peak = 0

    def take(self, size: int) -> None:
        self.held += size
        self.peak = max(self.peak, self.held)

    def give(self, size: int) -> None:
        self.held -= size


class TimedTensor:
    """As much of a tensor as a pool looks at; its memory is given back with it."""

    def __init__(self, memory: Memory, address: int, size: int) -> None:
        self.memory, self.address, self.size = memory, address, size
        self.dtype, self._version = "bfloat16", 0
        memory.take(size)
        finalize(self, memory.give, size)

    def data_ptr(self) -> int:
        return self.address


@dataclass
class TimedLink:
    """Transfers of each direction one after the other, next to a stream of computation.

    Attributes
    ----------
    bytes_per_second
        Of each direction.
    now
        When what is on the computation's stream ends, in seconds.
    decode_seconds
        From when the last byte of a tensor is back until it can be used.
    out, back
        When what is on its way ends.
    """

    bytes_per_second: float
    decode_seconds: float = 0
    now: float = 0
    out: float = 0
    back: float = 0
    out_bytes: int = 0
    back_bytes: int = 0

    @property
    def log(self) -> tuple[Any, ...]:
        return ()

    def begin_pass(self) -> None:
        pass

    def takes(self, _: Any) -> bool:
        return True

    def compute(self, seconds: float) -> None:
        self.now += seconds

    def send(self, tensor: TimedTensor) -> tuple[Any, float]:
        self.out = max(self.out, self.now) + tensor.size / self.bytes_per_second
        self.out_bytes += tensor.size
        return (tensor.memory, tensor.address, tensor.size, self.out), self.out

    def bring(self, sent: Any) -> tuple[TimedTensor, float]:
        memory, address, size, left = sent
        self.back = max(self.back, self.now, left) + size / self.bytes_per_second
        self.back_bytes += size
        return TimedTensor(memory, address, size), self.back + self.decode_seconds

    def reserve(self, size: int) -> None:
        pass

    def wait(self, end: float, used: Any = None) -> None:
        self.now = max(self.now, end)
