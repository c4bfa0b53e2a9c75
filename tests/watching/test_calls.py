"""The library that records calls, in programs beside a driver for tests and no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import CALL_TIMES, MemoryKind, Timeline
from lanescope.trace.trace_spool import Trace, read_trace_spool
from lanescope.watching.sources import injection
from lanescope.watching.sources.calls import CallsSource, calls_library
from tests.native.programs import program
from tests.patience import PATIENCE_S
from tests.watching import recording
from tests.watching.recording import BEGIN, Run, environment_of, needs_calls, read_one

pytestmark = needs_calls
source, run = recording.source, recording.run  # fixtures


def test_every_copy_is_recorded_with_its_bytes_and_places(run: Run, tmp_path: Path) -> None:
    done, _ = run(
        """
cuda.mock_pinned(U64(at), U64(4096), 0)
to_gpu(100)
to_gpu(7, GPU1)
cuda.cuMemcpyDtoHAsync_v2(P(at + 8192), U64(GPU1), SIZE(5), P(3))
cuda.cuMemcpyPeerAsync(U64(GPU0), None, U64(GPU1), None, SIZE(9), P(4))
print("mine")
sys.exit(3)
"""
    )
    assert (done.returncode, done.stdout) == (3, "mine\n")
    trace = read_one(tmp_path)
    ops = trace.operations
    assert ops.bytes.tolist() == [100, 7, 5, 9]
    pageable, pinned, device = MemoryKind.PAGEABLE, MemoryKind.PINNED, MemoryKind.DEVICE
    assert ops.source_kind.tolist() == [pinned, pinned, device, device]
    assert ops.destination_kind.tolist() == [device, device, pageable, device]
    assert ops.source_device.tolist() == [-1, -1, 1, 1]
    assert ops.destination_device.tolist() == [0, 1, -1, 0]
    assert ops.device.tolist() == [0, 1, 1, 0]
    assert ops.asynchronous.tolist() == [False, False, True, True]
    assert ops.stream.tolist() == [0, 0, 103, 104]
    names = [ops.names[number] for number in ops.name.tolist()]
    assert names == ["cuMemcpyHtoD", "cuMemcpyHtoD", "cuMemcpyDtoHAsync", "cuMemcpyPeerAsync"]
    assert (ops.call_end_ns >= ops.call_start_ns).all()
    waits = [True, True, True, False]  # what is pageable is copied within the call
    assert ((ops.end_ns == ops.call_end_ns) & (ops.start_ns == ops.call_start_ns))[waits].all()
    assert ops.end_ns[3] == ops.start_ns[3]
    process = trace.process
    assert process.timed_by == CALL_TIMES
    assert process.complete
    assert process.lost_records == 0
    assert process.start_ns - 10**8 <= int(ops.start_ns[0]) <= (process.end_ns or 0)
    assert dict(trace.gpus) == {0: "0000:C1:00.0", 1: "0000:0A:00.0"}


def test_what_is_looked_up_by_version_is_recorded_too(run: Run, tmp_path: Path) -> None:
    run(
        """
found("cuMemcpyHtoDAsync")(GPU0, at, 10, 7)
found("cuMemcpyDtoHAsync", flags=2)(at, GPU0, 20, None)
find, copy = P(), P()
cuda.cuGetProcAddress_v2(b"cuGetProcAddress", ctypes.byref(find), 12000, U64(0), None)
again = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, P, ctypes.c_int, U64, P)(find.value)
three = ctypes.CFUNCTYPE(ctypes.c_int, U64, U64, SIZE)
assert again(b"cuMemcpyHtoD", ctypes.addressof(copy), 12000, 0, None) == 0
three(copy.value)(GPU0, at, 30)
assert again(b"cuMemcpyHtoD", ctypes.addressof(copy), 3000, 0, None) == 0  # has other arguments
three(copy.value)(GPU0, at, 40)
"""
    )
    ops = read_one(tmp_path).operations
    assert ops.bytes.tolist() == [10, 20, 30]
    assert ops.stream.tolist() == [107, 0, 0]


@pytest.mark.parametrize("version", [12080, 13000])
@pytest.mark.parametrize("by_name", [False, True])
def test_a_batch_is_as_many_copies(run: Run, tmp_path: Path, version: int, by_name: bool) -> None:
    run(
        f"""
version, by_name = {version}, {by_name}
"""
        """
def three(kind, *values):
    return (kind * 3)(*values)
kinds = [P, P, P, SIZE, P, P, SIZE] + ([P] if version < 13000 else []) + [P]
if by_name:
    batch = cuda["cuMemcpyBatchAsync" if version < 13000 else "cuMemcpyBatchAsync_v2"]
    batch.argtypes = kinds
else:
    function = P()
    cuda.cuGetProcAddress_v2(b"cuMemcpyBatchAsync", ctypes.byref(function), version, U64(0), None)
    batch = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(function.value)
