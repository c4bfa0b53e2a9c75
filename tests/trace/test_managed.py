"""Managed memory in the summary, and when unexplained bytes crossed the link."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from lanescope.machine import machine_named
from lanescope.studies.watch_report import summary_json
from lanescope.trace.probe import Probe
from lanescope.trace.side_tables import Managed, ManagedKind
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import OperationCode, Operations
from tests.report.watch_factory import summary_text
from tests.trace.timelines import MS, copies, even_counters, timeline

MIB = 1 << 20
MACHINE = machine_named("h200-x2")


def migrations(count: int, size: int, **columns: object) -> Operations:
    return copies(count, size, what=OperationCode.MIGRATION, host=5, **columns)  # type: ignore[arg-type]


def faults(gpu: int, cpu: int) -> Managed:
    return Managed.of(
        pid=[7, 7],
        kind=[ManagedKind.GPU_FAULT, ManagedKind.CPU_FAULT],
        start_ns=[0, 0],
        end_ns=[1, 0],
        value=[gpu, cpu],
        address=[0, 0],
        device=[0, -1],
    )


def test_migrations_have_rows_by_gpu_and_direction() -> None:
    seen = timeline(migrations(10, MIB), migrations(4, 4096, down=False), copies(1, 8))
    down, up = summarise(seen).managed
    assert (down.gpu, down.direction, down.count, down.total_bytes) == (0, "h2d", 10, 10 * MIB)
    assert (up.direction, up.mean_bytes, up.faults) == ("d2h", 4096, None)
    told = summarise(dataclasses.replace(seen, managed=faults(12, 3)))
    assert [direction.faults for direction in told.managed] == [12, 3]
    shown = summary_text(told)
    assert "Managed memory" in shown
    assert "12 of the GPU" in shown
    assert "3 of CPUs" in shown
    assert summary_json(told)["managed"][0]["mean_bytes"] == MIB


def test_without_managed_memory_nothing_is_said_of_it() -> None:
    told = summarise(timeline(copies(1, 8)))
    assert told.managed == ()
    assert "Managed" not in summary_text(told)


def test_migrations_explain_what_was_counted() -> None:
    moved = migrations(1000, 20_000_000, lasts_ns=MS)
    down, _ = summarise(timeline(moved, counters=(even_counters(20.0),)), MACHINE).directions
    assert down.unattributed_bytes == 0.0
    assert down.unexplained is None


def test_a_probe_of_ones_own_is_not_told_as_the_start_of_cuda() -> None:
    # 20 GB/s all the time, half of which is a probe's until the first copy
    copied = copies(1, 2_000_000_000, start_ns=500 * MS, lasts_ns=100 * MS)
    begin = np.arange(50) * 10 * MS
    probe = Probe.of(
        chunk_bytes=100_000_000,
        begin_ns=begin,
        delay_ns=np.full(50, 1000),
        copy_ns=np.full(50, 5 * MS),
        direction=np.zeros(50),
    )
    seen = timeline(copied, counters=(even_counters(20.0),))
    origin = int(seen.counters[0].end_ns[0])
    moved = dataclasses.replace(probe, begin_ns=probe.begin_ns + origin)
    direction = summarise(dataclasses.replace(seen, probes=(moved,)), MACHINE).directions[0]
    assert direction.unattributed_bytes == pytest.approx(13e9, rel=0.02)
    assert (
        direction.unexplained is None
    )  # before the first copy 10e9 were counted, 5e9 of them ours


def test_unexplained_bytes_are_told_apart_by_when_they_crossed() -> None:
    # 20 GB/s all the time; a copy explains 0.5 s to 0.6 s, kernels run 0.6 s to 0.9 s
    copied = copies(1, 2_000_000_000, start_ns=500 * MS, lasts_ns=100 * MS)
    kernels = Operations.of(
        pid=[7, 7],
        what=[OperationCode.KERNEL] * 2,
        start_ns=np.array([550, 700]) * MS,
        end_ns=np.array([750, 900]) * MS,
    )
    seen = timeline(copied, kernels, counters=(even_counters(20.0),))
    summary = summarise(seen, MACHINE)
    split = summary.directions[0].unexplained
    assert split is not None
    assert split.before_first == pytest.approx(10e9, rel=0.01)
    assert split.beside_kernels == pytest.approx(6e9, rel=0.01)
    assert summary.directions[0].unattributed_bytes == pytest.approx(18e9, rel=0.01)
    assert "before the first copy (CUDA's start)" in summary.notes[0]
    assert "while kernels ran and no copy" in summary.notes[0]


def test_without_copies_there_is_no_first() -> None:
    seen = timeline(counters=(even_counters(20.0),))
    down, _ = summarise(seen, MACHINE).directions
    assert down.unexplained is None
    assert down.unattributed_bytes == pytest.approx(20e9, rel=0.01)


def test_the_parts_that_counters_come_in_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = copies(3, 100_000_000, start_ns=300 * MS, every_ns=100 * MS, lasts_ns=10 * MS)
    kernels = Operations.of(
        pid=[7] * 5,
        what=[OperationCode.KERNEL] * 5,
        start_ns=300 * MS + np.arange(5) * 120 * MS,
        end_ns=380 * MS + np.arange(5) * 120 * MS,
    )
    seen = timeline(copied, kernels, counters=(even_counters(20.0),))
    whole = summarise(seen, MACHINE).directions[0].unexplained
    monkeypatch.setattr("lanescope.trace.wire._CHUNK", 1009)
    parts = summarise(seen, MACHINE).directions[0].unexplained
    assert whole is not None
    assert parts is not None
    assert parts.before_first == pytest.approx(whole.before_first, rel=1e-9)
    assert parts.beside_kernels == pytest.approx(whole.beside_kernels, rel=1e-9)
    assert whole.beside_kernels == pytest.approx(20e9 * 0.39, rel=0.02)
