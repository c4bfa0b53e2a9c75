"""Tiny copies that are gathered, on a real GPU: bytes, order, waiting GPUs, graphs, PyTorch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.boosting.programs import needs_boost, numbers_of
from tests.boosting.test_boost_gpu import BEGIN
from tests.native.test_gpu import GPUS
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use"),
    needs_boost,
]

#: Copies that are changed as soon as their call has returned, and what is on the GPU.
TINY = (
    BEGIN
    + """
def tiny(address, size, where, seed):
    source = some(size, seed % 256)
    call("cuMemcpyHtoDAsync_v2", U64(address), at(source), SIZE(size), where)
    source[:] = bytes(size)
    return some(size, seed % 256)
def there(address, size, where=None):
    if where is not None: call("cuStreamSynchronize", where)
    target = bytearray(size)
    call("cuMemcpyDtoH_v2", at(target), U64(address), SIZE(size))
    return bytes(target)
legacy = P(1)
gpu = on_gpu(4 * MIB)
"""
)
Boost = Callable[..., dict[str, Any]]


@pytest.fixture
def boost(tmp_path: Path) -> Boost:
    """Return what was gathered of a program that has to end well, and what else is known."""

    def run(text: str, *words: str, begin: str = TINY) -> dict[str, Any]:
        found, said = numbers_of(begin + text, (*words, "--batch"), tmp_path)
        if "the driver makes no batches" in said:
            pytest.skip("the driver is older than CUDA 12.8")
        return found

    return run


def writes_pageable_memory() -> bool:
    """Whether what a stream does may write what is copied behind it, so that copies wait for it."""
    text = """
value = ctypes.c_int()
call("cuDeviceGetAttribute", ctypes.byref(value), 88, 0)
print(value.value)
"""
    command = [sys.executable, "-c", BEGIN + text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return done.stdout == "1\n"


def test_bytes_of_all_sizes_and_numbers(boost: Boost) -> None:
    found = boost("""
own = stream(1)
for where in (own, legacy):
    for size in (1, 100, 1024, 16384, 65536):
        for count, gap in ((2, 0), (40, 7), (64, 0), (200, 3)):
            if count * (size + gap) > 4 * MIB: continue
            fill(where, gpu, 0, 4 * MIB)
            expected = bytearray(count * (size + gap))
            for i in range(count):
                begin = i * (size + gap)
                expected[begin : begin + size] = tiny(gpu + begin, size, where, i)
            same(there(gpu, len(expected), where), expected)
print("well")
""")
    assert found["gathered"]["copies"] >= 200
    assert found["gathered"]["batches"] >= 10


def test_copies_keep_their_place_in_a_stream(boost: Boost) -> None:
    found = boost("""
own, other = stream(1), stream(0)
event = P()
call("cuEventCreate", ctypes.byref(event), 2)
for where in (own, legacy):
    for round in range(5):
        expected = bytearray(20 * 1000)
        keep_busy(where)
        fill(where, gpu, 9, len(expected))
        for i in range(20):
            expected[i * 1000 : i * 1000 + 1000] = tiny(gpu + i * 1000, 1000, where, i + round)
        fill(where, gpu + 500, 7, 1000)
        expected[500:1500] = b"\\x07" * 1000
        for i in range(40):  # each over half of the one before
            begin = 5000 + i * 100
            expected[begin : begin + 200] = tiny(gpu + begin, 200, where, i)
        call("cuEventRecord", event, where)
        call("cuStreamWaitEvent", other, event, 0)
        target = bytearray(len(expected))
        call("cuMemcpyDtoHAsync_v2", at(target), U64(gpu), SIZE(len(target)), other)
        call("cuStreamSynchronize", other)
        same(target, expected)
# streams that wait for the default one, and it for them
for round in range(5):
    keep_busy(other)
    fill(other, gpu, 9, 20000)
    expected = bytearray(b"\\x09" * 20000)
    for i in range(20):
        expected[i * 900 : i * 900 + 500] = tiny(gpu + i * 900, 500, legacy, i)
    fill(other, gpu + 600, 5, 600)
    expected[600:1200] = b"\\x05" * 600
    same(there(gpu, 20000, other), expected)
print("well")
""")
    assert found["gathered"]["copies"] >= 100 or writes_pageable_memory()


def test_a_gpu_that_waits_for_a_copy_gets_it(boost: Boost) -> None:
    """The stream waits for a value in memory, and the program makes no call until it is there."""
    found = boost("""
