"""Small copies that are close to each other are counted, not recorded; none is missing."""

from __future__ import annotations

import json
import mmap
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from lanescope._core import native
from lanescope.findings.trace.copies import BATCH_GAP_NS
from lanescope.machine import Machine
from lanescope.trace import call_spool
from lanescope.trace.call_ring import (
    _COUNTED,
    _NUMBERS,
    MOST_COUNTED,
    RECORDS,
    CallRing,
    Counted,
    RingCopies,
)
from lanescope.trace.call_spool import CountedCopies, RingSpool, spooled
from lanescope.trace.spool_records import COUNTED, RecordKind, count_record
from lanescope.trace.store import read_spools
from lanescope.trace.trace_spool import Trace, read_trace_spool
from lanescope.trace.watch_folder import RINGS
from lanescope.watching.sources.calls import CallsSource
from tests.patience import PATIENCE_S
from tests.watching import recording
from tests.watching.recording import BEGIN, Run, environment_of, needs_calls, read_one, waiting

pytestmark = needs_calls
source, run = recording.source, recording.run  # fixtures

BACK = """
def to_host(size, times=1):
    for _ in range(times):
        assert cuda.cuMemcpyDtoH_v2(P(at), U64(GPU0), SIZE(size)) == 0
"""


def counted_in(trace: Trace) -> int:
    """How many copies the trace says were only counted."""
    found = [note for note in trace.notes if "only counted" in note]
    return int(found[0].split()[0].replace(",", "")) if found else 0


def test_counted_copies_have_their_number_bytes_and_places(run: Run, tmp_path: Path) -> None:
    _, report = run("to_gpu(8, times=5000)\nto_gpu(1 << 20)\nto_gpu(24, times=5000)")
    trace = read_one(tmp_path)
    assert report.reason == " ".join(trace.notes)
    ops = trace.operations
    assert len(ops) == 10_001
    assert int(ops.bytes.sum()) == 5000 * 8 + (1 << 20) + 5000 * 24
    assert 0 < counted_in(trace) < 9_600  # every 16th or so is recorded
    assert set(ops.destination_device.tolist()) == {0}
    assert {ops.names[number] for number in ops.name.tolist()} == {"cuMemcpyHtoD"}
    assert trace.process.complete
    assert trace.process.lost_records == 0
    assert (ops.end_ns >= ops.start_ns).all()
    assert ops.start_ns.min() >= trace.process.start_ns - 10**8
    assert ops.end_ns.max() <= trace.process.end_ns


def test_each_call_and_thread_has_its_own(run: Run, tmp_path: Path) -> None:
    run(
        BACK
        + """
def work():
    for _ in range(50):
        to_gpu(8, times=20)
        to_host(4, times=30)
threads = [threading.Thread(target=work) for _ in range(6)]
for one in threads: one.start()
for one in threads: one.join()
"""
    )
    trace = read_one(tmp_path)
    ops = trace.operations
    into = ops.destination_device[:] == 0
    threads, counts = np.unique(ops.thread[into], return_counts=True)
    assert counts.tolist() == [1000] * 6
    assert np.unique(ops.thread[~into], return_counts=True)[1].tolist() == [1500] * 6
    assert threads.tolist() == np.unique(ops.thread[~into]).tolist()
    assert (int(ops.bytes[into].sum()), int(ops.bytes[~into].sum())) == (48_000, 36_000)


@pytest.mark.parametrize(
    "copies",
    [
        "to_gpu((16 << 10) + 1, times=3000)",  # large
        "for _ in range(150): to_gpu(8); time.sleep(0.0002)",  # not close
        "to_gpu(8, times=60)",  # few
        "for _ in range(3000): cuda.cuMemcpyPeerAsync(U64(GPU0), 0, U64(GPU1), 0, SIZE(9), P(4))",
    ],
)
def test_others_are_recorded_each(run: Run, tmp_path: Path, copies: str) -> None:
    run("import time\n" + copies)
    trace = read_one(tmp_path)
    assert len(trace.operations) >= 60
    assert counted_in(trace) == 0


