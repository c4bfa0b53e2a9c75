"""The library that records calls, in programs beside a driver for tests and no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lanescope.errors import NotMeasuredError
from lanescope.machine import Machine
from lanescope.trace.call_ring import CallRing
from lanescope.trace.call_spool import RingSpool, recover
from lanescope.trace.ring_folder import RINGS
from lanescope.trace.spool import read_spools
from lanescope.trace.spool_room import SpoolRoom
from lanescope.trace.timeline import CALL_TIMES, MemoryKind
from lanescope.trace.trace_spool import Trace, read_trace_spool
from lanescope.watching.sources import injection
from lanescope.watching.sources.base import SourceReport
from lanescope.watching.sources.calls import CallsSource, calls_library
from tests.native.programs import program
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.skipif(calls_library() is None, reason="needs an installed lanescope")

# What a test program begins with: the driver for tests says by addresses what is whose memory.
BEGIN = """
import ctypes, os, signal, sys, threading
cuda = ctypes.CDLL(os.environ["MOCK_CUDA"])
GPU0, GPU1 = 1 << 46, (1 << 46) + (1 << 40)
U64, P, SIZE = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
host = ctypes.create_string_buffer(1 << 20)
at = ctypes.addressof(host)
def found(name, version=12000, flags=0):
    function = P()
    cuda.cuGetProcAddress_v2(name.encode(), ctypes.byref(function), version, U64(flags), None)
    return ctypes.CFUNCTYPE(ctypes.c_int, U64, U64, SIZE, P)(function.value)
def to_gpu(size, gpu=GPU0, times=1):
    for _ in range(times):
        assert cuda.cuMemcpyHtoD_v2(U64(gpu), P(at), SIZE(size)) == 0
"""

Ended = tuple["subprocess.CompletedProcess[str]", SourceReport]
Run = Callable[..., Ended]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CallsSource:
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    return CallsSource(tmp_path)


def environment_of(source: CallsSource) -> dict[str, str]:
    return {**os.environ, **source.environment(), "MOCK_CUDA": str(program("mock_cuda"))}


@pytest.fixture
def run(source: CallsSource, tmp_path: Path) -> Run:
    def run_program(text: str) -> Ended:
        source.start()
        done = subprocess.run(
            [sys.executable, "-c", BEGIN + text],
            env=environment_of(source),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        report = source.stop()
        assert not (tmp_path / RINGS).exists()
        assert not done.stderr, done.stderr
        return done, report

    return run_program


def read_one(folder: Path) -> Trace:
    (path,) = folder.glob("trace.*.bin")
    return read_trace_spool(path)


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


def test_a_copy_that_fails_is_none(run: Run, tmp_path: Path) -> None:
    run("cuda.mock_fail(1)\nassert cuda.cuMemcpyHtoD_v2(U64(GPU0), P(at), SIZE(1)) == 1")
    assert not list(tmp_path.glob("trace.*.bin"))


def test_captured_copies_are_told_by_launches(run: Run, tmp_path: Path) -> None:
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


def stop_reading(source: CallsSource) -> None:
    assert source._reader is not None
    source._reader.stop()


def test_what_is_overwritten_is_counted_as_lost(source: CallsSource, tmp_path: Path) -> None:
    """The ring holds 32,768 records; nobody reads it while 40,000 are made."""
    source.start()
    stop_reading(source)
    command = [sys.executable, "-c", BEGIN + "to_gpu(8, times=40000)"]
    subprocess.run(command, env=environment_of(source), check=True, timeout=PATIENCE_S)
    (path,) = (tmp_path / RINGS).resolve().glob("calls.*.ring")
    spool = tmp_path / "trace.1.calls.bin"
    RingSpool(CallRing(path), spool, SpoolRoom(tmp_path)).read(last=True)
    trace = read_trace_spool(spool)
    assert len(trace.operations) == 32768
    assert trace.process.lost_records == 40000 - 32768
    recover(tmp_path)


def test_after_a_kill_of_lanescope_rings_are_read_once(source: CallsSource, tmp_path: Path) -> None:
    source.start()
    begun_ns = time.time_ns()
    text = "to_gpu(5, times=50)\nprint(flush=True)\ninput()\nto_gpu(6)"
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + text],
        env=environment_of(source),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as talking:
        assert talking.stdout is not None
        talking.stdout.readline()
        (ring,) = (tmp_path / RINGS).resolve().glob("calls.*.ring")
        spool = tmp_path / f"trace.{talking.pid}.calls.bin"
        RingSpool(CallRing(ring), spool, SpoolRoom(tmp_path)).read()
        stop_reading(source)  # it never saw this process, or appends nothing more than its end
        talking.communicate(b"\n", timeout=PATIENCE_S)
    recover(tmp_path)
    assert read_trace_spool(spool).operations.bytes.tolist() == [5] * 50 + [6]
    assert not ring.exists()
    recover(tmp_path)  # does nothing
    assert len(read_spools(tmp_path, Machine(name="m"), begun_ns, None).operations) == 51


def test_foreign_folders_are_not_emptied(tmp_path: Path) -> None:
    precious, run = tmp_path / "precious", tmp_path / "run"
    precious.mkdir()
    run.mkdir()
    (precious / "calls.1.ring").write_text("mine")
    (run / RINGS).symlink_to(precious)
    recover(run)
    assert (precious / "calls.1.ring").read_text() == "mine"


def test_a_run_of_somebody_else_reaches_no_rings_of_a_watch(
    source: CallsSource, tmp_path: Path
) -> None:
    source.start()
    rings = (tmp_path / RINGS).resolve()
    stolen = tmp_path / "stolen"
    stolen.mkdir()
    (stolen / RINGS).symlink_to(rings)
    recover(stolen)
    assert rings.exists()
    source.stop()
    assert not rings.exists()


def test_a_spool_that_is_a_link_is_not_written(source: CallsSource, tmp_path: Path) -> None:
    source.start()
    text = """
