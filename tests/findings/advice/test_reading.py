"""What the watch itself held a program up for is in no time of its rounds."""

from __future__ import annotations

import numpy as np
import pytest

from lanescope.findings.advice.lanes import Reading, samples
from lanescope.trace.operations import Operations
from lanescope.trace.side_tables import HostCopies
from tests.findings.advice.programs import looped

PID, OTHER = 7, 8


def copies(*spans: tuple[int, int, int]) -> HostCopies:
    """Copies of processes whose threads read from a time on for so long."""
    pid, begin, took = np.array(spans).T
    columns = dict.fromkeys(HostCopies.columns(), np.zeros(len(spans), np.int64))
    return HostCopies.of(**columns | {"pid": pid, "read_begin_ns": begin, "read_ns": took})


def operations(*rows: tuple[int, int, int, int]) -> Operations:
    """Operations by their call's begin and end, and their own."""
    call_start, call_end, start, end = np.array(rows).T
    columns = dict.fromkeys(Operations.columns(), np.zeros(len(rows), np.int64))
    times = {"call_start_ns": call_start, "call_end_ns": call_end, "start_ns": start, "end_ns": end}
    return Operations.of((), **columns | times)


def left_out(rows: Operations, reading: Reading) -> Operations:
    return reading.of_idle(rows, PID).left_out(rows, PID)


def times(rows: Operations) -> list[tuple[int, ...]]:
    columns = (rows.call_start_ns, rows.call_end_ns, rows.start_ns, rows.end_ns)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_call_ends_when_its_copy_was_not_read_yet_and_all_behind_comes_sooner() -> None:
    """Two copies in a row are read, each before its call returns, and a kernel has no call."""
    reading = Reading.of(copies((PID, 200, 50), (PID, 400, 100)))
    measured = operations((100, 250, 110, 190), (300, 500, 310, 390), (0, 0, 520, 530))
    expected = [(100, 200, 110, 190), (250, 350, 260, 340), (0, 0, 370, 380)]
    assert times(left_out(measured, reading)) == expected
    assert np.isclose(reading.seconds, 150e-9)


def test_what_is_read_while_the_gpu_copies_holds_up_nothing() -> None:
    """Memory was pinned, and the call read it while the GPU copied: the next one waits for that."""
    reading = Reading.of(copies((PID, 105, 40)))
    measured = operations((100, 145, 110, 190), (150, 152, 191, 200))
    assert times(left_out(measured, reading)) == [(100, 140, 105, 185), (145, 147, 186, 195)]


def test_reading_that_goes_on_behind_a_copy_holds_up_what_comes_then() -> None:
    """On one stream, so that nothing may begin before the copy has ended."""
    reading = Reading.of(copies((PID, 110, 200), (PID, 900, 50)))
    measured = operations((100, 315, 110, 190), (320, 322, 330, 400), (0, 0, 400, 410))
    expected = [(100, 195, 110, 190), (200, 202, 210, 280), (0, 0, 280, 290)]
    assert times(left_out(measured, reading)) == expected


def test_threads_that_read_at_the_same_time_hold_up_once() -> None:
    reading = Reading.of(copies((PID, 100, 50), (PID, 120, 50), (OTHER, 90, 500)))
    assert times(left_out(operations((200, 210, 205, 209)), reading)) == [(130, 140, 135, 139)]


def test_nothing_is_left_out_where_nothing_was_read() -> None:
    measured = operations((100, 250, 110, 190))
    reading = Reading.of(copies((OTHER, 90, 500), (PID, 0, 0)))
    assert times(left_out(measured, reading)) == times(measured)
    assert Reading.of(HostCopies.empty()).seconds == 0


@pytest.mark.parametrize("gap", [1, 0])
def test_all_that_was_read_while_the_gpu_worked_holds_up_nothing(gap: int) -> None:
    """Nothing of it is left."""
    measured = operations((100, 145, 110, 190), (150, 152, 190 + gap, 200))
    reading = Reading.of(copies((PID, 120, 30)))
    assert times(left_out(measured, reading)) == times(measured)


def test_pieces_of_a_long_watch_come_sooner_by_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read while the GPU worked in an earlier piece holds up nothing in a later one."""
    rows = looped(40, 10_000_000, wait=False).operations()
    begin = rows.start_ns[::3] + 10_000
    behind = rows.end_ns[2::3] + 1_000
    spans = [(7, at, 100_000) for at in begin.tolist()] + [(7, at, 500) for at in behind.tolist()]
    reading = Reading.of(copies(*spans))
    (whole,) = samples(rows, reading=reading)
    pieces = Operations.pieces
    monkeypatch.setattr(Operations, "pieces", lambda self: pieces(self, 30))
    (cut,) = samples(rows, reading=reading)
    assert times(cut.parts[0]) == times(whole.parts[0])
    assert (cut.parts[0].start_ns[1:] >= cut.parts[0].end_ns[:-1]).all()
