"""NVTX ranges of a program, without NVTX's headers and without a GPU."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lanescope.trace import timeline as module
from lanescope.trace.attribution import attribution
from lanescope.trace.columns import read_columns, write_columns
from lanescope.trace.timeline import NO_RANGE, OpenRanges, Operations, Ranges, Timeline
from lanescope.trace.trace_spool import Trace
from lanescope.watching.sources.trace import TraceSource
from tests.native.programs import program
from tests.patience import PATIENCE_S
from tests.trace.timelines import copies
from tests.watching.injected import WAITING, environment, needs_injection, read_one

BEGIN = (
    WAITING
    + """
import ctypes, os, signal, sys, threading
from ctypes import c_char_p, c_uint64, c_void_p
cupti = ctypes.CDLL(os.environ["LANESCOPE_CUPTI"])
nvtx = ctypes.CDLL({nvtx!r})
for name in ("nvtx_domain", "nvtx_string"): getattr(nvtx, name).restype = c_void_p
nvtx.nvtx_start.restype = c_uint64
def cuda():
    inject = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
    assert inject.InitializeInjection() == 1
    cupti.mock_thread(threading.get_native_id())
def copy(size): cupti.mock_copies(1, c_uint64(size), 1, 1, 7)
def named(text): return text.encode()
"""
)

Run = Callable[..., Trace]


@pytest.fixture(scope="session")
def mocks() -> tuple[Path, Path]:
    return program("mock_cupti"), program("mock_nvtx")


@pytest.fixture
def run(mocks: tuple[Path, Path], tmp_path: Path) -> Run:
    def run_program(text: str, code: int = 0, **variables: str) -> Trace:
        kinds = {"LANESCOPE_TRACE_KINDS": "copy,memset,call,range", **variables}
        done = subprocess.run(
            [sys.executable, "-c", BEGIN.format(nvtx=str(mocks[1])) + text],
            env=environment(mocks[0], tmp_path, kinds),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (code, "")
        return read_one(tmp_path)

    return run_program


def in_ranges(trace: Trace) -> list[str]:
    opened = OpenRanges(trace.ranges)
    names, code = opened.names, opened.codes(trace.operations)
    return [names[i] for i in code.tolist()]


@needs_injection
def test_each_copy_is_in_the_range_pushed_last(run: Run) -> None:
    trace = run("""
assert nvtx.nvtx_begin() == 1
cuda()
copy(1)
assert nvtx.nvtx_push(b"step") == -2
copy(2)
nvtx.nvtx_push_wide("größer 🚀")
copy(3)
nvtx.nvtx_pop(); copy(4); nvtx.nvtx_pop(); copy(5)
nvtx.nvtx_pop()
""")
    assert trace.operations.bytes.tolist() == [1, 2, 3, 4, 5]
    assert in_ranges(trace) == ["", "step", "größer 🚀", "step", ""]
    assert trace.notes == ()
    assert (trace.ranges.end_ns > trace.ranges.start_ns).all()


@needs_injection
def test_domains_and_registered_strings(run: Run) -> None:
    trace = run("""
cuda()
assert nvtx.nvtx_begin() == 1
domain = c_void_p(nvtx.nvtx_domain(b"data"))
text = c_void_p(nvtx.nvtx_string(domain, b"load"))
assert text.value == nvtx.nvtx_string(domain, b"load")
nvtx.nvtx_push(b"outer")
nvtx.nvtx_push_in(domain, 3, text); copy(1)
nvtx.nvtx_push_in(domain, 1, c_char_p(b"decode")); copy(2); nvtx.nvtx_pop_in(domain)
nvtx.nvtx_pop(); copy(3)  # of the default domain: that of the other is open still
nvtx.nvtx_pop_in(domain)
""")
    assert in_ranges(trace) == ["data:load", "data:decode", "data:load"]


@needs_injection
def test_started_ranges_are_the_process_s_and_stand_back(run: Run) -> None:
    trace = run("""
cuda()
nvtx.nvtx_begin()
first = nvtx.nvtx_start(b"epoch")
second = nvtx.nvtx_start(b"batch")
assert first and first != second
copy(1)
nvtx.nvtx_push(b"mine"); copy(2); nvtx.nvtx_pop()
thread = threading.Thread(target=nvtx.nvtx_end, args=(c_uint64(second),))
thread.start(); thread.join()
copy(3)
nvtx.nvtx_end(c_uint64(first)); copy(4)
""")
    assert in_ranges(trace) == ["batch", "mine", "epoch", ""]


@needs_injection
def test_ranges_of_another_thread_are_not_the_callers(run: Run) -> None:
    trace = run("""