spool = os.environ["SPOOLS"] + f"/trace.{os.getpid()}.calls.bin"
os.symlink(os.environ["MINE"], spool)
to_gpu(5)
"""
    (tmp_path / "mine").touch()
    variables = {"MINE": str(tmp_path / "mine"), "SPOOLS": str(tmp_path)}
    command = [sys.executable, "-c", BEGIN + text]
    subprocess.run(command, env=environment_of(source) | variables, check=True, timeout=PATIENCE_S)
    source.stop()
    assert (tmp_path / "mine").read_bytes() == b""


def test_full_spools_leave_copies_out_and_say_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "limits").write_text("3000 0 0\n")
    run("to_gpu(8, times=1000)")
    trace = read_one(tmp_path)
    assert trace.process.left_out + len(trace.operations) == 1000
    assert trace.process.left_out > 900


def test_what_was_to_be_preloaded_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    source = CallsSource(tmp_path, {"LD_PRELOAD": "/opt/libother.so"})
    source.start()
    assert source.environment()["LD_PRELOAD"] == f"{calls_library()}:/opt/libother.so"
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
    assert environment["LD_PRELOAD"] == str(calls_library())
    command = [sys.executable, "-c", BEGIN + "to_gpu(5, times=3)"]
    subprocess.run(command, env=environment, check=True, timeout=PATIENCE_S)
    inner.stop()
    source.stop()
    for folder in (tmp_path, tmp_path / "inner"):
        assert read_one(folder).operations.bytes.tolist() == [5, 5, 5]


def test_a_program_with_address_sanitizer_runs(source: CallsSource, tmp_path: Path) -> None:
    """Its runtime wants to be the first library, unless it is told otherwise."""
    (tmp_path / "hi.cpp").write_text('#include <cstdio>\nint main() { std::puts("hi"); }\n')
    command = [os.environ.get("CXX", "g++"), "-fsanitize=address", "hi.cpp", "-o", "hi"]
    if subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("no AddressSanitizer")
    source.start()
    done = subprocess.run(
        [tmp_path / "hi"], env=environment_of(source), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")
    source.stop()


def test_a_program_that_may_write_no_large_files_goes_on(run: Run, tmp_path: Path) -> None:
    done, _ = run(
        """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
to_gpu(5)
print("mine")
"""
    )
    assert (done.returncode, done.stdout) == (0, "mine\n")
    assert not list(tmp_path.glob("trace.*.bin"))


def test_a_copy_that_cannot_be_recorded_changes_no_errno(run: Run) -> None:
    done, _ = run(
        """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
