"""The line between two processes, when this one ends amid a call."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from threading import Event, Thread

import pytest

from lanescope.compression.meeting import PeerConnection, read_packet
from lanescope.errors import LanescopeError

LONG = 20.0


@pytest.mark.parametrize("how", ["stop", "close"])
def test_it_stops_while_another_thread_waits_for_a_message(how: str) -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line = PeerConnection(here, lambda over: None, lambda: None, LONG)
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
        line = PeerConnection(here, lambda over: None, lambda: None, LONG)
        line.close()
        there.close()
        return len(util._finalizer_registry)  # type: ignore[attr-defined]

    first = opened()
    assert [opened() for _ in range(3)] == [first] * 3


def test_packets_are_read_as_what_they_say() -> None:
    about = {"bytes": 8, "codec": None, "shape": [2, 2], "dtype": "int16"}
    for number in (0, 7, 2**48):
        for more in (about, {**about, "codec": "zvc"}, {"one": 1}):
            said = {"number": number, **more}
            assert read_packet(json.dumps(said).encode()) == said
    for said in ({"note": "number"}, {"over": True}, {"bytes": 8, "number": 7}):
        assert read_packet(json.dumps(said).encode()) == said
    whole = json.dumps({"number": 7, **about}).encode()
    cut_off = [whole[:size] for size in range(len(whole))]
    for wrong in (*cut_off, b"", whole + b"}", b'{"number": x, "bytes": 8}'):
        with pytest.raises(ValueError):  # noqa: PT011
            read_packet(wrong)
