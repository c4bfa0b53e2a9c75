"""Programs on a real GPU, traced by the library that the driver loads."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lanescope._core import native
from lanescope.findings.trace.links import sent_again
from lanescope.trace.side_tables import ManagedKind, with_addresses
from lanescope.trace.timeline import DirectionCode, MemoryKind, OpenRanges, OperationCode
from lanescope.trace.trace_spool import Trace, read_trace_spool
from lanescope.watching.launcher import launch
from lanescope.watching.sources.trace import TraceSource
from tests.patience import PATIENCE_S

# The driver's interface as a program has it, without anything of lanescope.
CUDA = """
import ctypes, os, signal, sys, threading, time
from ctypes import c_int, c_size_t, c_uint, c_uint64, c_void_p, byref
cuda = ctypes.CDLL("libcuda.so.1")
def check(code):
    if code: raise SystemExit(f"CUDA error {code}")
def call(name, *arguments): check(getattr(cuda, name)(*arguments))
SIZE = 16 << 20
device, context, stream = c_int(), c_void_p(), c_void_p()
target, other, pinned = c_uint64(), c_uint64(), c_void_p()
call("cuInit", 0)
call("cuDeviceGet", byref(device), 0)
call("cuDevicePrimaryCtxRetain", byref(context), device)
call("cuCtxSetCurrent", context)
call("cuStreamCreate", byref(stream), 1)
call("cuMemAlloc_v2", byref(target), c_size_t(SIZE))
call("cuMemAlloc_v2", byref(other), c_size_t(SIZE))
call("cuMemHostAlloc", byref(pinned), c_size_t(SIZE), 0)
pageable = ctypes.create_string_buffer(SIZE)
def to_gpu(size): call("cuMemcpyHtoDAsync_v2", target, pinned, c_size_t(size), stream)
def to_host(size): call("cuMemcpyDtoHAsync_v2", pinned, target, c_size_t(size), stream)
def wait(): call("cuCtxSynchronize")
"""


def _has_gpu() -> bool:
    try:
        return len(native.cuda_devices()) > 0
    except native.NativeError:
        return False


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not _has_gpu(), reason="no GPU CUDA can use")]


@pytest.fixture(autouse=True)
def can_trace(tmp_path: Path) -> None:
    available = TraceSource(tmp_path).available()
    if not available.ok:
        pytest.skip(available.reason or "")


def run(folder: Path, text: str, **options: object) -> subprocess.CompletedProcess[str]:
    source = TraceSource(folder, **options)  # type: ignore[arg-type]
    source.start()
    return subprocess.run(
        [sys.executable, "-c", CUDA + text],
        env={**os.environ, **source.environment()},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def read_one(folder: Path) -> Trace:
    (path,) = folder.glob("trace.*.bin")
    return read_trace_spool(path)


def test_every_copy_is_there_with_bytes_kinds_flag_and_thread(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
for size in (1, 4097, SIZE): to_gpu(size)
for size in (1, 4097, SIZE): to_host(size)
wait()
call("cuMemcpyHtoD_v2", target, pageable, c_size_t(3 << 20))
call("cuMemcpyDtoH_v2", pageable, target, c_size_t(5))
call("cuMemcpyDtoD_v2", other, target, c_size_t(1 << 20))
call("cuMemsetD8_v2", target, 7, c_size_t(77))
wait()
print(threading.get_native_id())
sys.exit(3)
""",
    )
    assert (done.returncode, done.stderr) == (3, "")
    trace = read_one(tmp_path)
    assert trace.notes == ()
    assert trace.process.complete
    assert (trace.process.lost_records, trace.unfinished) == (0, 0)
    ops = trace.operations
    copies = ops.rows(ops.is_copy)
    seen = zip(copies.bytes.tolist(), copies.direction.tolist(), copies.asynchronous, strict=True)
    sizes = (1, 4097, 16 << 20)
    pinned = [
        (s, direction, True) for direction in (DirectionCode.H2D, DirectionCode.D2H) for s in sizes
    ]
    blocking = [(3 << 20, DirectionCode.H2D, False), (5, DirectionCode.D2H, False)]
    inside = [(1 << 20, DirectionCode.D2D)]
    found = [(size, DirectionCode(direction), bool(flag)) for size, direction, flag in seen]
    assert found[:8] == pinned + blocking
    assert [(size, direction) for size, direction, _ in found[8:]] == inside
    memory = [MemoryKind.PINNED] * 6 + [MemoryKind.PAGEABLE] * 2 + [MemoryKind.UNKNOWN]
    assert copies.host_memory.tolist() == memory
    assert ops.bytes[ops.what == OperationCode.MEMSET].tolist() == [77]
    assert set(copies.thread.tolist()) == {int(done.stdout)}
    assert (copies.call_start_ns <= copies.start_ns).all()
    assert (copies.end_ns >= copies.start_ns).all()