cuda()
nvtx.nvtx_begin()
pushed, copied = threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: (nvtx.nvtx_push(b"other"), pushed.set(), copied.wait()))
thread.start(); pushed.wait(); copy(1); copied.set(); thread.join()
""")
    assert in_ranges(trace) == [""]
    assert trace.ranges.names == ("other",)


@needs_injection
def test_ranges_that_began_before_cuda_count(run: Run) -> None:
    trace = run('nvtx.nvtx_begin(); nvtx.nvtx_push(b"main"); cuda(); copy(1)')
    assert in_ranges(trace) == ["main"]
    assert trace.ranges.end_ns.tolist() == [0]


@needs_injection
def test_a_killed_program_leaves_its_open_ranges(run: Run) -> None:
    trace = run(
        'cuda(); nvtx.nvtx_begin(); nvtx.nvtx_push(b"main"); copy(1); written(); '
        "os.kill(os.getpid(), signal.SIGKILL)",
        code=-signal.SIGKILL,
        LANESCOPE_TRACE_FLUSH_MS="20",
    )
    assert in_ranges(trace) == ["main"]


@needs_injection
def test_kernels_know_their_range_by_their_launch(run: Run) -> None:
    kinds = "copy,kernel,call,range"
    text = "cuda(); cupti.mock_kernel(b'a'); {}; cupti.mock_kernel(b'b')"
    trace = run(
        text.format("nvtx.nvtx_begin(); nvtx.nvtx_push(b'step')"), LANESCOPE_TRACE_KINDS=kinds
    )
    assert in_ranges(trace) == ["", "step"]
    assert trace.operations.thread[0] == -1  # launches cost nothing without NVTX
    assert [trace.operations.names[i] for i in trace.operations.name.tolist()] == ["a", "b"]


@needs_injection
@pytest.mark.parametrize(
    "variables", [{"LANESCOPE_TRACE_KINDS": "copy,call"}, {"LANESCOPE_TRACE_FOLDER": ""}]
)
def test_without_ranges_nvtx_does_nothing(
    mocks: tuple[Path, Path], tmp_path: Path, variables: dict[str, str]
) -> None:
    text = "cuda(); print(nvtx.nvtx_begin(), nvtx.nvtx_push(b'a'), nvtx.nvtx_start(b'b'))"
    done = subprocess.run(
        [sys.executable, "-c", BEGIN.format(nvtx=str(mocks[1])) + text],
        env=environment(mocks[0], tmp_path, variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 -2 0\n", "")


@needs_injection
def test_very_many_ranges_with_names_of_their_own(run: Run) -> None:
    trace = run("""
cuda()
nvtx.nvtx_begin()
for n in range(70_000):
    nvtx.nvtx_push(b"%d" % n); nvtx.nvtx_pop()
nvtx.nvtx_push(b"5"); copy(1)
""")
    assert len(trace.ranges) + trace.process.lost_records // 2 >= 70_000
    assert len(trace.ranges.names) <= (1 << 16) + 1
    assert "(further names)" in trace.ranges.names
    assert in_ranges(trace) == ["5"]


@needs_injection
def test_many_ranges_before_cuda_and_without_flushes(run: Run) -> None:
    trace = run(
        """
nvtx.nvtx_begin()
def many():
    for _ in range(20_000): nvtx.nvtx_push(b"a"); nvtx.nvtx_pop()
many(); cuda(); many(); many()
""",
        LANESCOPE_TRACE_FLUSH_MS="0",
    )
    assert len(trace.ranges) == 60_000
    assert trace.process.lost_records == 0


@needs_injection
def test_children_of_fork_neither_hang_nor_write(run: Run) -> None:
    trace = run("""
nvtx.nvtx_begin()
stop = False
def work():
    while not stop: nvtx.nvtx_push(b"a"); nvtx.nvtx_pop()
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for turn in range(40):
    if turn == 20: cuda()
    if (child := os.fork()) == 0:
        nvtx.nvtx_push(b"child")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop = True
for thread in threads: thread.join()
""")
    assert "child" not in trace.ranges.names
    assert trace.process.complete


@needs_injection
def test_ranges_before_a_fork_do_not_stop_a_child_of_its_own(run: Run) -> None:
    trace = run("""
nvtx.nvtx_begin(); nvtx.nvtx_push(b"parent")
domain = c_void_p(nvtx.nvtx_domain(b"data"))
if (child := os.fork()) == 0:
    nvtx.nvtx_push_in(domain, 1, c_char_p(b"child")); cuda(); copy(1)
else:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
""")
    assert in_ranges(trace) == ["data:child"]
    assert trace.ranges.names == ("data:child",)


@needs_injection
def test_fork_waits_for_a_lock_that_ranges_are_used_under(run: Run) -> None:
    trace = run("""
nvtx.nvtx_lock_at_fork()
nvtx.nvtx_begin()
cuda()
thread = threading.Thread(target=nvtx.nvtx_many_locked, args=(b"a", 300_000))
thread.start()
while thread.is_alive():
    if (child := os.fork()) == 0: os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
""")
    assert len(trace.ranges) == 300_000


@needs_injection
def test_a_handler_of_a_signal_that_uses_ranges_does_not_hang(run: Run) -> None:
    trace = run("""
