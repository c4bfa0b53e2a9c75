"""Spools leave room on the disk, and nobody is traced whom nobody reads."""

import contextlib
import errno
import fcntl
import subprocess
import sys
import time

import numpy as np
import pytest

from lanescope._core import native
from lanescope.trace.counter_spool import counter_header
from lanescope.trace.spool_records import CALLS, RecordKind, WholeRecords
from lanescope.trace.summarise import summarise
from lanescope.trace.time_checks import no_room_note
from lanescope.trace.timeline import OperationCode, Timeline
from lanescope.trace.watch_folder import LIMITS, write_limits
from tests.patience import PATIENCE_S
from tests.watching import test_trace_injection as injection
from tests.watching.injected import environment, needs_injection, read_one

cupti = injection.cupti  # a fixture
BEGIN = injection.BEGIN
MOST = 1 << 20


@contextlib.contextmanager
def limited(folder, most=None, reserve=None):
    lock = write_limits(folder, most)
    if reserve is not None:
        (folder / LIMITS).write_text(f"{most} {reserve}\n")
    yield lock
    lock.release()


def run_program(text, cupti, folder, kinds="copy,memset,call"):
    asked = {"LANESCOPE_TRACE_KINDS": kinds, "LANESCOPE_TRACE_FLUSH_MS": "5"}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + text],
        env=environment(cupti, folder, asked),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def size_of(folder):
    return sum(path.stat().st_size for path in folder.glob("trace.*.bin"))


def calls_in(folder):
    (path,) = folder.glob("trace.*.bin")
    content = path.read_bytes()
    return len(
        WholeRecords.found_in(content, content.index(b"\n") + 1).table(RecordKind.CALL, CALLS)
    )


@needs_injection
def test_a_spool_takes_no_more_than_it_may(cupti, tmp_path):
    with limited(tmp_path, MOST):
        run_program("for _ in range(60): copies(1000, 1); written()", cupti, tmp_path)
    assert MOST // 2 < size_of(tmp_path) < MOST + 4096
    trace = read_one(tmp_path)
    calls = calls_in(tmp_path)
    copies = len(trace.operations)
    assert calls < 2 * copies  # of each copy two, which are finer, and were left out before
    assert copies + calls + trace.process.left_out == 3 * 60_000
    assert trace.process.lost_records == 0
    assert trace.process.complete
    told = summarise(Timeline(0, 1, processes=(trace.process,)))
    assert no_room_note([trace.process]) in told.notes
    finer = trace.process.left_out_calls
    assert 0 < finer < trace.process.left_out == finer + 60_000 - copies
    assert f"{finer:,} calls, {60_000 - copies:,} others" in told.notes[0]


@needs_injection
def test_calls_of_a_buffer_for_which_there_is_no_room_at_all_are_calls(cupti, tmp_path):
    with limited(tmp_path, 64 << 10):
        run_program("copies(20_000, 1); written()", cupti, tmp_path)
    trace = read_one(tmp_path)
    assert trace.process.left_out > 50_000
    assert calls_in(tmp_path) + trace.process.left_out_calls == 2 * 20_000


@needs_injection
def test_kernels_are_left_out_before_copies(cupti, tmp_path):
    text = """
for _ in range(12):
    for _ in range(1000): cupti.mock_kernel(b"k")
    copies(10, 1)
    written()
"""
    with limited(tmp_path, MOST):
        run_program(text, cupti, tmp_path, "copy,kernel")
    what = read_one(tmp_path).operations.what
    assert np.count_nonzero(what == OperationCode.COPY) == 120
    assert 2000 < np.count_nonzero(what == OperationCode.KERNEL) < 12_000
    process, left_out = (
        read_one(tmp_path).process,
        12_000 - np.count_nonzero(what == OperationCode.KERNEL),
    )
    assert (process.left_out, process.left_out_kernels) == (left_out, left_out)


