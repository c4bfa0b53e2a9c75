"""What Ctrl-C and SIGTERM do to a watch while no program takes them.

The first one ends what is going on in order, by an exception; the second ends lanescope at once,
as if nothing handled it. What was measured lies on the disk at any time. While a module is being
loaded a signal waits: an import that is cut off cannot be made again.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from lanescope.interruption import ENDING, Interrupted, again, is_importing, take


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


@contextmanager
def interruptible(*, ends_process: bool = False) -> Iterator[None]:
    """Have the first signal raise `Interrupted`, and the second end the process.

    Parameters
    ----------
    ends_process
        The first one ends the process, too, where a call of the driver keeps the main thread from
        it for long: there is nothing yet that would have to be put away.
    """

    def arrived(number: int, frame: FrameType | None) -> None:
        if is_importing(frame):
            return again(number)
        if ends_process and not take():
            return  # it is being ended
        _end_by_the_next()
        raise Interrupted(number)

    arrived.ends_process = ends_process  # type: ignore[attr-defined]

    with handling(ENDING, arrived):
        yield


@contextmanager
def deferred() -> Iterator[None]:
    """Raise `Interrupted` at the end of the block only: what it holds must be done whole."""
    arrived_signals: list[int] = []

    def arrived(number: int, _: FrameType | None) -> None:
        arrived_signals.append(number)
        _end_by_the_next()

    with handling(ENDING, arrived):
        yield
    if arrived_signals:
        _end_by_the_next()
        raise Interrupted(arrived_signals[0])


def _end_by_the_next() -> None:
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
