"""What processes and GPUs spent their time with."""

from __future__ import annotations

import pytest

from lanescope.studies.watch_report.blocks import summary_sections
from lanescope.trace.busy import GpuTime
from lanescope.trace.codes import MemoryKind, What
from lanescope.trace.operations import Operations
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Process, Timeline
from tests.printed import printed

MS = 1_000_000
START = 1_795_000_000 * 10**9


def timeline(*rows: tuple[int, What, MemoryKind, int, int, int, int]) -> Timeline:
    """Rows: process, what, memory of the source, begin and end of the call and on the GPU, ms."""
    pids, whats, kinds, *times = zip(*rows, strict=True)
    call_start, call_end, start, end = ([START + MS * t for t in column] for column in times)
    copy = [what is What.COPY for what in whats]
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


COPY, KERNEL = What.COPY, What.KERNEL
PAGEABLE, PINNED = MemoryKind.PAGEABLE, MemoryKind.PINNED


def test_time_in_calls_counts_once_where_threads_copy_together() -> None:
    found = summarise(
        timeline(
            (7, COPY, PAGEABLE, 0, 20, 0, 20),
            (7, COPY, PAGEABLE, 10, 30, 10, 30),
            (7, COPY, PINNED, 40, 41, 40, 45),
            (8, COPY, PINNED, 50, 52, 50, 60),
        )
    ).in_copies
    assert [(one.pid, one.direction, one.memory, one.count) for one in found] == [
        (7, None, None, 3),
        (7, "h2d", "pageable", 2),
        (7, "h2d", "pinned", 1),
        (8, None, None, 1),
        (8, "h2d", "pinned", 1),
    ]
    assert [one.seconds for one in found] == pytest.approx([0.031, 0.030, 0.001, 0.002, 0.002])
    assert found[0].share == pytest.approx(0.31)


def test_a_gpu_waits_for_copies_that_no_kernel_hides() -> None:
    (found,) = summarise(
        timeline(
            (7, COPY, PINNED, 0, 1, 10, 30),
            (7, KERNEL, PINNED, 0, 1, 25, 60),
            (7, COPY, PINNED, 0, 1, 80, 90),
        )
    ).gpu_times
    assert found == GpuTime(
        0, pytest.approx(0.080), pytest.approx(35 / 80), pytest.approx(25 / 80), pytest.approx(0.25)
    )


def test_the_summary_begins_with_it_in_words() -> None:
    summary = summarise(
        timeline((7, COPY, PAGEABLE, 0, 41, 0, 41), (7, KERNEL, PINNED, 45, 46, 50, 100))
    )
    section = summary_sections(summary)[0]
    lines = printed(section.blocks[:2])
    assert "Process 7 run-7 was 41.0 % of the watch in calls that copy: in 1 h2d copy of" in lines
    assert "g0 waited for copies 41.0 % of its time: it computed 50.0 % of the 100 ms" in lines


def test_without_calls_and_kernels_nothing_is_said() -> None:
    summary = summarise(timeline((7, COPY, PINNED, 0, 0, 10, 20)))
    assert summary.gpu_times == ()
    assert summary.in_copies == ()