to, of = three(U64, GPU0, GPU1, at), three(U64, at, at + 4096, GPU1)
failed = [None] if version < 13000 else []
assert batch(to, of, three(SIZE, 10, 20, 30), 3, None, None, 0, *failed, P(7)) == 0
cuda.mock_fail(1)
assert batch(to, of, three(SIZE, 10, 20, 30), 3, None, None, 0, *failed, P(7)) == 1
"""
    )
    ops = read_one(tmp_path).operations
    assert ops.bytes.tolist() == [10, 20, 30]
    assert ops.source_device.tolist() == [-1, -1, 1]
    assert ops.destination_device.tolist() == [0, 1, -1]
    assert ops.stream.tolist() == [107] * 3
    assert {ops.names[number] for number in ops.name.tolist()} == {"cuMemcpyBatchAsync"}
    # each has its part of the call
    assert (ops.call_end_ns[:-1] <= ops.call_start_ns[1:] + 1).all()


def test_a_copy_that_fails_is_none(run: Run, tmp_path: Path) -> None:
    run("cuda.mock_fail(1)\nassert cuda.cuMemcpyHtoD_v2(U64(GPU0), P(at), SIZE(1)) == 1")
    assert not list(tmp_path.glob("trace.*.bin"))


def test_copies_in_graphs_are_reported_as_launches(run: Run, tmp_path: Path) -> None:
    run(
        """
to_gpu(1)
cuda.cuStreamBeginCapture_v2(P(1), 0)
cuda.cuMemcpyHtoDAsync_v2(U64(GPU0), P(at), SIZE(2), P(1))
cuda.cuStreamEndCapture(P(1), None)
cuda.cuMemcpyHtoDAsync_v2(U64(GPU0), P(at), SIZE(3), P(1))
for _ in range(4): cuda.cuGraphLaunch(None, None)
"""
    )
    trace = read_one(tmp_path)
    assert trace.operations.bytes.tolist() == [1, 3]
    assert trace.notes == (
        "4 launches of CUDA graphs: copies in graphs are in no call and so not recorded; "
        "--trace always traces them.",
    )


def test_a_killed_program_loses_nothing(run: Run, tmp_path: Path) -> None:
    done, _ = run("to_gpu(8, times=1000)\nos.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == -9
    assert len(read_one(tmp_path).operations) == 1000


def test_threads_record_at_once(run: Run, tmp_path: Path) -> None:
    run(
        """
start = threading.Barrier(256)
def copy(size):
    start.wait()
    to_gpu(size, GPU0, 20)
threads = [threading.Thread(target=copy, args=(size,)) for size in range(1, 257)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    )
    trace = read_one(tmp_path)
    sizes, counts = np.unique(trace.operations.bytes, return_counts=True)
    assert sizes.tolist() == list(range(1, 257))
    assert set(counts.tolist()) == {20}
    assert len(set(trace.operations.thread.tolist())) == 256
    assert trace.process.lost_records == 0
    shares = copies_by_thread(trace)
    assert len(shares) == 256
    assert sorted(shares.values()) == [20 * size for size in range(1, 257)]


def copies_by_thread(trace: Trace) -> dict[str, int]:
    """What a summary says of each thread: the bytes of its copies."""
    ends = (trace.process.start_ns, trace.process.end_ns or 0)
    timeline = Timeline(*ends, operations=trace.operations, processes=(trace.process,))
    return {one.name: one.total_bytes for one in summarise(timeline).shares_by("thread")}


def test_children_have_rings_of_their_own(run: Run, tmp_path: Path) -> None:
    run(
        """
child = os.fork()
to_gpu(10 if child else 20)
if child: os.waitpid(child, 0)
"""
    )
    traces = [read_trace_spool(path) for path in tmp_path.glob("*.bin")]
    assert {tuple(trace.operations.bytes.tolist()) for trace in traces} == {(10,), (20,)}


def test_a_child_of_a_process_that_copies_leaves_its_ring_alone(run: Run, tmp_path: Path) -> None:
    run(
        """
to_gpu(10)
child = os.fork()
if not child:
    to_gpu(20)
    os._exit(0)
os.waitpid(child, 0)
to_gpu(30)
"""
    )
    assert read_one(tmp_path).operations.bytes.tolist() == [10, 30]


def test_programs_without_cuda_are_reported(run: Run) -> None:
    done, report = run("print(1)")
    assert done.stdout == "1\n"
    assert "No process of the program copied" in (report.reason or "")


def test_other_lookups_go_to_the_c_library(run: Run) -> None:
    """RTLD_NEXT and RTLD_DEFAULT answer by who calls, which the library must not change."""
    done, _ = run(
        """
libc = ctypes.CDLL(None)
libc.dlsym.restype = P
libc.dlsym.argtypes = [P, ctypes.c_char_p]
assert libc.dlsym(None, b"getpid") and not libc.dlsym(None, b"no_such_function")
assert not libc.dlsym(None, b"cuNoSuchFunction")
print("fine")
"""
    )
    assert done.stdout == "fine\n"


