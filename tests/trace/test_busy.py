"""What processes and GPUs spent their time with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lanescope.studies.watch_blocks import summary_sections
from lanescope.trace.codes import MemoryKind, OperationCode
from lanescope.trace.operations import Operations
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Process, Timeline
from tests.printed import printed

MS = 1_000_000
START = 1_795_000_000 * 10**9


def timeline(*rows: tuple[int, OperationCode, MemoryKind, int, int, int, int]) -> Timeline:
    """Rows: process, what, memory of the source, begin and end of the call and on the GPU, ms."""
    pids, whats, kinds, *times = zip(*rows, strict=True)
    call_start, call_end, start, end = ([START + MS * t for t in column] for column in times)
    copy = [what is OperationCode.COPY for what in whats]
    operations = Operations.of(
        pid=pids,
        what=whats,
        source_kind=[kind if is_copy else 0 for kind, is_copy in zip(kinds, copy, strict=True)],
        destination_kind=[MemoryKind.DEVICE if is_copy else 0 for is_copy in copy],
        source_device=[-1] * len(rows),
        destination_device=[0] * len(rows),
        device=[0] * len(rows),
        bytes=[1 << 20 if is_copy else 0 for is_copy in copy],
        call_start_ns=call_start,
        call_end_ns=call_end,
        start_ns=start,
        end_ns=end,
    )
    processes = tuple(Process(pid, f"run-{pid}", START) for pid in dict.fromkeys(pids))
    return Timeline(START, START + 100 * MS, operations=operations, processes=processes)


COPY, KERNEL = OperationCode.COPY, OperationCode.KERNEL
PAGEABLE, PINNED = MemoryKind.PAGEABLE, MemoryKind.PINNED


def test_the_busiest_thread_of_each_process_is_named_with_its_paths() -> None:
    first, second = summarise(
        timeline(
            (7, COPY, PAGEABLE, 0, 20, 0, 20),
            (7, COPY, PAGEABLE, 30, 40, 30, 40),
            (7, COPY, PINNED, 40, 41, 40, 45),
            (8, COPY, PINNED, 50, 52, 50, 60),
        )
    ).in_copies
    assert (first.pid, first.command, second.pid) == (7, "run-7", 8)
    assert [(one.direction, one.memory, one.count) for one in first.paths] == [
        ("h2d", "pageable", 2),
        ("h2d", "pinned", 1),
    ]
    assert [one.seconds for one in first.paths] == pytest.approx([0.030, 0.001])
    assert (first.seconds, second.seconds) == pytest.approx((0.031, 0.002))
    assert first.share == pytest.approx(0.31)


def test_calls_of_several_threads_are_not_added_up() -> None:
    at_once = timeline((7, COPY, PAGEABLE, 0, 20, 0, 20), (7, COPY, PAGEABLE, 0, 30, 0, 30))
    operations = replace(at_once.operations, thread=np.array([1, 2]))
    (one,) = summarise(replace(at_once, operations=operations)).in_copies
    assert (one.thread, one.seconds) == (2, pytest.approx(0.030))


@pytest.mark.parametrize("rows_of_a_piece", [2, 100])
def test_a_call_that_makes_many_copies_counts_once(rows_of_a_piece, monkeypatch) -> None:
    monkeypatch.setattr(Operations.pieces, "__defaults__", (rows_of_a_piece,))
    launched = [(7, COPY, kind, 0, 40, t, t + 1) for t in range(10) for kind in (PAGEABLE, PINNED)]
    later = (7, COPY, PINNED, 30, 50, 30, 50)
    (one,) = summarise(timeline(*launched, later)).in_copies
    assert [(path.memory, path.count) for path in one.paths] == [("pinned", 11), ("pageable", 10)]
    assert [path.seconds for path in one.paths] == pytest.approx([0.050, 0.040])
    assert (one.seconds, one.share) == (pytest.approx(0.050), pytest.approx(0.5))


def test_a_gpu_waits_for_copies_that_no_kernel_hides() -> None:
    (found,) = summarise(
        timeline(
            (7, COPY, PINNED, 0, 1, 10, 30),
            (7, KERNEL, PINNED, 0, 1, 25, 60),
            (7, COPY, PINNED, 0, 1, 80, 90),
        )
    ).gpu_times
    times = (found.seconds, found.computing, found.copying, found.either, found.both)
    assert times == pytest.approx((0.080, 0.035, 0.030, 0.060, 0.005))
    assert found.only_copying == pytest.approx(0.025)
    assert (found.kernels, found.copies) == (1, 2)


def test_the_summary_begins_with_it_in_words() -> None:
    summary = summarise(
        timeline((7, COPY, PAGEABLE, 0, 41, 0, 41), (7, KERNEL, PINNED, 45, 46, 50, 100))
    )
    section = summary_sections(summary)[0]
    lines = printed(section.blocks[:2])
    words = (
        "Process 7 run-7: its busiest thread was 41.0 % of the watch in calls that copy, in 1 h2d"
    )
    assert words in lines
    assert "g0 waited for copies 41.0 % of its time: it computed 50.0 % of the 100 ms" in lines


def test_without_calls_and_kernels_nothing_is_said() -> None:
    summary = summarise(timeline((7, COPY, PINNED, 0, 0, 10, 20)))
    assert summary.gpu_times == ()
    assert summary.in_copies == ()
