"""Waiting for what happens sooner or later, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

#: Guards against waiting for ever and tells nothing of speed: with all cores busy, a second's work
#: may take a minute.
PATIENCE_S = 300

T = TypeVar("T")


def until(holds: Callable[[], T]) -> T:
    """Return what `holds` returns once that is true.

    Of times that are compared, others change now and then, but not each time that they are taken.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)
    return found


def longer_and_longer(seconds: float) -> Iterator[float]:
    """Yield times for what cannot be seen while it goes on: it is tried again with more of it."""
    while seconds < PATIENCE_S:
        yield seconds
        seconds *= 4