nvtx.nvtx_begin()
cuda()
nvtx.nvtx_many_interrupted(b"a", 300_000)
""")
    named = [trace.ranges.names[i] for i in trace.ranges.name.tolist()]
    assert named.count("a") == 300_000


@needs_injection
def test_ranges_of_many_threads_at_once_are_in_the_order_of_time(run: Run) -> None:
    trace = run("""
nvtx.nvtx_begin()
cuda()
threads = [threading.Thread(target=nvtx.nvtx_many, args=(b"a", 100_000)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")
    assert trace.process.lost_records == 0
    assert len(trace.ranges) == 800_000
    assert (trace.ranges.end_ns >= trace.ranges.start_ns).all()


@needs_injection
def test_launches_are_traced_though_nvtx_begins_while_a_long_flush_goes_on(run: Run) -> None:
    trace = run(
        "cuda(); until(cupti.mock_flushes_begun); nvtx.nvtx_begin(); nvtx.nvtx_push(b'step'); "
        "until(lambda: cupti.mock_calls_enabled() == 3); cupti.mock_kernel(b'a')",
        LANESCOPE_TRACE_KINDS="copy,kernel,call,range",
        LANESCOPE_TRACE_FLUSH_MS="1",
        MOCK_CUPTI_FLUSH_MS="400",
    )
    assert in_ranges(trace) == ["step"]


def ranges(*rows: tuple[str, int, int, bool], thread: int = 9, pid: int = 7) -> Ranges:
    names, start, end, pushed = zip(*rows, strict=True)
    return Ranges.of(
        names,
        pid=[pid] * len(rows),
        thread=[thread] * len(rows),
        start_ns=start,
        end_ns=end,
        pushed=pushed,
        name=range(len(rows)),
    )


def test_the_innermost_range_is_found_where_they_cross() -> None:
    operations = copies(7, 8, start_ns=1000, every_ns=10, thread=9)
    called = copies(
        7, 8, start_ns=1000, every_ns=10, thread=9, call_start_ns=1
    )  # all within one call
    found = ranges(("a", 5, 1035, True), ("b", 1015, 1055, True), ("c", 1020, 1030, False))
    at = np.arange(1000, 1070, 10)
    moved = operations.of(
        **{k: getattr(operations, k) for k in ("pid", "start_ns", "end_ns", "bytes", "thread")},
        call_start_ns=at,
        call_end_ns=at + 1,
    )
    assert OpenRanges(found).rows(moved).tolist() == [0, 0, 1, 1, 1, 1, -1]
    assert OpenRanges(found).rows(called).tolist() == [-1] * 7  # the call came before all of them
    # without a call nobody's pushed range is known, but one of the process is
    assert OpenRanges(found).rows(operations).tolist() == [-1, -1, 2, -1, -1, -1, -1]
    assert OpenRanges(ranges(("a", 5, 2000, True), pid=8)).rows(moved).tolist() == [-1] * 7


def test_shares_by_range_add_up_ranges_of_one_name() -> None:
    first, second = ("load", 0, 150, False), ("load", 200, 350, False)
    moved = copies(4, 100, start_ns=100, every_ns=100)
    shares = attribution(moved, (), ranges(first, second))
    told = {s.name: (s.count, s.total_bytes, s.share) for s in shares if s.by == "range"}
    assert told == {"load": (3, 300, 0.75), NO_RANGE: (1, 100, 0.25)}
    assert not [s for s in attribution(moved, ()) if s.by == "range"]


def test_ranges_are_stored_and_read_back(tmp_path: Path) -> None:
    told = ranges(("a", 5, 10, True), ("b", 6, 0, False))
    write_columns(tmp_path, Timeline(0, 1, ranges=told))
    again = read_columns(tmp_path, 0, 1).ranges
    assert again.names == ("a", "b")
    assert (again.end_ns.tolist(), again.pushed.tolist()) == ([10, 0], [True, False])


def test_another_tool_s_nvtx_is_left_alone(tmp_path: Path) -> None:
    library = tmp_path / "libcupti.so"
    library.touch()
    around = {"NVTX_INJECTION64_PATH": "/opt/other.so", "LANESCOPE_CUPTI": str(library)}
    source = TraceSource(tmp_path, environment=around)
    assert "NVTX_INJECTION64_PATH" not in source.environment()
    (tmp_path / "trace.1.bin").write_bytes(
        b'{"source": "trace", "version": 1, "pid": 1, "command": [], "start_ns": 0}\n'
    )
    assert "/opt/other.so" in (source.stop().reason or "")


def test_ranges_are_gone_through_once_however_long_the_watch_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    steps = module._steps

    def counted(start_ns: np.ndarray, end_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        made.append(len(start_ns))
        return steps(start_ns, end_ns)

    monkeypatch.setattr(module, "_steps", counted)
    monkeypatch.setattr(Operations.pieces, "__defaults__", (10,))
    moved = copies(95, 100, every_ns=1000, lasts_ns=10)
    pushed = ("step", 0, int(moved.end_ns[-1]) + 1, False)
    shares = attribution(moved, (), ranges(pushed, pid=7))
    assert [(s.name, s.count) for s in shares if s.by == "range"] == [("step", 95)]
    assert made == [1]