def test_beside_a_trace_each_is_recorded(
    tmp_path: Path, source: CallsSource, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which copies the trace lacks shows by their times."""
    monkeypatch.setattr(source, "_is_fallback", True)
    run("to_gpu(8, times=3000)")
    trace = read_one(tmp_path)
    assert (len(trace.operations), counted_in(trace)) == (3000, 0)


def test_copies_into_a_graph_are_not_counted(run: Run, tmp_path: Path) -> None:
    run(
        """
def send(times):
    for _ in range(times):
        assert cuda.cuMemcpyHtoDAsync_v2(U64(GPU0), P(at), SIZE(8), P(1)) == 0
send(3000)
cuda.cuStreamBeginCapture_v2(P(1), 0)
send(40)
cuda.cuStreamEndCapture(P(1), None)
send(500)
"""
    )
    trace = read_one(tmp_path)
    assert len(trace.operations) == 3500
    assert counted_in(trace) > 0


def test_a_child_counts_nothing_for_its_parent(run: Run, tmp_path: Path) -> None:
    run(
        """
to_gpu(8, times=3000)
if (child := os.fork()) == 0:
    to_gpu(8, times=3000)
    os._exit(0)
os.waitpid(child, 0)
to_gpu(8, times=100)
"""
    )
    assert len(read_one(tmp_path).operations) == 3100


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_program_that_ends_at_once_loses_none(
    source: CallsSource, tmp_path: Path, ending: str
) -> None:
    source.start()
    text = f"{BEGIN}\nto_gpu(8, times=3007)\n{ending}"
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=environment_of(source),
        timeout=PATIENCE_S,
        check=False,
    )
    source.stop()
    assert done.returncode in (0, -signal.SIGKILL)
    trace = read_one(tmp_path)
    assert len(trace.operations) == 3007
    assert trace.process.lost_records == 0


def ring_of(source: CallsSource, folder: Path, text: str) -> Path:
    """Run a program, and return its ring, which nobody has read."""
    source.start()
    assert source._reader is not None
    source._reader.stop()
    command = [sys.executable, "-c", BEGIN + text]
    subprocess.run(command, env=environment_of(source), check=True, timeout=PATIENCE_S)
    (path,) = (folder / RINGS).resolve().glob("calls.*.ring")
    return path


def test_the_last_ones_are_there_after_a_kill_of_lanescope(
    source: CallsSource, tmp_path: Path
) -> None:
    """All records are in the spool already; what was counted after them is in the ring alone."""
    path = ring_of(source, tmp_path, "to_gpu(8, times=3007)")
    spool, room = tmp_path / "trace.1.calls.bin", native.SpoolRoom(str(tmp_path))
    RingSpool(CallRing(path), spool, room).read()
    before = len(read_trace_spool(spool).operations)
    assert before <= 3007  # the last one is recorded now and then
    RingSpool(CallRing(path), spool, room).read(last=True)
    trace = read_trace_spool(spool)
    assert (len(trace.operations), trace.process.lost_records) == (3007, 0)
    assert np.unique(trace.operations.thread[:]).size == 1
    assert set(trace.operations.destination_device.tolist()) == {0}


def test_a_batch_that_the_disk_does_not_take_hides_no_other(
    source: CallsSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is lost is more than the ring's records: its reader after a kill goes by these."""
    source.start()
    assert source._reader is not None
    source._reader.stop()
    text = "for n in (3000, 3000, 4000): to_gpu(8, times=n); print(flush=True); input()"
    with waiting(source, text) as program:
        (path,) = (tmp_path / RINGS).resolve().glob("calls.*.ring")
        file, room = tmp_path / "trace.1.calls.bin", native.SpoolRoom(str(tmp_path))
        spool = RingSpool(CallRing(path), file, room)
        with monkeypatch.context() as full:
            full.setattr(call_spool, "append_whole", lambda *_: False)
            spool.read()
        program.go_on()
        spool.read()
        program.end()
    RingSpool(CallRing(path), file, room).read(last=True)
    trace = read_trace_spool(file)
    assert len(trace.operations) >= 7000 - 2 * MOST_COUNTED  # those at the edges may be lost, too
    assert len(trace.operations) + trace.process.lost_records == 10_000


def test_what_is_left_out_was_not_counted(run: Run, tmp_path: Path) -> None:
    (tmp_path / "limits").write_text("30000 0 0\n")
    _, report = run("to_gpu(8, times=9000)")
    trace = read_one(tmp_path)
    assert trace.process.left_out + len(trace.operations) == 9000
    assert trace.process.left_out > 8000
    assert counted_in(trace) <= len(trace.operations)
    assert report.reason is None or report.reason == " ".join(trace.notes)


def test_a_ring_is_read_on_where_its_spool_ends(source: CallsSource, tmp_path: Path) -> None:
    """As after lanescope was killed: the counted are not taken for records."""
    source.start()
    assert source._reader is not None
    source._reader.stop()  # what is read is read here
    text = "to_gpu(8, times=3000)\nprint(flush=True)\ninput()\nto_gpu(8, times=2000)"
    with waiting(source, text) as program:
        (path,) = (tmp_path / RINGS).resolve().glob("calls.*.ring")
        spool, room = tmp_path / "trace.1.calls.bin", native.SpoolRoom(str(tmp_path))
        RingSpool(CallRing(path), spool, room).read()
        program.end()
    RingSpool(CallRing(path), spool, room).read(last=True)
    trace = read_trace_spool(spool)
    assert len(trace.operations) == 5000
    assert int(trace.operations.bytes.sum()) == 40_000
    assert trace.process.lost_records == 0


@pytest.mark.parametrize(
    ("place", "what"),
    [(0, {"bytes": 1 << 62}), (slice(1, None), {"thread": 7, "call": 1, "copies": (1 << 62) - 1})],
)
def test_rows_of_any_numbers_end_no_reader(
    source: CallsSource, tmp_path: Path, place: int | slice, what: dict[str, int]
) -> None:
    """A program can write anything into its own ring."""
    path = ring_of(source, tmp_path, "to_gpu(8, times=3007)")
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        rows = np.ndarray((62,), _COUNTED, content, _NUMBERS.itemsize)
        assert rows["copies"].tolist()[0] > 0
        for name, number in what.items():
            rows[name][place] = number
        del rows
    spool = tmp_path / "trace.1.calls.bin"
    RingSpool(CallRing(path), spool, native.SpoolRoom(str(tmp_path))).read(last=True)
    assert len(read_trace_spool(spool).operations) == 3007


def test_calls_stand_near_their_operations(tmp_path: Path) -> None:
    """Of a full ring, as after lanescope was killed, which is one batch of half a million."""
    recorded = [(1, 10_000 * at, 8, 15, 120) for at in range(1, 20_001)]
    copies = CountedCopies().with_counted(copies_of(*recorded))
    path, begin = tmp_path / "trace.1.calls.bin", native.watch_time_ns()
    header = {"source": "trace", "version": 1, "pid": 1, "command": [], "start_ns": begin}
    first = json.dumps(header | {"timed_by": "calls"}).encode() + b"\n"
    found = copies._replace(start_ns=copies.start_ns + begin, end_ns=copies.end_ns + begin)
    path.write_bytes(first + spooled(found, 0) + count_record(RecordKind.END, begin + 10**9, 1))
    operations = read_spools(tmp_path, Machine(name="m"), begin, None).operations
    assert len(operations) == 16 * len(recorded)
    assert all((piece.call_start_ns[:] > 0).all() for piece in operations.pieces())


def copies_of(*rows: tuple[int, int, int, int, int]) -> RingCopies:
    """Records of (thread, begin in ns, bytes, counted before it, bytes of these), 100 ns each."""
    records = np.zeros(len(rows), RECORDS)
    thread, start, size, counted, counted_bytes = zip(*rows, strict=True)
    records["thread"], records["bytes"] = thread, size
    records["counted"], records["counted_bytes"] = counted, counted_bytes
    begun = np.array(start, np.int64)
    return RingCopies(records, begun, begun + 100)


def test_the_counted_lie_evenly_and_have_the_mean_of_their_bytes() -> None:
    found = CountedCopies().with_counted(
        copies_of((1, 1000, 5, 0, 0), (2, 1100, 7, 0, 0), (1, 5000, 5, 3, 20), (2, 1350, 7, 4, 8))
    )
    records, start, end = found
    first, second = (records["thread"] == thread for thread in (1, 2))
    assert start[first].tolist() == [1000, 2000, 3000, 4000, 5000]
    assert records["bytes"][first].tolist() == [5, 7, 7, 6, 5]
    assert start[second].tolist() == [1100, 1202, 1239, 1276, 1313, 1350]
    assert (end - start)[second].tolist() == [100, 37, 37, 37, 37, 100]
    assert (records["counted"] == COUNTED).tolist() == [False, False] + [True] * 3 + [False] + [
        True
    ] * 4 + [False]


def test_the_counted_are_near_their_record_after_a_pause() -> None:
    counted = CountedCopies()
    counted.with_counted(copies_of((1, 0, 5, 0, 0)))
    found = counted.with_counted(copies_of((1, 10**12, 5, 2, 10)))
    assert found.start_ns.tolist() == [10**12 - 60_000, 10**12 - 30_000, 10**12]
    # and where the record before is not known
    found = counted.with_counted(copies_of((9, 10**12, 5, 1, 10)))
    assert found.start_ns.tolist() == [10**12 - 5000, 10**12]


def test_the_counted_are_behind_a_call_that_waited() -> None:
    """A thread is in one call at a time."""
    waited, other = copies_of((1, 1000, 5, 0, 0)), copies_of((1, 10_050_000, 5, 4, 20))
    counted = CountedCopies()
    counted.with_counted(waited._replace(end_ns=waited.start_ns + 10_000_000))
    assert counted.with_counted(other).start_ns.min() == 10_050_000 - 4 * 12_250


def test_copies_in_a_row_stay_one_row() -> None:
    """Bursts of 64 copies, 3 µs apart, and 1 ms of other work after each."""
    begun = [burst * 1_192_000 + at * 3000 for burst in range(100) for at in range(64)]
    found = CountedCopies().with_counted(
        copies_of(*[(1, start, 8, 15, 120) for start in begun[16::16]])
    )
    times = np.sort(found.start_ns)
    assert 90 < np.count_nonzero(np.diff(times) > BATCH_GAP_NS) < 110


def test_threads_that_come_and_go_leave_no_memory_behind() -> None:
    counted, row = CountedCopies(), Counted(1, 0, copies=5, bytes=28)
    counted.with_counted(copies_of((1, 1000, 5, 2, 10)))
    tracemalloc.start()
    for thread in range(2, 300):
        counted.with_counted(copies_of(*[(thread, 1000, 5, 2, 10)] * 200))
        counted.forget_others([row])
    assert tracemalloc.get_traced_memory()[0] < 1 << 20  # a batch has 25 KB
    tracemalloc.stop()
    rest, lost = counted.rest([row])
    assert (None if rest is None else len(rest.records), lost) == (3, 0)


def test_the_last_ones_are_in_no_record() -> None:
    counted = CountedCopies()
    counted.with_counted(copies_of((1, 1000, 5, 2, 10)))
    rest, lost = counted.rest([Counted(1, 0, copies=5, bytes=28)])
    assert rest is not None
    assert rest.records["bytes"].tolist() == [6, 6, 6]
    assert rest.start_ns.tolist() == [6000, 11000, 16000]
    assert lost == 0


@pytest.mark.parametrize("row", [Counted(1, 0, 30, 150), Counted(2, 0, 3, 15)])
def test_what_was_counted_by_records_that_are_lost_is_lost(row: Counted) -> None:
    """More than are ever counted at once, or of a thread of which no record is there."""
    counted = CountedCopies()
    counted.with_counted(copies_of((1, 1000, 5, 2, 10)))
    assert counted.rest([row]) == (None, row.copies - (2 if row.thread == 1 else 0))
