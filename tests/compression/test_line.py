"""The line between two processes, when this one ends amid a call."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Event, Thread

import pytest

from lanescope.compression.meeting import Line
from lanescope.errors import LanescopeError

LONG = 20.0


@pytest.mark.parametrize("how", ["stop", "close"])
def test_it_stops_while_another_thread_waits_for_a_message(how: str) -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line = Line(here, lambda over: None, lambda: None, LONG)
    line_reads = Event()
    real = line._wait_for

    def waits(what: int, patience_seconds: float) -> None:
        line_reads.set()
        real(what, patience_seconds)

    line._wait_for = waits  # type: ignore[method-assign]

    def hears() -> None:
        with suppress(LanescopeError):
            line.hear(LONG)

    reader = Thread(target=hears, daemon=True)
    reader.start()
    assert line_reads.wait(LONG)
    stopper = Thread(target=getattr(line, how), daemon=True)
    stopper.start()
    stopper.join(LONG / 4)
    stopped = not stopper.is_alive()
    there.close()  # ends whatever waits yet
    reader.join(LONG / 4)
    line.close()
    assert stopped, "it waits until a message comes"
    assert not reader.is_alive()


def test_an_end_is_registered_once_for_all_lines() -> None:
    from multiprocessing import util

    def opened() -> int:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line = Line(here, lambda over: None, lambda: None, LONG)
        line.close()
        there.close()
        return len(util._finalizer_registry)  # type: ignore[attr-defined]

    first = opened()
    assert [opened() for _ in range(3)] == [first] * 3
