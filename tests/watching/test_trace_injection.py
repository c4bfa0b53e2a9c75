"""The library that the driver loads into a program, with a libcupti for tests and no GPU."""

import ctypes
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lanescope.trace.timeline import MemoryKind, OperationCode
from lanescope.trace.trace_spool import read_trace_spool
from lanescope.watching.sources.injection import injection_library
from tests.native.programs import program
from tests.patience import PATIENCE_S
from tests.watching.injected import WAITING, environment, needs_injection, read_one

# What a test program begins with: the driver loads the library that the variable names.
BEGIN = (
    WAITING
    + """
import ctypes, os, resource, signal, sys
cupti = ctypes.CDLL(os.environ["LANESCOPE_CUPTI"])
inject = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
assert inject.InitializeInjection() == 1
H2D, D2H, ASYNC = 1, 2, 1
def copies(count, size, kind=H2D, flags=ASYNC, stream=7):
    cupti.mock_copies(count, ctypes.c_uint64(size), kind, flags, stream)
"""
)

pytestmark = needs_injection


@pytest.fixture(scope="session")
def cupti() -> Path:
    return program("mock_cupti")


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(cupti: Path, tmp_path: Path) -> Run:
    def run_program(text: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", BEGIN + text],
            env=environment(cupti, tmp_path, variables),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    return run_program


def test_every_copy_arrives_with_its_bytes(run: Run, tmp_path: Path) -> None:
    done = run("copies(1, 1)\ncopies(2, 1 << 40, D2H, 0)\nprint('mine')\nsys.exit(3)")
    assert (done.returncode, done.stdout, done.stderr) == (3, "mine\n", "")
    trace = read_one(tmp_path)
    ops = trace.operations
    assert ops.bytes.tolist() == [1, 1 << 40, 1 << 40]
    assert ops.asynchronous.tolist() == [True, False, False]
    assert ops.source_kind.tolist() == [MemoryKind.PINNED, MemoryKind.DEVICE, MemoryKind.DEVICE]
    assert ops.source_device.tolist() == [-1, 1, 1]
    assert ops.destination_device.tolist() == [1, -1, -1]
    assert set(ops.stream.tolist()) == {7}
    assert set(ops.what.tolist()) == {OperationCode.COPY}
    assert trace.process.complete
    assert trace.process.lost_records == 0
    assert trace.notes == ()
    assert trace.process.start_ns <= int(ops.start_ns[0]) <= (trace.process.end_ns or 0)
    assert "InitializeInjection" in trace.process.command


def test_copies_know_the_outer_call_and_its_thread(run: Run, tmp_path: Path) -> None:
    run("copies(5, 64)")
    ops = read_one(tmp_path).operations
    assert ops.thread.tolist() == [4242] * 5
    assert {ops.names[i] for i in ops.name.tolist()} == {"cudaMemcpyAsync"}
    assert (ops.start_ns - ops.call_start_ns).tolist() == [95] * 5
    assert (ops.call_end_ns - ops.call_start_ns).tolist() == [55] * 5


def test_only_calls_that_move_data_are_traced(run: Run) -> None:
    assert run("print(cupti.mock_calls_enabled())").stdout == "2\n"
    off = run("print(cupti.mock_calls_enabled())", LANESCOPE_TRACE_KINDS="copy")
    assert off.stdout == "0\n"


def test_without_calls_threads_are_unknown(run: Run, tmp_path: Path) -> None:
    run("copies(2, 64)", LANESCOPE_TRACE_KINDS="copy")
    ops = read_one(tmp_path).operations
    assert ops.thread.tolist() == [-1, -1]
    assert ops.call_start_ns.tolist() == [0, 0]


def test_calls_that_never_can_be_traced_cost_no_copies(run: Run, tmp_path: Path) -> None:
    not_initialised = {"MOCK_CUPTI_FAIL": "cuptiActivityEnableDriverApi:15"}
    done = run("copies(3, 8)\nwritten()", LANESCOPE_TRACE_FLUSH_MS="10", **not_initialised)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_one(tmp_path).operations.bytes.tolist() == [8, 8, 8]


def test_kernels_are_named_once_each(run: Run, tmp_path: Path) -> None:
    run(
        "name = 'größer'.encode()\n"
        "for _ in range(1000): cupti.mock_kernel(name); cupti.mock_kernel(b'less')",
        LANESCOPE_TRACE_KINDS="kernel",
    )
    ops = read_one(tmp_path).operations
    assert [ops.names[i] for i in ops.name[:2].tolist()] == ["größer", "less"]
    assert len(ops) == 2000
    (path,) = tmp_path.glob("trace.*.bin")
    _, _, records = path.read_bytes().partition(b"\n")
    assert records.count("größer".encode()) == 1


def test_migrations_begin_when_the_driver_is_ready(run: Run, tmp_path: Path) -> None:
    run(
        "until(cupti.mock_migrations_enabled)\ncupti.mock_migration(ctypes.c_uint64(65536))",
        LANESCOPE_TRACE_KINDS="migration",
        LANESCOPE_TRACE_FLUSH_MS="20",
    )
    ops = read_one(tmp_path).operations
    assert ops.what.tolist() == [OperationCode.MIGRATION]
    assert ops.bytes.tolist() == [65536]
    assert (ops.source_device[0], ops.destination_device[0], ops.device[0]) == (-1, 3, 3)


def test_many_buffers_arrive_whole(run: Run, tmp_path: Path) -> None:
    run("for n in range(100): copies(1000, 1 + n)")
    ops = read_one(tmp_path).operations
    assert len(ops) == 100_000
    assert int(ops.bytes.sum()) == 1000 * sum(range(1, 101))
    assert np.array_equal(np.sort(ops.correlation), np.arange(1, 100_001))
    assert (ops.thread == 4242).all()


def test_what_was_dropped_and_what_was_not_done_is_told(run: Run, tmp_path: Path) -> None:
    run("copies(3, 8)\ncupti.mock_drop(ctypes.c_size_t(17))\ncupti.mock_unfinished_copy()")
    trace = read_one(tmp_path)
    assert trace.process.lost_records == 17
    assert trace.unfinished == 1
    assert len(trace.operations) == 3


def test_a_killed_program_leaves_what_was_flushed(run: Run, tmp_path: Path) -> None:
    done = run(
        "copies(1000, 8)\nwritten()\ncopies(10, 8)\nos.kill(os.getpid(), signal.SIGKILL)",
        LANESCOPE_TRACE_FLUSH_MS="20",
    )
    assert done.returncode == -signal.SIGKILL
    trace = read_one(tmp_path)
    assert 1000 <= len(trace.operations) <= 1010
    assert not trace.process.complete
    assert trace.process.end_ns is None


def test_a_forked_child_writes_nothing_and_ends_well(run: Run, tmp_path: Path) -> None:
    done = run(
        """
copies(10, 8)
for way in (sys.exit, os._exit):
    child = os.fork()
    if child == 0:
        copies(50, 8)
        cupti.cuptiActivityFlushAll(1)
        way(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
copies(10, 8)
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    trace = read_one(tmp_path)
    assert trace.process.complete
    assert len(trace.operations) == 20


@pytest.mark.parametrize("direction", ["syscall(57)", "syscall(56, 17, 0, 0, 0, 0)", "_Fork()"])
def test_a_child_that_skipped_the_fork_handlers_writes_nothing(
    run: Run, tmp_path: Path, direction: str
) -> None:
    if direction.startswith("_Fork") and not hasattr(ctypes.CDLL(None), "_Fork"):
        pytest.skip("this C library has no _Fork")
    done = run(
        f"""
import ctypes
c = ctypes.PyDLL(None)
copies(10, 8)
for _ in range(20):
    for end in (sys.exit, os._exit):
        child = c.{direction}
        if child == 0:
            copies(50, 8)
            cupti.cuptiActivityFlushAll(1)
            end(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
copies(10, 8)
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    trace = read_one(tmp_path)
    assert trace.process.complete
    assert len(trace.operations) == 20


def test_forks_of_a_busy_program_do_not_hang(run: Run, tmp_path: Path) -> None:
    done = run(
        """
import threading
threads = [threading.Thread(target=copies, args=(200_000, 8)) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(50):
    if (child := os.fork()) == 0: os._exit(0)
    os.waitpid(child, 0)
for thread in threads: thread.join()
""",
        LANESCOPE_TRACE_FLUSH_MS="1",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(read_one(tmp_path).operations) == 400_000


def test_after_exec_there_is_a_second_spool(run: Run, tmp_path: Path) -> None:
    done = run(
        """
if len(sys.argv) == 1:
    copies(10, 8)
    cupti.cuptiActivityFlushAll(0)
    os.execv(sys.executable, [sys.executable, "-c", sys.orig_argv[2], "again"])
copies(5, 8)
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, second = sorted(tmp_path.glob("trace.*.bin"), key=lambda path: len(path.name))
    assert len(read_trace_spool(first).operations) == 10
    again = read_trace_spool(second)
    assert len(again.operations) == 5
    assert again.process.pid == read_trace_spool(first).process.pid


def test_many_processes_at_once(cupti: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", BEGIN + "copies(100, 8)"]
    around = environment(cupti, tmp_path, {})
    for process in [subprocess.Popen(command, env=around) for _ in range(64)]:
        assert process.wait(PATIENCE_S) == 0
    traces = [read_trace_spool(path) for path in tmp_path.glob("trace.*.bin")]
    assert len({trace.process.pid for trace in traces}) == 64
    assert all(len(trace.operations) == 100 and trace.process.complete for trace in traces)


@pytest.mark.parametrize(
    ("variables", "note"),
    [
        ({"LANESCOPE_CUPTI": "/nowhere/libcupti.so"}, "cannot be loaded"),
        (
            {"MOCK_CUPTI_FAIL": "cuptiSubscribe:39"},
            "another profiler (CUPTI for another) traces this program",
        ),
        ({"MOCK_CUPTI_FAIL": "cuptiSubscribe:1"}, "cuptiSubscribe failed: MOCK_ERROR"),
        ({"MOCK_CUPTI_FAIL": "cuptiActivityRegisterCallbacks:1"}, "cuptiActivityRegisterCallbacks"),
        ({"MOCK_CUPTI_FAIL": "cuptiActivityEnable:1"}, "tracing of copies failed"),
        ({"MOCK_CUPTI_FAIL": "cuptiActivityEnableDriverApi:1"}, "tracing of calls failed"),
        ({"LANESCOPE_TRACE_KINDS": "copy,tea"}, "'tea' cannot be traced"),
    ],
)
def test_what_fails_is_told_and_the_program_goes_on(
    run: Run, tmp_path: Path, cupti: Path, variables: dict[str, str], note: str
) -> None:
    text = (BEGIN + "copies(3, 8)\nprint('mine')").replace('os.environ["LANESCOPE_CUPTI"]', "MOCK")
    done = subprocess.run(
        [sys.executable, "-c", f"MOCK = {str(cupti)!r}\n{text}"],
        env=environment(cupti, tmp_path, variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine\n", "")
    trace = read_one(tmp_path)
    assert note in trace.notes[0]
    assert trace.process.complete


@pytest.mark.parametrize("folder", ["", "/nowhere/at/all", "/proc"])
def test_without_a_folder_the_program_goes_on(run: Run, folder: str) -> None:
    done = run("copies(3, 8)\nprint('mine')", LANESCOPE_TRACE_FOLDER=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine\n", "")


def test_a_limit_on_file_sizes_neither_kills_nor_cuts(run: Run, tmp_path: Path) -> None:
    done = run(
        """
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, other programs die of it
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
copies(1000, 8); cupti.cuptiActivityFlushAll(0)
copies(5000, 8); cupti.cuptiActivityFlushAll(0)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
copies(100, 8); cupti.cuptiActivityFlushAll(0)
""",
        LANESCOPE_TRACE_FLUSH_MS="0",
        LANESCOPE_TRACE_KINDS="copy",
    )
    assert (done.returncode, done.stderr) == (0, "")
    trace = read_one(tmp_path)
    assert len(trace.operations) + trace.process.lost_records == 6100
    assert trace.process.lost_records > 0
    assert any("File too large" in note for note in trace.notes)
    assert trace.process.complete


def test_names_are_told_again_when_they_could_not_be_written(run: Run, tmp_path: Path) -> None:
    run(
        """
resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
cupti.mock_kernel(b"name"); cupti.cuptiActivityFlushAll(0)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
cupti.mock_kernel(b"name")
""",
        LANESCOPE_TRACE_FLUSH_MS="0",
        LANESCOPE_TRACE_KINDS="kernel",
    )
    trace = read_one(tmp_path)
    assert [trace.operations.names[i] for i in trace.operations.name.tolist()] == ["name"]
    assert trace.process.lost_records == 1


def test_a_program_that_closes_descriptors_keeps_its_own_files(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    run(
        f"""
copies(10, 8); cupti.cuptiActivityFlushAll(0)
os.closerange(3, 300)
files = [os.open({str(mine)!r}, os.O_RDWR | os.O_CREAT) for _ in range(3)]
for number in range(190, 210): os.dup2(files[0], number)
copies(10, 8)
"""
    )
    assert mine.read_bytes() == b""
    assert len(read_one(tmp_path).operations) == 20


def test_a_process_that_outlives_the_watch_fills_no_disk(run: Run, tmp_path: Path) -> None:
    done = run(
        """
import shutil
copies(10, 8); cupti.cuptiActivityFlushAll(0)
shutil.rmtree(os.environ["LANESCOPE_TRACE_FOLDER"])
copies(10, 8); cupti.cuptiActivityFlushAll(0)
print([name for name in os.listdir("/proc/self/fd") if int(name) > 100])
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    assert not tmp_path.exists()
    tmp_path.mkdir()


def test_a_program_may_end_in_the_middle_of_a_callback(run: Run, tmp_path: Path) -> None:
    # as it does in a signal's handler that calls exit
    done = run("copies(10, 8)\ncupti.cuptiActivityFlushAll(0)", MOCK_CUPTI_EXIT="9")
    assert done.returncode == 9
    assert not read_one(tmp_path).process.complete


def test_errno_and_signal_masks_stay(run: Run) -> None:
    done = run("print(signal.pthread_sigmask(signal.SIG_BLOCK, []))\ncopies(3, 8)")
    assert done.stdout == "set()\n"


def test_nothing_but_its_entry_is_exported() -> None:
    library = ctypes.CDLL(str(injection_library()))
    assert library.InitializeInjection
    if shutil.which("nm") is None:
        pytest.skip("needs nm")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(injection_library())],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == [
        "InitializeInjection",
        "InitializeInjectionNvtx2",
    ]


@pytest.mark.native  # seven seconds
def test_a_million_copies_are_read_in_seconds(run: Run, tmp_path: Path) -> None:
    run("copies(1_000_000, 8)")
    begin = time.process_time()
    ops = read_one(tmp_path).operations
    assert len(ops) == 1_000_000
    assert (ops.thread == 4242).all()
    assert time.process_time() - begin < 20


def test_a_profiler_of_the_program_takes_over_and_that_is_told(run: Run, tmp_path: Path) -> None:
    text = "copies(3, 8)\nwritten()\nprint(cupti.mock_profile())\ncopies(2, 8)"
    done = run(text, LANESCOPE_TRACE_FLUSH_MS="10")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
    trace = read_one(tmp_path)
    assert trace.operations.bytes.tolist() == [8, 8, 8]
    (note,) = trace.notes
    assert note.endswith("took over: what the program did after that is missing")


def test_addresses_keep_other_profilers_away(run: Run) -> None:
    done = run("print(cupti.mock_profile())", LANESCOPE_TRACE_KINDS="copy,address")
    assert done.stdout == "39\n"