@needs_injection
def test_nothing_is_written_into_what_stays_free(cupti, tmp_path):
    with limited(tmp_path, MOST, 1 << 62):
        run_program("copies(1000, 1)", cupti, tmp_path)
    trace = read_one(tmp_path)
    assert len(trace.operations) == 0
    assert trace.process.left_out == 3000
    assert trace.process.complete


@needs_injection
def test_without_limits_all_is_written(cupti, tmp_path):
    run_program("copies(20000, 1)", cupti, tmp_path)
    assert len(read_one(tmp_path).operations) == 20_000


@needs_injection
def test_a_program_is_not_traced_when_lanescope_is_gone(cupti, tmp_path):
    text = """
import ctypes, os
copies(10, 1); written()
print("go", flush=True)
until(lambda: cupti.mock_calls_enabled() == 0)
before = os.path.getsize(sys.argv[1])
copies(5000, 1)
print(os.path.getsize(sys.argv[1]) - before)
"""
    with limited(tmp_path) as lock:
        command = BEGIN + text.replace("sys.argv[1]", f"spool({str(tmp_path)!r})").replace(
            "import ctypes, os", "import glob\nspool = lambda at: glob.glob(at + '/trace.*')[0]"
        )
        with subprocess.Popen(
            [sys.executable, "-c", command],
            env=environment(cupti, tmp_path, {}),
            stdout=subprocess.PIPE,
            text=True,
        ) as program:
            try:
                assert program.stdout.readline() == "go\n"
                lock.release()  # as the kernel does for a process that is killed
                told, _ = program.communicate(timeout=PATIENCE_S)
            finally:
                program.kill()
    assert (told, program.returncode) == ("0\n", 0)
    trace = read_one(tmp_path)
    assert len(trace.operations) == 10
    assert not trace.process.complete


def test_counters_end_where_there_is_no_room(tmp_path):
    header = counter_header("pm", 0, 1000)
    with limited(tmp_path, 2000, 0):
        spool = native.testing.SpoolFile(str(tmp_path / "pm.g0.bin"), header)
        written = [spool.write([(n, 1, 1)] * 10) for n in range(50)]
        assert written[0]
        assert not written[-1]
        assert "--max-spool" in spool.failure()
        assert (tmp_path / "pm.g0.bin").stat().st_size <= 2000


def test_many_writers_together_take_little_more_than_they_may(tmp_path):
    header, batch = counter_header("pm", 0, 1000), [(1, 1, 1)] * 100
    with limited(tmp_path, MOST, 0):
        spools = []
        for number in range(64):
            spools.append(native.testing.SpoolFile(str(tmp_path / f"pm.g{number}.bin"), header))
            assert spools[-1].write(batch)
        time.sleep(0.2 + 0.01 * len(spools))  # what they counted is old then
        for spool in spools:  # the first takes all the room there is
            while spool.write(batch):
                pass
        assert all("--max-spool" in spool.failure() for spool in spools)
        sizes = [path.stat().st_size for path in tmp_path.glob("pm.*.bin")]
    assert 7 / 8 * MOST < sum(sizes) <= MOST * 17 / 16, sum(sizes) / MOST


@pytest.mark.parametrize("asked", [None, 12345])
def test_limits_follow_what_is_free(asked, tmp_path, monkeypatch):
    free = type("Usage", (), {"free": 8000})
    monkeypatch.setattr("lanescope.trace.watch_folder.shutil.disk_usage", lambda _: free)
    with limited(tmp_path, asked):
        told = [int(word) for word in (tmp_path / LIMITS).read_text().split()]
    assert told == [asked or 2000, 4000, 1]


@needs_injection
def test_where_no_file_can_be_locked_programs_are_traced(cupti, tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with limited(tmp_path) as lock:
        assert not lock.held
        run_program("copies(10, 1); written()\ncopies(10, 1)", cupti, tmp_path)
    assert len(read_one(tmp_path).operations) == 20
