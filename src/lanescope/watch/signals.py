"""Signals that lanescope takes for itself, or for the program, while it watches."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType


@contextmanager
def handling(
    numbers: Sequence[int], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Have `handler` called for some signals, and bring back what was there before.

    Who was told to ignore a signal (nohup, the background of a shell) goes on ignoring it.
    Threads other than the main one cannot handle signals: nothing changes there.
    """
    before = {}
    try:
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                with suppress(ValueError):  # only the main thread may
                    before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