import time
own, waiting = stream(1), stream(1)
pinned = P()
call("cuMemHostAlloc", ctypes.byref(pinned), SIZE(4096), 0)
flag = ctypes.c_uint32.from_address(pinned.value)
values = (ctypes.c_uint32 * 64)(*([1] * 64))
for where in (own, legacy):
    for round in range(20):
        flag.value = 0
        fill(own, gpu, 0, 4096)
        call("cuStreamSynchronize", own)
        call("cuStreamWaitValue32_v2", waiting, U64(gpu + 63 * 4), 1, 0)  # at least 1
        call("cuMemcpyDtoHAsync_v2", pinned, U64(gpu), SIZE(4), waiting)
        for i in range(64):
            address = P(ctypes.addressof(values) + 4 * i)
            call("cuMemcpyHtoDAsync_v2", U64(gpu + 4 * i), address, SIZE(4), where)
        begun = time.monotonic()
        while flag.value != 1:
            assert time.monotonic() - begun < 10, "the copies never came"
    call("cuStreamSynchronize", where)
print("well")
""")
    assert found["gathered"]["copies"] >= 100


def test_threads_contexts_and_captures(boost: Boost) -> None:
    found = boost("""
failed = []
def work(number):
    try:
        call("cuCtxSetCurrent", context)
        own, begin = stream(1), gpu + number * 65536
        for round in range(30):
            expected = bytearray(50 * 300)
            for i in range(50):
                expected[i * 300 : i * 300 + 300] = tiny(begin + i * 300, 300, own, i + round)
            same(there(begin, len(expected), own), expected)
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for one in threads: one.start()
for one in threads: one.join()
assert not failed, failed
own = stream(1)
for round in range(3):
    before = tiny(gpu, 300, own, 1) + tiny(gpu + 300, 300, own, 2) + tiny(gpu + 600, 300, own, 3)
    graph = P()
    call("cuStreamBeginCapture_v2", own, 1)
    call("cuMemsetD8Async", U64(gpu + 1000), 1, SIZE(100), own)
    call("cuStreamEndCapture", own, ctypes.byref(graph))
    same(there(gpu, 900, own), before)
second = P()
call("cuCtxCreate_v2", ctypes.byref(second), 0, 0)
mine = on_gpu(65536)
for round in range(5):
    call("cuCtxSetCurrent", second)
    one = b"".join(tiny(mine + i * 200, 200, legacy, i + round) for i in range(20))
    call("cuCtxSetCurrent", context)
    two = b"".join(tiny(gpu + i * 200, 200, legacy, i + 50 + round) for i in range(20))
    same(there(gpu, 4000, legacy), two)
    call("cuCtxSetCurrent", second)
    same(there(mine, 4000, legacy), one)
call("cuCtxDestroy_v2", second)
call("cuCtxSetCurrent", context)
print("well")
""")
    assert found["gathered"]["copies"] >= 100


def test_a_dry_run_gathers_nothing(boost: Boost) -> None:
    found = boost(
        """
for round in range(10):
    expected = b"".join(tiny(gpu + i * 200, 200, legacy, i) for i in range(50))
    same(there(gpu, len(expected), legacy), expected)
print("well")
""",
        "--dry-run",
    )
    assert found["gathered"]["copies"] == 490


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no PyTorch")
def test_tensors_of_pytorch(boost: Boost) -> None:
    found = boost(
        """
import torch
torch.manual_seed(1)
for own in (False, True):
    with torch.cuda.stream(torch.cuda.Stream() if own else torch.cuda.default_stream()):
        there = torch.zeros(200, 256, device="cuda")
        for round in range(20):
            values = [torch.rand(256) for _ in range(200)]
            expected = torch.stack(values)
            for one, to in zip(values, there): to.copy_(one, non_blocking=True)
            for one in values: one.zero_()
            assert torch.equal((there * 2).cpu(), expected * 2)
x = torch.rand(64, 64)
loaded = {str(i): torch.rand(100 + i) for i in range(100)}
moved = {name: one.to("cuda", non_blocking=True) for name, one in loaded.items()}
y = (x.to("cuda") @ x.to("cuda")).cpu()
assert all(torch.equal(moved[name].cpu(), one) for name, one in loaded.items())
print("well")
""",
        begin="",
    )
    assert found["processes"] >= 1
    print(found["gathered"])