def test_ten_thousand_copies_all_arrive(tmp_path: Path) -> None:
    done = run(tmp_path, "for n in range(10_000): to_gpu(1 + n)\nwait()")
    assert (done.returncode, done.stderr) == (0, "")
    ops = read_one(tmp_path).operations
    assert np.array_equal(np.sort(ops.bytes), np.arange(1, 10_001))
    assert (ops.thread > 0).all()


def test_without_calls_copies_arrive_all_the_same(tmp_path: Path) -> None:
    run(tmp_path, "for _ in range(100): to_gpu(9)\nwait()", kinds=("copy",))
    ops = read_one(tmp_path).operations
    assert ops.bytes.tolist() == [9] * 100
    assert set(ops.thread.tolist()) == {-1}


def test_a_killed_program_leaves_its_copies(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "for _ in range(500): to_gpu(64)\nwait()\ntime.sleep(.6)\nos.kill(os.getpid(), 9)",
    )
    assert done.returncode == -signal.SIGKILL
    trace = read_one(tmp_path)
    assert trace.operations.bytes.tolist() == [64] * 500
    assert not trace.process.complete


def test_a_forked_child_does_no_harm(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        # newer versions of Python warn of forks where there are threads, such as CUPTI's
        """
import warnings
warnings.simplefilter("ignore")
to_gpu(8)
wait()
for way in (sys.exit, os._exit):
    child = os.fork()
    if child == 0: way(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
to_gpu(9)
wait()
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    trace = read_one(tmp_path)
    assert trace.operations.bytes.tolist() == [8, 9]
    assert trace.process.complete


def test_several_processes_have_a_spool_each(tmp_path: Path) -> None:
    source = TraceSource(tmp_path)
    around = {**os.environ, **source.environment()}
    command = [sys.executable, "-c", CUDA + "to_gpu(10)\nwait()"]
    for program in [subprocess.Popen(command, env=around) for _ in range(4)]:
        assert program.wait(120) == 0
    traces = [read_trace_spool(path) for path in tmp_path.glob("trace.*.bin")]
    assert [trace.operations.bytes.tolist() for trace in traces] == [[10]] * 4
    assert source.stop().reason is None


def test_migrations_of_managed_memory(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
managed = c_uint64()
call("cuMemAllocManaged", byref(managed), c_size_t(SIZE), 1)
time.sleep(.3)
ctypes.memset(managed.value, 1, SIZE)
call("cuMemsetD8_v2", managed, 2, c_size_t(SIZE))
wait()
ctypes.string_at(managed.value, SIZE)
time.sleep(.3)
""",
        kinds=("migration",),
    )
    assert (done.returncode, done.stderr) == (0, "")
    trace = read_one(tmp_path)
    if trace.notes:
        pytest.skip(trace.notes[0])
    ops = trace.operations
    assert set(ops.what.tolist()) == {OperationCode.MIGRATION}
    for direction in (DirectionCode.H2D, DirectionCode.D2H):
        assert int(ops.bytes[ops.direction == direction].sum()) >= 15 << 20
    managed = trace.managed
    for kind, direction in (
        (ManagedKind.TO_GPU, DirectionCode.H2D),
        (ManagedKind.FROM_GPU, DirectionCode.D2H),
    ):
        moved = int(managed.value[managed.kind == kind].sum())
        assert moved == int(ops.bytes[ops.direction == direction].sum())
    assert (managed.kind == ManagedKind.CPU_FAULT).any()
    assert (managed.address > 0).all()


