"""Which tensors wait in the host's memory, and when each one goes and comes back.

The forward pass saves tensors, the backward pass uses them in the opposite order. Each goes to the
host as it is saved, and its memory on the GPU is free once that is done. When one is used, those
saved before it are brought back ahead of their use.
"""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from threading import RLock
from typing import Any, Protocol

#: How many tensors before the one in use are looked through for those that are used next: others
#: may belong to a graph that the program holds for long.
MOST_LOOKED_AT = 1024
#: Any tensor of PyTorch, which is not imported here.
Tensor = Any


class NoRoomError(Exception):
    """The host has no memory to pin for a tensor."""


class Link(Protocol):
    """What moves tensors between a GPU and the host, behind the work of the current stream."""

    def takes(self, tensor: Tensor) -> bool:
        """Whether a tensor can be sent, and is none that stays anyhow, such as a parameter."""

    def send(self, tensor: Tensor) -> tuple[Any, Any]:
        """Begin to send; return what brings it back, and the end of it, for `wait`.

        Raises
        ------
        NoRoomError
            If there is no memory for it on the host.
        """

    def bring(self, sent: Any) -> tuple[Tensor, Any]:
        """Begin to bring one back; return the tensor, and the end of it."""

    def wait(self, end: Any) -> None:
        """Let what comes later on the tensor's stream wait, and not the host."""


@dataclass(slots=True)
class Moved:
    """What became of saved tensors.

    Attributes
    ----------
    tensors, bytes
        That went to the host.
    shared
        Saved again by another operation while it was on its way, and sent once.
    brought
        Came back. A tensor that is used before its memory is needed does not.
    stayed
        Were large enough and stayed on the GPU: the host's budget was used up, or the host had no
        more memory to pin.
    """

    tensors: int = 0
    bytes: int = 0
    shared: int = 0
    brought: int = 0
    stayed: int = 0


class Saved:
    """A tensor in the host's memory, as the backward pass holds it."""

    __slots__ = (
        "__weakref__", "_pool", "bytes", "changed", "end", "here", "key", "number", "sent",
        "users", "version",
    )  # fmt: skip

    def __init__(self, pool: Pool, number: int, tensor: Tensor, key: Any, size: int) -> None:
        self._pool = pool
        self.number, self.key, self.bytes = number, key, size
        self.version = tensor._version
        self.changed = False
        self.users = 1
        self.sent, self.end = pool.link.send(tensor)
        self.here: Tensor | None = tensor  # on the GPU: before it has left, and brought back

    def __del__(self) -> None:
        self._pool.forget(self)


def _nobody() -> None:
    """Stand for a reference to nothing."""


class Pool:
    """The saved tensors of a model's passes.

    Parameters
    ----------
    link
        Moves them.
    budget_bytes
        Of the host's memory that they may take, uncompressed.
    ahead_bytes
        Of the GPU's memory: of tensors that leave, and of those that were brought back ahead.
    """

    def __init__(self, link: Link, budget_bytes: int, ahead_bytes: int) -> None:
        self.link = link
        self.moved = Moved()
        self._budget_bytes, self._ahead_bytes = budget_bytes, ahead_bytes
        self._lock = RLock()  # a backward pass has threads of its own, and frees in any of them
        self._number = 0
        self._there: dict[int, weakref.ref[Saved]] = {}  # by number
        self._by_key: dict[Any, weakref.ref[Saved]] = {}  # that are here, and were not sent yet
        self._leaving: deque[tuple[weakref.ref[Saved], int]] = deque()
        self._host_bytes = self._leaving_bytes = self._early_bytes = 0
        self._early: set[int] = set()  # numbers of those brought back and not used yet

    def save(self, tensor: Tensor, size: int) -> Saved | None:
        """Send a tensor to the host; None where there is no room for it."""
        with self._lock:
            key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
            known = self._by_key.get(key, _nobody)()
            if known is not None and known.here is not None and known.version == tensor._version:
                known.users += 1
                self.moved.shared += 1
                return known
            if self._host_bytes + size > self._budget_bytes:
                self.moved.stayed += 1
                return None
            self._let_go(self._ahead_bytes - size)
            try:
                saved = Saved(self, self._number + 1, tensor, key, size)
            except NoRoomError:
                self._budget_bytes = self._host_bytes  # every further try would take long
                self.moved.stayed += 1
                return None
            self._number += 1
            self._there[saved.number] = self._by_key[key] = weakref.ref(saved)
            self._leaving.append((self._by_key[key], size))
            self._host_bytes += size
            self._leaving_bytes += size
            self.moved.tensors += 1
            self.moved.bytes += size
            return saved

    def use(self, saved: Saved) -> Tensor:
        """Return a saved tensor, and bring back those that are used next.

        Raises
        ------
        RuntimeError
            If it was changed in place before it had left.
        """
        with self._lock:
            tensor = self._take(saved)
            saved.users -= 1
            if saved.users <= 0:  # it may be used once more, by a graph that is retained
                self._drop(saved)
            self._bring_those_before(saved.number)
            return tensor

    def forget(self, saved: Saved) -> None:
        """Take off one that nobody holds any more."""
        with self._lock:
            if self._there.pop(saved.number, None) is None:
                return
            self._host_bytes -= saved.bytes
            self._drop(saved)

    def _take(self, saved: Saved) -> Tensor:
        if saved.here is None:
            self._bring(saved)
        saved.changed |= saved.here._version != saved.version  # type: ignore[union-attr]
        if saved.changed:
            raise RuntimeError(
                "a tensor that the backward pass needs was changed in place after it was saved; "
                "find the operation with torch.autograd.set_detect_anomaly(True)"
            )
        self._no_longer_early(saved)
        self.link.wait(saved.end)
        return saved.here

    def _bring(self, saved: Saved) -> None:
        saved.here, saved.end = self.link.bring(saved.sent)
        saved.version = saved.here._version
        self.moved.brought += 1

    def _no_longer_early(self, saved: Saved) -> None:
        if saved.number in self._early:
            self._early.remove(saved.number)
            self._early_bytes -= saved.bytes

    def _drop(self, saved: Saved) -> None:
        """Free its memory on the GPU, for what comes after it has left or come."""
        if saved.here is None:
            return
        saved.changed |= saved.here._version != saved.version
        self.link.wait(saved.end)
        saved.here = None
        self._no_longer_early(saved)
        held = self._by_key.get(saved.key)
        if held is not None and held() in (saved, None):
            del self._by_key[saved.key]

    def _let_go(self, most_bytes: int) -> None:
        """Free what left longest ago until no more than this is leaving."""
        while self._leaving and self._leaving_bytes > most_bytes:
            saved, size = self._leaving.popleft()
            self._leaving_bytes -= size
            if (there := saved()) is not None:
                self._drop(there)

    def _bring_those_before(self, number: int) -> None:
        for before in range(number - 1, max(number - 1 - MOST_LOOKED_AT, 0), -1):
            if self._early_bytes >= self._ahead_bytes:
                return
            saved = self._there.get(before, _nobody)()
            if saved is None or saved.here is not None or saved.users <= 0:
                continue
            self._bring(saved)
            self._early.add(before)
            self._early_bytes += saved.bytes
