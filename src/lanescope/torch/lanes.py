"""Transfers in threads behind the program, those of one peer, direction and tag in order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from lanescope.errors import LanescopeError

T = TypeVar("T")
#: Direction, peer and tag.
Key = tuple[str, int | None, int]

_threads: WeakKeyDictionary[Any, dict[Key, ThreadPoolExecutor]] = WeakKeyDictionary()
_lock = Lock()
_begun = False


class Transferring:
    """A tensor that is sent or received behind the program, like PyTorch's ``Work``."""

    def __init__(self, future: Future[int]) -> None:
        self._future = future

    def is_completed(self) -> bool:
        """Return whether it has ended, well or not."""
        return self._future.done()

    def is_success(self) -> bool:
        """Return whether it has ended well."""
        return self._future.done() and self._future.exception() is None

    def wait(self, timeout: Any = None) -> bool:
        """Return True when it has ended.

        Parameters
        ----------
        timeout
            A ``timedelta``, after which not to wait longer; the group's timeout ends it anyway.

        Raises
        ------
        InputError, LanescopeError
            As `lanescope.torch.send` and `recv`; and if it takes longer than `timeout`.
        """
        seconds = None if timeout is None else timeout.total_seconds()
        try:
            self._future.result(seconds)
        except LateError:
            if self._future.done():
                raise
            raise LanescopeError(
                f"the transfer has not ended within {seconds:g} s; wait longer"
            ) from None
        return True

    def source_rank(self) -> int:
        """Return the rank that sent, once it has come."""
        return self._future.result()


def behind(group: Any, key: Key, call: Callable[[], int]) -> Transferring:
    """Let a transfer begin when those of its key before have ended."""
    global _begun
    with _lock:
        _begun = True
        threads = _threads.setdefault(group, {})
        if key not in threads:
            threads[key] = ThreadPoolExecutor(1, "lanescope-transfer")
        return Transferring(threads[key].submit(call))


def is_behind() -> bool:
    """Whether there may be a transfer behind the program: most programs never have one."""
    return _begun


def in_order(group: Any, key: Key, call: Callable[[], T]) -> T:
    """Do a transfer when those of its key before have ended."""
    with _lock:
        thread = _threads.get(group, {}).get(key)
    return call() if thread is None else thread.submit(call).result()