def test_the_launcher_and_the_source_together(tmp_path: Path) -> None:
    source = TraceSource(tmp_path)
    source.start()
    outcome = launch(
        [sys.executable, "-c", CUDA + "to_gpu(123)\nwait()\nsys.exit(7)"],
        {**os.environ, **source.environment()},
    )
    assert outcome.exit_code == 7
    assert source.stop().reason is None
    trace = read_one(tmp_path)
    assert trace.process.pid == outcome.pid
    assert outcome.start_ns < int(trace.operations.start_ns[0]) < outcome.end_ns


TORCH = """
import torch
from torch.cuda import nvtx
host = torch.ones(1 << 22, pin_memory=True)
nvtx.range_push("warm up"); gpu = host.cuda(); torch.cuda.synchronize(); nvtx.range_pop()
with nvtx.range("step"):
    with nvtx.range("load"): gpu.copy_(host, non_blocking=True)
    gpu.mul_(2)
    torch.cuda.synchronize()
"""


def test_copies_and_kernels_of_pytorch_know_their_nvtx_range(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    source = TraceSource(tmp_path, kinds=("copy", "kernel", "call", "range"))
    source.start()
    subprocess.run(
        [sys.executable, "-c", TORCH],
        env={**os.environ, **source.environment()},
        timeout=300,
        check=True,
    )
    trace = read_one(tmp_path)
    assert trace.notes == ()
    opened = OpenRanges(trace.ranges)
    names, code = opened.names, opened.codes(trace.operations)
    in_range = np.array([names[i] for i in code.tolist()])
    ops = trace.operations
    large = ops.is_copy & (ops.bytes == 16 << 20)
    assert in_range[large].tolist() == ["warm up", "load"]
    assert "step" in in_range[ops.is_kernel].tolist()


def test_addresses_nodes_and_hashes_of_driver_copies(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
ctypes.memset(pinned, 1, SIZE)
ctypes.memset(pageable, 2, SIZE)
for source in (pinned.value, ctypes.addressof(pageable)):
    for _ in range(3): call("cuMemcpyHtoD_v2", target, c_void_p(source), c_size_t(SIZE))
ctypes.memset(pageable, 3, 1)
call("cuMemcpyHtoD_v2", target, pageable, c_size_t(SIZE))
to_gpu(100); wait(); to_host(100); wait()
call("cuMemcpy", target, other, c_size_t(8))
print(target.value, pinned.value, ctypes.addressof(pageable))
""",
        kinds=("copy", "call", "hash"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    target, pinned, pageable = map(int, done.stdout.split())
    trace = read_one(tmp_path)
    assert trace.notes == ()
    copied, told = with_addresses(trace.operations, trace.host_copies)
    down = copied.direction == DirectionCode.H2D
    assert told.destination[down].tolist() == [target] * 8
    assert told.source[down].tolist() == [pinned] * 3 + [pageable] * 4 + [pinned]
    assert told.bytes.tolist() == copied.bytes.tolist()
    assert told.hashed[down].tolist() == [1] * 8
    assert sent_again(told.rows(down)).tolist() == [1, 2, 4, 5]
    up = told.rows(copied.direction == DirectionCode.D2H)
    assert (up.source.tolist(), up.destination.tolist()) == ([target], [pinned])
    assert up.hashed.tolist() == [0]


def test_addresses_and_hashes_of_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    source = TraceSource(tmp_path, kinds=("copy", "call", "hash"))
    text = """
import torch
host = torch.arange(1 << 22, dtype=torch.float32).pin_memory()
gpu = torch.empty_like(host, device="cuda")
for n in range(4):
    gpu.copy_(host, non_blocking=True); torch.cuda.synchronize()
    if n == 2: host[5] = -1
"""
    around = {**os.environ, **source.environment()}
    subprocess.run([sys.executable, "-c", text], env=around, timeout=300, check=True)
    trace = read_one(tmp_path)
    copied, told = with_addresses(trace.operations, trace.host_copies)
    large = (copied.direction == DirectionCode.H2D) & (copied.bytes == 16 << 20)
    assert told.hashed[large].tolist() == [1] * 4
    assert sent_again(told.rows(large)).tolist() == [1, 2]
