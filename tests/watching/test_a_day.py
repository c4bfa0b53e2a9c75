"""A watch without an end for a day, on a clock of its own: what it holds does not grow."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lanescope._core import native
from lanescope.machine import Gpu, Machine, NumaNode
from lanescope.trace.counter_spool import RECORD, counter_header
from lanescope.trace.segments import SEGMENTS, read_last, segments_in
from lanescope.watching import segment_writer
from lanescope.watching.live import LiveWatch
from lanescope.watching.segment_writer import LiveFindings, SegmentWriter

INTERVAL_NS = 100_000_000
SEGMENT_SECONDS, HOUR = 600, 3600
KEPT_HOURS = 4
MACHINE = Machine(
    "node", nodes=(NumaNode(0, ((0,),)),), gpus=tuple(Gpu(i, "GPU", node=0) for i in range(2))
)


class Day:
    """Two GPUs' counters, of which each step brings the next ten minutes."""

    def __init__(self, spool: Path) -> None:
        self.begun_ns = native.watch_time_ns()
        self.seconds = 0.0
        self._files = [(spool / f"pm.g{gpu}.bin").open("ab", 0) for gpu in range(2)]
        for gpu, file in enumerate(self._files):
            file.write(counter_header("pm", gpu, INTERVAL_NS).encode())
            file.write(np.array((self.now_ns(), 2**32 - 1, 2**32 - 1), RECORD).tobytes())

    def now_ns(self) -> int:
        return self.begun_ns + int(self.seconds * 1e9)

    def advance(self) -> None:
        records = np.zeros(int(SEGMENT_SECONDS * 1e9) // INTERVAL_NS, RECORD)
        records["end_ns"] = self.now_ns() + INTERVAL_NS * np.arange(1, records.size + 1)
        # A fault that comes and goes: findings begin and end all day.
        full = int(self.seconds) % (2 * HOUR) < HOUR
        records["rx_bytes"] = 2_000_000_000 if full else 1000
        for file in self._files:
            file.write(records.tobytes())
        self.seconds += SEGMENT_SECONDS

    def close(self) -> None:
        for file in self._files:
            file.close()


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Day]:
    (tmp_path / SEGMENTS).mkdir()
    (tmp_path / "spool").mkdir()
    made = Day(tmp_path / "spool")
    clock = SimpleNamespace(watch_time_ns=made.now_ns)
    monkeypatch.setattr(segment_writer, "native", clock)
    both = SimpleNamespace(monotonic=lambda: made.seconds, time_ns=made.now_ns)
    monkeypatch.setattr(segment_writer, "time", both)
    yield made
    made.close()


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_day_takes_no_more_memory_than_some_hours(tmp_path: Path, day: Day) -> None:
    folder, spool = tmp_path, tmp_path / "spool"
    writer = SegmentWriter(
        folder, KEPT_HOURS * HOUR * 10**9, 1 << 30, read_errors=lambda machine: (),
        findings=LiveFindings(),
    )  # fmt: skip
    writer.findings.begin(MACHINE)
    watch = LiveWatch(spool, MACHINE, None, writer._take)
    writer._spool = spool
    held, stored = {}, {}
    for _ in range(24 * HOUR // SEGMENT_SECONDS):
        day.advance()
        writer._look(watch)
        writer._write(watch)
        hour = day.seconds / HOUR
        if hour in (KEPT_HOURS + 2, 24):  # to look takes long in a large process
            held[hour], stored[hour] = resident_bytes(), writer.stored_bytes
    records = 24 * HOUR * 10**9 // INTERVAL_NS
    assert writer.totals["pm", 0, "pcie"].received_bytes == records // 2 * 2_000_001_000
    # 31 MB came in since, of which the disk holds the last hours
    assert held[24] - held[KEPT_HOURS + 2] < 6 << 20
    assert stored[24] <= 1.1 * stored[KEPT_HOURS + 2]
    assert len(segments_in(folder)) <= KEPT_HOURS * HOUR // SEGMENT_SECONDS + 1
    seconds = read_last(folder, 24 * HOUR * 10**9).seconds
    assert KEPT_HOURS * HOUR - 1 <= seconds <= KEPT_HOURS * HOUR + SEGMENT_SECONDS + 1
    assert not list(spool.glob("*.tmp"))
