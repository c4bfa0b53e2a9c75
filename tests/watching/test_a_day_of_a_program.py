"""A watched program that runs for a day, on a clock of its own: memory stays, spools grow evenly.

GPUs' counters and the program's calls are made up; the session, the reader of calls, what the live
view reads, and the summary are those of `lanescope watch`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lanescope._core import native
from lanescope.findings.trace import evaluate_watch
from lanescope.machine import Gpu, Machine, NumaNode
from lanescope.report import timeline_html
from lanescope.studies.watch_report import watch_page_html
from lanescope.trace import (
    attribution,
    call_ring,
    columns,
    counter_spool,
    rectangles,
    store,
    stored_columns,
    time_checks,
    wire,
    wire_fit,
)
from lanescope.trace.codes import MemoryKind
from lanescope.trace.counter_spool import RECORD, counter_header
from lanescope.trace.operations import Operations
from lanescope.trace.spool_records import CALLS, OPERATIONS
from lanescope.trace.timeline import Counters
from lanescope.watching.launcher import ProgramExit
from lanescope.watching.live import LiveWatch
from lanescope.watching.session import Watch, watch
from lanescope.watching.sources import Availability, SourceReport, WatchSource
from lanescope.watching.sources.calls import RingReader
from tests.patience import PATIENCE_S

MS, HOUR_S = 1_000_000, 3600
STEP_S = 600
SAMPLE_NS, COPY_NS = 200 * MS, 1000 * MS
RING_RECORDS = 512
COPY_BYTES = 1 << 20
#: Records that are worked on at once.
PIECE = 1 << 15
MACHINE = Machine(
    "node", nodes=(NumaNode(0, ((0,),)),), gpus=tuple(Gpu(i, "GPU", node=0) for i in range(2))
)
#: No process has such a number.
NOBODY = 1 << 30


class Clock:
    """The time of the watch, which steps alone move."""

    def __init__(self) -> None:
        self.now_ns = native.watch_time_ns()

    def __call__(self) -> int:
        return self.now_ns


class Made:
    """What all sources have in common."""

    def __init__(self, name: str, folder: Path, clock: Clock) -> None:
        self.name, self.folder, self.clock = name, folder, clock

    def available(self, machine: Machine, *, thorough: bool = False) -> Availability:
        return Availability(True)

    def prepare(self) -> None:
        pass

    def environment(self) -> Mapping[str, str]:
        return {}


class MadeCounters(Made):
    """One GPU's samples."""

    def start(self) -> None:
        gpu = int(self.name[-1])
        self._file = (self.folder / f"{self.name}.bin").open("ab", 0)
        self._file.write(counter_header("pm", gpu, SAMPLE_NS).encode())
        unknown = 2**32 - 1
        self._file.write(np.array((self.clock.now_ns, unknown, unknown), RECORD).tobytes())
        self.samples = 0

    def advance(self) -> None:
        records = np.zeros(STEP_S * 10**9 // SAMPLE_NS, RECORD)
        records["end_ns"] = self.clock.now_ns + SAMPLE_NS * np.arange(1, records.size + 1)
        # a copy's packets in each sample that it lies in
        records["rx_bytes"][:: COPY_NS // SAMPLE_NS] = COPY_BYTES * 1.1
        self._file.write(records.tobytes())
        self.samples += records.size

    def stop(self) -> SourceReport:
        self._file.close()
        return SourceReport(samples=self.samples, lost_samples=0)


class MadeCalls(Made):
    """Copies of a process to one GPU in a ring, as the library in a program would write them.

    A new process begins every hour, and the one before has ended.
    """

    def start(self) -> None:
        self._rings = self.folder / "made"
        self._rings.mkdir()
        self._reader = RingReader(self._rings, self.folder)
        self.processes = 0

    def advance(self, second: int) -> None:
        if second % HOUR_S == 0:
            self._end()
            self._begin()
        count = STEP_S * 10**9 // COPY_NS
        for begin in range(0, count, RING_RECORDS):
            self._record(np.arange(begin, min(begin + RING_RECORDS, count)))
            self._reader._read()

    def _begin(self) -> None:
        self.processes += 1
        header = {
            "source": "trace", "version": 1, "pid": self.processes, "command": ["train"],
            "start_ns": self.clock.now_ns,
        }  # fmt: skip
        text, at = json.dumps(header).encode() + b"\n", 2 * call_ring._TEXT_AT
        path = self._rings / f"calls.{self.processes}.ring"
        path.write_bytes(bytes(at + RING_RECORDS * call_ring.RECORDS.itemsize))
        ring = np.memmap(path, np.uint8, "r+")
        self._records = np.ndarray((RING_RECORDS,), call_ring.RECORDS, ring, at)
        self._numbers = numbers = np.ndarray((1,), call_ring._NUMBERS, ring)
        numbers["magic"], numbers["records_at"] = call_ring._MAGIC, at
        numbers["records"], numbers["start_ns"] = RING_RECORDS, self.clock.now_ns
        numbers["process"] = NOBODY + self.processes
        ring[call_ring._TEXT_AT :][: len(text)] = np.frombuffer(text, np.uint8)
        numbers["text_bytes"] = len(text)

    def _end(self) -> None:
        """Make the process one of this machine, where it is not there."""
        if self.processes:
            self._numbers["pid_namespace"] = os.stat("/proc/self/ns/pid").st_ino
            self._reader._read()

    def _record(self, numbers: np.ndarray) -> None:
        first = int(self._numbers["next"][0])
        places = (first + np.arange(numbers.size)) % RING_RECORDS
        records = np.zeros(numbers.size, call_ring.RECORDS)
        records["sequence"] = first + 1 + np.arange(numbers.size)
        records["start"] = self.clock.now_ns + numbers * COPY_NS
        records["end"] = records["start"] + 50_000
        records["bytes"], records["thread"], records["source_device"] = COPY_BYTES, 1, -1
        records["source_kind"], records["destination_kind"] = (
            MemoryKind.PAGEABLE,
            MemoryKind.DEVICE,
        )
        self._records[places] = records
        self._numbers["next"] = first + numbers.size

    def stop(self) -> SourceReport:
        self._reader._read(last=True)
        return SourceReport(reason=self._reader.failure)


class Program:
    """Runs for some hours, of which it reports what lanescope takes."""

    program, traceable, notes = ("train",), True, ()

    def __init__(self, hours: int) -> None:
        self.hours, self.clock = hours, Clock()
        self.spool = Path()
        self.counters: list[MadeCounters] = []
        self.held: list[int] = []
        self.spooled: list[int] = []

    def sources(self, spool: Path) -> Sequence[WatchSource]:
        self.spool = spool
        self.counters = [MadeCounters(f"pm.g{gpu}", spool, self.clock) for gpu in range(2)]
        self.calls = MadeCalls("calls", spool, self.clock)
        return [*self.counters, self.calls]

    @contextlib.contextmanager
    def shown(self, spool: Path) -> Iterator[None]:
        self.live = LiveWatch(spool, MACHINE)
        yield

    def wait(self, environment: Mapping[str, str]) -> ProgramExit:
        begun_ns = self.clock.now_ns
        for second in range(0, self.hours * HOUR_S, STEP_S):
            for counters in self.counters:
                counters.advance()
            self.calls.advance(second)
            self.clock.now_ns += STEP_S * 10**9
            frame = self.live.look(self.clock.now_ns)
            assert not frame.problems, frame.problems
            if (second + STEP_S) % HOUR_S == 0:
                gc.collect()
                self.held.append(resident_bytes())
                self.spooled.append(sum(p.stat().st_size for p in self.spool.glob("*.bin")))
        return ProgramExit(0, begun_ns, self.clock.now_ns, 1, None)


def resident_bytes(which: str = "VmRSS") -> int:
    status = Path("/proc/self/status").read_text()
    return int(re.search(which + r":\s+(\d+)", status)[1]) << 10  # type: ignore[index]


def take_little_at_once() -> None:
    """Work on so few records at once that half a day is many times as much."""
    store.MOST_BYTES_IN_MEMORY = 1 << 20
    for module in (stored_columns, counter_spool, columns):
        module.MOST_IN_MEMORY = 1 << 13  # type: ignore[attr-defined]
    for module in (rectangles, wire, wire_fit):
        module._CHUNK = PIECE  # type: ignore[attr-defined]
    stored_columns.MOST_ROWS = time_checks._TIMES = 1 << 13
    stored_columns.SLICE = attribution._MOST_PENDING = 1 << 12
    Operations.pieces.__defaults__ = (1 << 12,)
    for by_piece in (Counters.pieces, stored_columns.StoredColumn.__init__):
        by_piece.__defaults__ = (PIECE,)
    stored_columns.pieces_of.__defaults__ = (PIECE,)
    stored_columns.PIECE = PIECE
    timeline_html.MOST_RECORDS = timeline_html.MOST_OPERATIONS = 1 << 13


def main(what: str, hours: int) -> None:
    take_little_at_once()
    day = Program(hours)
    native.watch_time_ns = day.clock
    native.watch_clock_ahead_ns = lambda: 0
    limits = (1 << 40, 0)  # of the disk: the machine that tests may have little
    run = watch(
        Watch(MACHINE, day, "lanescope watch", day.sources, Path("run"), day.shown, *limits)
    )
    found = {
        "held": day.held,
        "spooled": day.spooled,
        "samples": [len(one) for one in run.timeline.counters],
        "copies": len(run.timeline.operations),
        "lost": sum(one.lost_records + one.left_out for one in run.timeline.processes),
        "processes": len(run.timeline.processes),
        "left": sorted(path.name for path in Path("run").iterdir()),
    }
    if what == "summary":
        evaluation = evaluate_watch(run, Path("none"))
        found["page"] = len(watch_page_html(run, evaluation))
        found["bytes"] = sum(one.total_bytes for one in evaluation.summary.shares_by("process"))
    print(json.dumps({**found, "peak": resident_bytes("VmHWM")}))


def a_program_of(what: str, hours: int, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    found = filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")))
    done = subprocess.run(
        [sys.executable, "-m", __name__, what, str(hours)],
        check=True,
        stdout=subprocess.PIPE,
        timeout=PATIENCE_S,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(found)},
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_day_takes_no_more_memory_than_two_hours_and_the_disk_as_much_each_hour(
    tmp_path: Path,
) -> None:
    report = a_program_of("session", 24, tmp_path / "a")
    held, spooled = report["held"], report["spooled"]
    assert len(held) == 24
    # 19 MB were written and shown since, which take 27 MB as columns
    assert held[-1] - held[1] < 4 << 20, held
    each_hour = HOUR_S * 10**9 // SAMPLE_NS * 2 * RECORD.itemsize
    each_hour += HOUR_S * 10**9 // COPY_NS * (OPERATIONS.itemsize + CALLS.itemsize)
    for grown in np.diff(spooled):  # and the names of calls in the spool of each process
        assert each_hour < grown < each_hour + 4096, spooled
    assert report["samples"] == [24 * HOUR_S * 10**9 // SAMPLE_NS + 1] * 2
    assert report["copies"] == 24 * HOUR_S * 10**9 // COPY_NS
    assert (report["lost"], report["processes"]) == (0, 24)
    assert not [name for name in report["left"] if "spool" in name]


@pytest.mark.native  # ten seconds
def test_a_day_is_summed_up_in_the_memory_of_half_a_day(tmp_path: Path) -> None:
    half, day = (a_program_of("summary", hours, tmp_path / str(hours)) for hours in (12, 24))
    assert day["bytes"] == 2 * half["bytes"] == 24 * HOUR_S * 10**9 // COPY_NS * COPY_BYTES
    # held as columns, 43,200 copies more take 240 bytes each, and 432,000 samples 25: 21 MB
    assert day["peak"] < half["peak"] + (10 << 20), (half["peak"], day["peak"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
