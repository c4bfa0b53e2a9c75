"""Boosted programs on a real GPU: bytes, order, pinned memory, captures, PyTorch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.boosting.programs import needs_boost, numbers_of, tally_of
from tests.native.test_gpu import GPUS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use"),
    needs_boost,
]

#: What each program begins with: a context, memory of the GPU, and work that keeps a stream busy.
BEGIN = """
import ctypes, hashlib, mmap, sys, threading
cuda = ctypes.CDLL("libcuda.so.1")
U64, P, SIZE = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
MIB = 1 << 20
def call(name, *values):
    code = getattr(cuda, name)(*values)
    assert code == 0, (name, code)
context = P()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
def on_gpu(size):
    made = U64()
    call("cuMemAlloc_v2", ctypes.byref(made), SIZE(size))
    return made.value
def stream(flags=0):
    made = P()
    call("cuStreamCreate", ctypes.byref(made), flags)
    return made
def some(size, seed):
    block = hashlib.shake_256(bytes([seed])).digest(1 << 16)
    return bytearray((block * (size // len(block) + 1))[:size])
def at(memory):
    return P(ctypes.addressof((ctypes.c_char * len(memory)).from_buffer(memory)))
def same(memory, expected):
    assert bytes(memory) == bytes(expected), "bytes differ"
busy = on_gpu(512 * MIB)
def keep_busy(where):  # some ms
    for _ in range(40): call("cuMemsetD8Async", U64(busy), 1, SIZE(512 * MIB), where)
def fill(where, address, value, size):
    call("cuMemsetD8Async", U64(address), value, SIZE(size), where)
"""
Boost = Callable[..., dict[str, Any]]


@pytest.fixture
def boost(tmp_path: Path) -> Boost:
    """Return what became of the copies of a program that has to end well."""

    def run(text: str, *words: str, begin: str = BEGIN) -> dict[str, Any]:
        found, _ = numbers_of(begin + text, words or ("--threads", "4", "--always"), tmp_path)
        return found

    return run


def carried(found: dict[str, Any]) -> tuple[int, int]:
    return found["carried"]["h2d"]["copies"], found["carried"]["d2h"]["copies"]


def reasons(found: dict[str, Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in found["by_driver"]:
        counts[one["reason"]] = counts.get(one["reason"], 0) + one["copies"]
    return counts


def test_bytes_of_all_sizes_both_ways(boost: Boost) -> None:
    found = boost("""
gpu = on_gpu(300 * MIB)
sizes = (1, 65536, 262143, 262144, 700013, 3 * MIB + 1, 40 * MIB + 4097, 256 * MIB)
for seed, size in enumerate(sizes):
    source, expected = some(size + 3, seed), some(size + 3, seed)
    target = mmap.mmap(-1, size + 3)  # never touched
    call("cuMemcpyHtoD_v2", U64(gpu + 5), P(at(source).value + 3), SIZE(size))
    source[:] = bytes(len(source))  # the call has returned
    call("cuMemcpyDtoH_v2", P(at(target).value + 3), U64(gpu + 5), SIZE(size))
    same(target[3:], expected[3:])
print("well")
""")
    assert carried(found) == (5, 5)
    assert reasons(found) == {"small": 6}


def test_copies_of_a_stream_keep_their_place(boost: Boost) -> None:
    found = boost("""
size = 20 * MIB
gpu = on_gpu(size)
for flags in (0, 1):
    own = stream(flags)
    source, target = some(size, flags), bytearray(size)
    keep_busy(own)
    fill(own, gpu, 1, size)
    call("cuMemcpyHtoDAsync_v2", U64(gpu), at(source), SIZE(size), own)
    source[:] = bytes(size)
    fill(own, gpu, 2, MIB)
    call("cuMemcpyDtoHAsync_v2", at(target), U64(gpu), SIZE(size), own)
    call("cuStreamSynchronize", own)
    same(target, b"\\x02" * MIB + some(size, flags)[MIB:])
print("well")
""")
    assert carried(found) == (2, 2)


@pytest.mark.parametrize("end", ["", "_ptds"])
def test_default_streams_keep_their_order(boost: Boost, end: str) -> None:
    found = boost(
        f"end = {end!r}"
        """
size = 9 * MIB
gpu = on_gpu(size)
blocking = stream() if not end else P(2)  # the thread's own default stream
source, target = some(size, 1), bytearray(size)
for round in range(5):
    keep_busy(blocking)
    fill(blocking, gpu, 1, size)
    call("cuMemcpyHtoD_v2" + end, U64(gpu), at(source), SIZE(size))
    fill(blocking, gpu, 3, MIB)
    call("cuMemcpyDtoH_v2" + end, at(target), U64(gpu), SIZE(size))
    same(target, b"\\x03" * MIB + source[MIB:])
print("well")
"""
    )
    assert carried(found) == (5, 5)


def test_threads_copy_at_once(boost: Boost) -> None:
    found = boost("""
failed = []
def work(number):
    try:
        call("cuCtxSetCurrent", context)
        size = 4 * MIB + number * 1000
        gpu, own = on_gpu(size), stream(1)
        for round in range(20):
            source, target = some(size, number * 20 + round), bytearray(size)
            call("cuMemcpyHtoDAsync_v2", U64(gpu), at(source), SIZE(size), own)
            call("cuMemcpyDtoHAsync_v2", at(target), U64(gpu), SIZE(size), own)
            same(target, source)
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
for one in threads: one.start()
for one in threads: one.join()
assert not failed, failed
print("well")
""")
    assert sum(carried(found)) + sum(reasons(found).values()) == 240
    assert sum(carried(found)) >= 40
    assert reasons(found).keys() <= {"busy", "room"}


def test_pinned_and_managed_memory_and_captures_are_the_drivers(boost: Boost) -> None:
    found = boost("""
size = 4 * MIB
gpu, own = on_gpu(size), stream(1)
pinned, managed = P(), U64()
call("cuMemHostAlloc", ctypes.byref(pinned), SIZE(size), 0)
call("cuMemAllocManaged", ctypes.byref(managed), SIZE(size), 1)
call("cuMemcpyHtoD_v2", U64(gpu), pinned, SIZE(size))
call("cuMemcpyDtoH_v2", pinned, U64(gpu), SIZE(size))
call("cuMemcpyHtoD_v2", U64(gpu), P(managed.value), SIZE(size))
source = some(size, 1)
call("cuMemcpyHtoD_v2", U64(gpu), at(source), SIZE(size))
graph, status = P(), ctypes.c_int()
call("cuStreamBeginCapture_v2", own, 1)
call("cuMemsetD8Async", U64(gpu), 1, SIZE(size), own)
code = cuda.cuMemcpyHtoDAsync_v2(U64(gpu), at(source), SIZE(size), own)
cuda.cuStreamEndCapture(own, ctypes.byref(graph))
call("cuMemcpyHtoD_v2", U64(gpu), at(source), SIZE(size))
print("well")
""")
    assert carried(found) == (2, 0)
    assert reasons(found)["captured"] == 1
    assert reasons(found)["not_pageable"] + reasons(found).get("not_to_a_gpu", 0) == 3


def test_the_rule_carries_or_not_and_bytes_are_right(boost: Boost) -> None:
    found = boost(
        """
size = 32 * MIB
gpu = on_gpu(size)
for round in range(60):
    source, target = some(size, round), bytearray(size)
    call("cuMemcpyHtoD_v2", U64(gpu), at(source), SIZE(size))
    call("cuMemcpyDtoH_v2", at(target), U64(gpu), SIZE(size))
    same(target, source)
print("well")
""",
        *("--threads", "4"),
    )
    all_of_them = sum(carried(found)) + sum(reasons(found).values())
    assert all_of_them == 120
    assert reasons(found).keys() <= {"compared", "slower"}
    assert found["compared"]["h2d"]["copies"] > 0  # copies of an idle stream are learned from


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no PyTorch")
def test_a_model_and_its_results_of_pytorch(boost: Boost) -> None:
    found = boost(
        """
import torch
torch.manual_seed(1)
model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(6)))
before = [one.clone() for one in model.state_dict().values()]
model.to("cuda")
after = [one.cpu() for one in model.state_dict().values()]
assert all(torch.equal(one, other) for one, other in zip(before, after))
x = torch.rand(4096, 2048)
y = x.to("cuda", non_blocking=True)
z = (y * 2).to("cpu")
assert torch.equal(z, x * 2)
print("well")
""",
        begin="",
    )
    to_gpu, from_gpu = carried(found)
    assert to_gpu >= 7  # the weights, and x
    assert from_gpu >= 7


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no PyTorch")
@pytest.mark.parametrize("boosts", [False, True], ids=["by itself", "boosted"])
def test_tensors_by_functions_of_ours(boosts: bool, boost: Boost, tmp_path: Path) -> None:
    text = """
import threading, torch, lanescope, numpy
for size in (5, 4096, 262144, 3 * 1024 * 1024 + 1, 200_000_003):
    source = torch.randint(0, 256, (size,), dtype=torch.uint8)
    expected = source.clone()
    there = lanescope.to_gpu(source)
    source.zero_()  # it has returned
    assert torch.equal(lanescope.to_host(there), expected)
    assert torch.equal(there.cpu(), expected)
large = torch.rand(64 << 20)
for own in (False, True):
    with torch.cuda.stream(torch.cuda.Stream() if own else torch.cuda.default_stream()):
        work = torch.rand(4096, 4096, device="cuda")
        for _ in range(30): work = work @ work * 1e-4
        there = torch.empty(64 << 20, device="cuda")
        there.fill_(7)
        assert (lanescope.to_host(there) == 7).all()
        for _ in range(30): work = work @ work * 1e-4
        there.fill_(3)
        lanescope.to_gpu(large, there)
        twice = there * 2
        assert torch.equal(twice.cpu(), large * 2)
pinned = torch.rand(8 << 20).pin_memory()
expected = pinned.clone()
there = lanescope.to_gpu(pinned)
pinned.zero_()
assert torch.equal(lanescope.to_host(there), expected)
wrong = []
def copy(seed):
    values = numpy.random.default_rng(seed).random(1 << 20)
    out = torch.empty(1 << 20, dtype=torch.float64, device="cuda")
    for _ in range(20):
        back = numpy.empty_like(values)
        lanescope.to_gpu(values, out)
        lanescope.to_host(out, back)
        if not (back == values).all(): wrong.append(seed)
threads = [threading.Thread(target=copy, args=(seed,)) for seed in range(8)]
for one in threads: one.start()
for one in threads: one.join()
assert not wrong
graph = torch.cuda.CUDAGraph()
static = torch.zeros(1 << 20, device="cuda")
with torch.cuda.graph(graph):
    static += 1
    try:
        lanescope.to_host(static)
        raise SystemExit("it was taken")
    except lanescope.LanescopeError as error:
        assert "captured" in str(error)
graph.replay()
assert (static == 1).all()
print("well")
"""
    if boosts:
        assert min(carried(boost(text, begin=""))) >= 10
        return
    found = tally_of(text, tmp_path)
    assert min(found.carried[name].copies for name in ("h2d", "d2h")) >= 10


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no PyTorch")
def test_a_block_of_a_program_is_boosted(tmp_path: Path) -> None:
    text = """
import io, torch, lanescope
torch.manual_seed(1)
model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(6)))
before = [one.clone() for one in model.state_dict().values()]
leaf = torch.rand(1 << 22, requires_grad=True)
complex_ones = torch.view_as_complex(torch.rand(1 << 20, 2))
pinned = torch.rand(1 << 22).pin_memory()
file = io.BytesIO()
with lanescope.boost() as boosted:
    model.to("cuda")
    after = [one.cpu() for one in model.state_dict().values()]
    there = leaf.to("cuda")
    (there * 3).sum().backward()
    assert torch.equal(complex_ones.conj().to("cuda").cpu(), complex_ones.conj())
    assert torch.equal(pinned.to("cuda").cpu(), pinned)
    assert torch.equal(leaf.detach().view(2, -1).t().to("cuda").cpu(), leaf.view(2, -1).t())
    torch.save({"large": there.detach()}, file)
    file.seek(0)
    loaded = torch.load(file, map_location="cuda")["large"]
    work = torch.rand(4096, 4096, device="cuda")
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            for _ in range(30): work = work @ work * 1e-4
            there.data.fill_(5)
            assert (there.cpu() == 5).all()
assert all(torch.equal(one, other) for one, other in zip(before, after))
assert (leaf.grad == 3).all()
assert torch.equal(loaded.cpu(), leaf.detach())
assert boosted.copies >= 18, boosted
print("well")
"""
    carried = tally_of(text, tmp_path).carried
    assert carried["d2h"].copies >= 9
    assert carried["h2d"].copies >= 8