def test_launches_events_and_waits_are_the_drivers_own(run: Run) -> None:
    """So a loop that only launches and waits costs as much as unwatched."""
    done, _ = run(
        """
class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", P), ("symbol", ctypes.c_char_p), ("at", P)]
libc = ctypes.CDLL(None)
libc.dladdr.argtypes = [P, P]
libc.dlsym.restype, libc.dlsym.argtypes = P, [P, ctypes.c_char_p]
def is_own(address):
    info = Info()
    assert libc.dladdr(address, ctypes.byref(info))
    return os.path.samefile(info.file, os.environ["MOCK_CUDA"])
def by_version(name):
    function = P()
    cuda.cuGetProcAddress_v2(name.encode(), ctypes.byref(function), 12000, U64(0), None)
    return function.value
for name in ("cuLaunchKernel", "cuEventRecord", "cuStreamSynchronize"):
    assert is_own(by_version(name)) and is_own(libc.dlsym(cuda._handle, name.encode())), name
assert not is_own(by_version("cuMemcpyHtoDAsync"))
assert not is_own(libc.dlsym(cuda._handle, b"cuMemcpyHtoD_v2"))
print("fine")
"""
    )
    assert done.stdout == "fine\n", done.stderr


def test_what_was_to_be_preloaded_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    source = CallsSource(tmp_path, {"LD_PRELOAD": "/opt/libother.so"})
    source.start()
    first, other = source.environment()["LD_PRELOAD"].split(":")
    assert first.endswith(f"/..{calls_library()}")
    assert other == "/opt/libother.so"
    source.stop()


def test_the_first_use_of_cuda_waits_for_counters(source: CallsSource, tmp_path: Path) -> None:
    source.start()
    ready = tmp_path / "ready"
    text = "print(1, flush=True)\ncuda.cuGetProcAddress_v2\nprint(2, flush=True)\n"
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + text],
        env={**environment_of(source), "LANESCOPE_READY": str(ready)},
        stdout=subprocess.PIPE,
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == b"1\n"
        os.set_blocking(waiting.stdout.fileno(), False)
        time.sleep(0.2)
        assert waiting.stdout.read() is None
        ready.touch()
        os.set_blocking(waiting.stdout.fileno(), True)
        assert waiting.stdout.readline() == b"2\n"
    source.stop()


def test_it_waits_for_no_watch_that_is_over(source: CallsSource, tmp_path: Path) -> None:
    source.start()
    begun = time.monotonic()
    subprocess.run(
        [sys.executable, "-c", BEGIN + "cuda.cuGetProcAddress_v2"],
        env={**environment_of(source), "LANESCOPE_READY": str(tmp_path / "gone" / "ready")},
        check=True,
        timeout=PATIENCE_S,
    )
    assert time.monotonic() - begun < 5  # so long it would wait
    source.stop()


def test_a_watch_within_a_watch(source: CallsSource, tmp_path: Path) -> None:
    source.start()
    (tmp_path / "inner").mkdir()
    outer = {**os.environ, **source.environment()}
    inner = CallsSource(tmp_path / "inner", outer)
    inner.start()
    environment = {**outer, **inner.environment(), "MOCK_CUDA": str(program("mock_cuda"))}
    assert environment["LD_PRELOAD"] == outer["LD_PRELOAD"]
    command = [sys.executable, "-c", BEGIN + "to_gpu(5, times=3)"]
    subprocess.run(command, env=environment, check=True, timeout=PATIENCE_S)
    inner.stop()
    source.stop()
    for folder in (tmp_path, tmp_path / "inner"):
        assert read_one(folder).operations.bytes.tolist() == [5, 5, 5]


def test_memory_that_is_pinned_later_is_known_at_once(run: Run, tmp_path: Path) -> None:
    run(
        """
to_gpu(5, times=2)
cuda.mock_pinned(U64(at), U64(4096), 0)
cuda.cuMemHostRegister_v2(P(at), SIZE(4096), 0)
to_gpu(5)
"""
    )
    kinds = read_one(tmp_path).operations.source_kind.tolist()
    assert kinds == [MemoryKind.PAGEABLE, MemoryKind.PAGEABLE, MemoryKind.PINNED]


def test_the_driver_is_seldom_queried_where_memory_lies(run: Run, tmp_path: Path) -> None:
    done, _ = run(
        """
pages = [at + 4096 * i for i in range(64)]
for _ in range(50):
    for i, page in enumerate(pages):
        cuda.cuMemcpyHtoD_v2(U64(GPU0 + 4096 * i), P(page), SIZE(8))
print(cuda.mock_lookups())
"""
    )
    assert len(read_one(tmp_path).operations) == 3200
    assert int(done.stdout) < 150  # a look-up for each page of the host, one for the GPU's memory


def test_two_streams_in_turn_are_looked_up_once_each(run: Run, tmp_path: Path) -> None:
    done, _ = run(
        """
for i in range(100):
    cuda.cuMemcpyHtoDAsync_v2(U64(GPU0), P(at), SIZE(8), P(i % 2 * 5))
print(cuda.mock_stream_lookups())
"""
    )
    assert read_one(tmp_path).operations.stream.tolist() == [0, 105] * 50
    assert int(done.stdout) == 1
