import dataclasses
import resource

import pytest

from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place, Timing
from lanescope.engine import special_sessions as module
from lanescope.engine.native import NativeBackend
from lanescope.engine.sampling import Plan, measure_one
from lanescope.errors import NotMeasuredError
from lanescope.machine import Machine, NumaNode, discover
from tests.native.test_gpu import GPUS

MIB = 1 << 20
STAGES = (Operation.ALLOCATE, Operation.TOUCH, Operation.RELEASE)


@pytest.fixture(scope="module")
def machine():
    return discover()


@pytest.fixture(scope="module")
def backend(machine):
    return NativeBackend(machine)


def overhead(size, memory=Memory.PAGEABLE, part="h0", stages=STAGES):
    place = Place(part, memory)
    copies = tuple(Copy(place, place, size, Engine.CPU, stage, (0,)) for stage in stages)
    return Experiment("overhead", "overhead", copies, Timing.HOST)


def measured(experiment, backend, machine):
    results = []
    plan = Plan(samples=8, budget_seconds=0.5)
    measure_one(experiment, backend, machine, plan, results.append)
    return results[0]


def refused(backend, experiment):
    with pytest.raises(NotMeasuredError) as caught, backend.prepare(experiment):
        pass
    return caught.value


@pytest.mark.parametrize("memory", [Memory.PAGEABLE, Memory.SMALL_PAGES])
def test_three_stages_each_with_its_clock(machine, backend, memory):
    result = measured(overhead(8 * MIB, memory), backend, machine)
    assert [len(copy.seconds) for copy in result.copies] == [8, 8, 8]
    assert all(copy.gbs is None for copy in result.copies)
    assert all(0 < copy.clock_seconds < 1e-6 for copy in result.copies)
    assert "one write to every page" in result.method


def test_the_copies_order_is_kept(machine, backend):
    experiment = overhead(32 * MIB, Memory.SMALL_PAGES, stages=(STAGES[1], STAGES[0]))
    touch, allocate = measured(experiment, backend, machine).copies
    assert touch.statistics.median_seconds > allocate.statistics.median_seconds


def test_stages_are_of_one_piece_of_memory(backend):
    first, second = overhead(MIB), overhead(2 * MIB)
    mixed = dataclasses.replace(first, copies=first.copies[:1] + second.copies[1:])
    assert "one piece of memory" in refused(backend, mixed).reason


def test_no_more_memory_than_there_is(backend, monkeypatch):
    assert "of host memory" in refused(backend, overhead(1 << 50)).reason
    monkeypatch.setattr(module, "free_bytes", lambda machine: {"h0": 3 * MIB})
    assert refused(backend, overhead(4 * MIB)).reason == (
        "It needs 4 MiB of pageable memory of h0, 3 MiB are available."
    )


def test_memory_is_counted_once(backend, monkeypatch):
    from lanescope.engine import native

    monkeypatch.setattr(native, "available_host_bytes", lambda: 10 * MIB)
    with backend.prepare(overhead(8 * MIB)):
        pass


def test_the_locked_memory_limit_is_named(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (8 * MIB, 8 * MIB))
    monkeypatch.setattr(module, "free_bytes", lambda machine: {"h0": 64 * MIB})
    machine = Machine("m", nodes=(NumaNode(0, ((0,),)),))
    error = module._too_much(machine, overhead(128 * MIB, Memory.PINNED).copies[0])
    assert "may lock 8 MiB (RLIMIT_MEMLOCK)" in error.reason
    assert "64 MiB are available" in error.reason
    assert "ulimit -l" in error.remedy


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
@pytest.mark.parametrize("memory", [Memory.PINNED, Memory.WRITE_COMBINED, Memory.MANAGED])
def test_without_a_gpu_there_is_a_reason(backend, memory):
    assert refused(backend, overhead(MIB, memory)).reason


def test_a_gpu_is_not_touched_by_a_host_thread(two_gpus, monkeypatch):
    monkeypatch.setattr(NativeBackend, "_open_nvml", lambda self: None)
    experiment = overhead(MIB, Memory.DEVICE, "g0")
    assert "cannot touch" in refused(NativeBackend(two_gpus), experiment).reason


@pytest.mark.gpu
@pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")
@pytest.mark.parametrize("memory", [Memory.DEVICE, Memory.POOL])
def test_memory_of_a_gpu(machine, backend, memory):
    experiment = overhead(16 * MIB, memory, "g0", (STAGES[0], STAGES[2]))
    result = measured(experiment, backend, machine)
    assert [len(copy.seconds) for copy in result.copies] == [8, 8]


@pytest.mark.gpu
@pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")
@pytest.mark.parametrize("memory", [Memory.PINNED, Memory.WRITE_COMBINED, Memory.MANAGED])
def test_memory_that_the_driver_locks(machine, backend, memory):
    assert len(measured(overhead(16 * MIB, memory), backend, machine).copies) == 3