copy = ctypes.CFUNCTYPE(ctypes.c_int, U64, P, SIZE, use_errno=True)(
    ctypes.cast(cuda.cuMemcpyHtoD_v2, P).value
)
ctypes.set_errno(77)
print(copy(GPU0, at, 5), ctypes.get_errno())
"""
    )
    assert done.stdout == "0 77\n"


def test_rings_of_processes_that_have_ended_are_removed(
    source: CallsSource, tmp_path: Path
) -> None:
    source.start()
    command = [sys.executable, "-c", BEGIN + "to_gpu(5)"]
    for _ in range(3):
        subprocess.run(command, env=environment_of(source), check=True, timeout=PATIENCE_S)
    rings = (tmp_path / RINGS).resolve()
    until(lambda: not list(rings.glob("calls.*.ring")))
    traces = [read_trace_spool(path) for path in tmp_path.glob("trace.*.bin")]
    assert [trace.operations.bytes.tolist() for trace in traces] == [[5]] * 3
    assert all(trace.process.complete for trace in traces)
    assert source.stop().reason is None


def test_a_ring_that_is_none_harms_no_other(source: CallsSource, tmp_path: Path) -> None:
    source.start()
    rings = (tmp_path / RINGS).resolve()
    (rings / "calls.1.ring").write_bytes(bytes(8192))  # not begun yet, for ever
    (rings / "calls.2.ring").write_bytes(os.urandom(1 << 20))
    (rings / "calls.3.ring").mkdir()
    (rings / "calls.4.ring").symlink_to("/dev/zero")
    command = [sys.executable, "-c", BEGIN + "to_gpu(5)"]
    subprocess.run(command, env=environment_of(source), check=True, timeout=PATIENCE_S)
    (rings / "calls.3.ring").rmdir()
    report = source.stop()
    assert "Copies of a process cannot be read" in (report.reason or "")
    assert read_one(tmp_path).operations.bytes.tolist() == [5]


SHIM = """
#include <dlfcn.h>
#include <cstddef>
#include <cstdlib>
using Copy = int (*)(unsigned long long, const void*, std::size_t);
static Copy driver = reinterpret_cast<Copy>(
    dlsym(dlopen(std::getenv("MOCK_CUDA"), RTLD_NOW), "cuMemcpyHtoD_v2"));
static int calls = 0;
extern "C" int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
  ++calls;
  return driver(to, from, bytes);
}
extern "C" int shim_calls() { return calls; }
"""


def test_what_others_put_before_the_driver_stays_there(run: Run, tmp_path: Path) -> None:
    """Libraries that share a GPU do so; each copy is recorded once."""
    (tmp_path / "shim.cpp").write_text(SHIM)
    compiler = os.environ.get("CXX", "g++")
    options = ["-shared", "-fPIC", "-Wl,-Bsymbolic", "shim.cpp", "-o", "libshim.so", "-ldl"]
    subprocess.run([compiler, *options], cwd=tmp_path, check=True)
    done, _ = run(
        f"""
shim = ctypes.CDLL({str(tmp_path / "libshim.so")!r})
for size in range(1, 6):
    assert shim.cuMemcpyHtoD_v2(U64(GPU0), P(at), SIZE(size)) == 0
print(shim.shim_calls())
"""
    )
    assert done.stdout == "5\n"
    assert read_one(tmp_path).operations.bytes.tolist() == [1, 2, 3, 4, 5]


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


def test_programs_of_another_c_library_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = b"/lib/ld-musl-x86_64.so.1\0"
    header = b"\x7fELF\x02" + bytes(27) + (64).to_bytes(8, "little") + bytes(14)
    header += (56).to_bytes(2, "little") + (1).to_bytes(2, "little")
    segment = (3).to_bytes(8, "little") + (200).to_bytes(8, "little") + bytes(16)
    segment += len(name).to_bytes(8, "little")
    program = tmp_path / "program"
    program.write_bytes((header.ljust(64, b"\0") + segment).ljust(200, b"\0") + name)
    program.chmod(0o755)
    assert injection.interpreter_of([str(program)]) == "ld-musl-x86_64.so.1"
    assert injection.interpreter_of([sys.executable]).startswith("ld-linux")
    assert injection.interpreter_of(["/bin/no-such-program"]) == ""
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    with pytest.raises(NotMeasuredError, match="has musl for its C library"):
        CallsSource(tmp_path, program=[str(program)]).start()
