"""Graphs of copies and kernels on a real GPU: what they compute, in which order, and how long."""

import gc

import numpy as np
import pytest

from lanescope._core import native
from lanescope.engine.core import copy_task, kernel_task
from tests.native.test_gpu import GPUS, two_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]

COUNT = 1 << 20
BYTES = COUNT * 8
FREE = native.EquationOfState.linear  # of kernels that have none


@pytest.fixture(scope="module")
def topology():
    return native.Topology()


def filled(topology, arrays=3, size=BYTES, **options):
    """Memory whose arrays that go in hold whole numbers, and those that come back none."""
    memory = native.TaskMemory(topology, 0, [size] * arrays, [size] * arrays, **options)
    random = np.random.default_rng(1)
    for index in range(arrays):
        memory.host_in(index)[:] = random.integers(0, 1000, size // 8)
        memory.host_out(index)[:] = np.nan
    return memory


def inputs(memory, count):
    return sum(np.asarray(memory.host_in(index)) for index in range(count))


def copies_in(count, **options):
    return [copy_task(True, 0, BYTES, array=index, **options) for index in range(count)]


@pytest.mark.parametrize("writes", [1, 2, 3])
@pytest.mark.parametrize("reads", [0, 1, 3])
@pytest.mark.parametrize("copied", [False, True], ids=["in place", "copied"])
def test_a_kernel_writes_the_sum_of_what_it_reads_and_the_array_s_number(
    topology, reads, writes, copied
):
    memory = filled(topology)
    tasks = copies_in(reads) if copied else []
    tasks.append(kernel_task(0, COUNT))
    native.moving_graph(topology, memory, tasks, reads, writes, reads_copies=copied).run(1)
    for index in range(3):
        out = memory.host_out(index)
        if index < writes:
            assert np.array_equal(out, inputs(memory, reads) + index + np.zeros(COUNT))
        else:
            assert np.isnan(out).all()


def test_kernels_and_copies_keep_to_their_part(topology):
    memory = filled(topology, 1)
    tasks = [copy_task(True, 8000, 800), kernel_task(1000, 100)]
    native.moving_graph(topology, memory, tasks, 1, 1, reads_copies=True).run(1)
    out = np.asarray(memory.host_out(0))
    assert np.array_equal(out[1000:1100], np.asarray(memory.host_in(0))[1000:1100])
    assert np.isnan(out[:1000]).all()
    assert np.isnan(out[1100:]).all()


def test_a_kernel_that_only_reads_and_one_of_nothing_end(topology):
    memory = filled(topology)
    tasks = [kernel_task(0, COUNT), kernel_task(COUNT, 0)]
    assert len(native.moving_graph(topology, memory, tasks, 3, 0).run(2)) == 2
    assert np.isnan(memory.host_out(0)).all()


def test_a_kernel_computes_as_many_steps_as_it_is_told_before_it_writes(topology):
    memory = filled(topology, 1)
    native.moving_graph(topology, memory, [kernel_task(0, COUNT)], 0, 1, work=3).run(1)
    step = np.float32(0.999)
    expected = (step * (step * np.float32(1) + 1)) + 1  # from 0 on
    assert np.allclose(memory.host_out(0), expected, rtol=1e-6)

    def seconds(work):
        graph = native.moving_graph(topology, memory, [kernel_task(0, COUNT)], 0, 1, work=work)
        return min(one.seconds for one in graph.run(20))

    assert seconds(100_000) > 3 * seconds(10_000)
    with pytest.raises(native.NativeError, match="0 to 100000 steps"):
        seconds(100_001)


def test_graphs_of_the_same_memory_share_streams(topology):
    memory = filled(topology, 1)
    for parts in (16, 2, 64, 1):
        each = COUNT // parts
        tasks = []
        for part in range(parts):
            tasks.append(copy_task(True, part * each * 8, each * 8, stream=part))
            tasks.append(kernel_task(part * each, each, stream=part))
        graph = native.moving_graph(topology, memory, tasks, 1, 1, reads_copies=True)
        for number in range(3):
            memory.host_in(0)[:] = np.arange(COUNT) + number
            graph.run(1)
            assert np.array_equal(memory.host_out(0), memory.host_in(0))
            memory.host_in(0)[:] = number
            graph.run_held(1)
            assert np.array_equal(memory.host_out(0), memory.host_in(0))


def test_kernels_wait_for_copies_on_other_streams_in_every_run(topology):
    memory = filled(topology, 1, 16 * BYTES)
    parts, count = 16, 16 * COUNT // 16
    tasks = []
    for part in range(parts):
        tasks.append(copy_task(True, part * count * 8, count * 8, stream=part))
        # of the part that another stream copies
        tasks.append(
            kernel_task(part * count, count, stream=(part + 5) % parts, after=[len(tasks) - 1])
        )
    graph = native.moving_graph(topology, memory, tasks, 1, 1, reads_copies=True)
    for number in range(5):
        memory.host_in(0)[:] = np.arange(16 * COUNT) + number
        graph.run(1)
        assert np.array_equal(memory.host_out(0), memory.host_in(0))
        memory.host_in(0)[:] = number
        graph.run_held(1)
        assert np.array_equal(memory.host_out(0), memory.host_in(0))


def test_bytes_go_there_are_worked_on_and_come_back(topology):
    nx, ny, nz = 64, 32, 5
    memory = filled(topology, 2, nx * ny * nz * 8)
    level = nx * ny * 8
    tasks = []
    for first, count in ((0, 2), (2, 3)):
        copies = [
            copy_task(True, first * level, count * level, stream=first, array=i) for i in (0, 1)
        ]
        back = copy_task(False, first * level, count * level, stream=first)
        tasks += [*copies, kernel_task(first, count, stream=first), back]
    graph = native.grid_graph(
        *(topology, memory, tasks, native.GridKernel.axpy, FREE, nx, ny, nz, 1, [], []),
        *(False, False, False),
    )
    graph.run(1)
    first, second = (np.asarray(memory.host_in(index)) for index in (0, 1))
    assert np.array_equal(memory.host_out(0), 2 * first + second)


@pytest.mark.parametrize("milliseconds", [1, 20])
def test_a_busy_kernel_takes_as_long_as_it_is_asked_to(topology, milliseconds):
    memory = filled(topology, 1, 8)
    asked = milliseconds * 1e-3
    tasks = [kernel_task(), kernel_task()]
    graph = native.busy_graph(topology, memory, tasks, milliseconds * 1_000_000)
    times = graph.run(5)
    assert len(times) == 5
    for one in times:
        assert 0 < one.call_seconds < asked  # calls do not wait
        assert 2 * asked <= one.seconds
    assert min(one.seconds for one in times) < 2 * asked + 1e-3
    held = graph.run_held(5)
    assert len(held) == 5
    assert min(held) >= 2 * asked * 0.999  # another clock
    assert min(held) < 2 * asked + 1e-3


def test_an_empty_kernel_takes_nothing_to_speak_of(topology):
    memory = filled(topology, 1, 8)
    graph = native.busy_graph(topology, memory, [kernel_task()])
    assert 0 < min(one.seconds for one in graph.run(20)) < 1e-3
    assert 0 < min(graph.run_held(20)) < 1e-3


def test_what_does_not_wait_overlaps_and_what_waits_does_not(topology):
    size = 256 << 20
    memory = native.TaskMemory(topology, 0, [size], [])
    copy = copy_task(True, 0, size)

    def least(nanoseconds, *tasks):
        return min(native.busy_graph(topology, memory, list(tasks), nanoseconds).run_held(5))

    alone = least(0, copy)
    asked = round(alone * 1e9)
    overlapped = least(asked, copy, kernel_task(stream=1))
    in_turns = least(asked, copy, kernel_task(stream=1, after=[0]))
    assert alone * 0.99 < overlapped < 1.3 * alone
    assert 1.9 * alone < in_turns < 2.3 * alone


def test_held_runs_hold_back_hundreds_of_tasks_on_hundreds_of_streams(topology):
    memory = filled(topology, 1)
    size = BYTES // 256
    tasks = [copy_task(True, i * size, size, stream=i) for i in range(256)]
    graph = native.busy_graph(topology, memory, tasks)
    assert all(0 < seconds < 1 for seconds in graph.run_held(3))


@two_gpus
def test_the_second_gpu_is_timed_by_its_own_clock(topology):
    memory = native.TaskMemory(topology, 1, [BYTES], [BYTES])
    tasks = [copy_task(True, 0, BYTES), kernel_task(0, COUNT, stream=1, after=[0])]
    memory.host_in(0)[:] = 3
    graph = native.moving_graph(topology, memory, tasks, 1, 1, reads_copies=True)
    assert min(graph.run_held(3)) > 0
    assert np.all(np.asarray(memory.host_out(0)) == 3)


def test_pageable_memory_is_copied_and_neither_mapped_nor_held_back(topology):
    memory = filled(topology, 1, pageable=True)
    graph = native.busy_graph(topology, memory, copies_in(1))
    assert graph.run(1)[0].seconds > 0
    with pytest.raises(native.NativeError, match="cannot be held back"):
        graph.run_held(1)
    for reads, writes, copied in ((1, 0, False), (1, 1, True)):
        with pytest.raises(native.NativeError, match="and this is pageable"):
            native.moving_graph(
                topology, memory, [kernel_task(0, 1)], reads, writes, reads_copies=copied
            )
    assert graph.run(1)[0].seconds > 0  # nothing is broken


@pytest.mark.parametrize(
    ("tasks", "part"),
    [
        ([], "a task or more"),
        ([copy_task(True, 0, 8, stream=1024)], "there are 0 to 1023"),
        ([copy_task(True, 0, 8, stream=-1)], "is for stream -1"),
        ([copy_task(True, 0, 8, array=1)], "copies array 1; of its direction there are 1"),
        ([copy_task(False, 0, 8, array=-1)], "copies array -1"),
        ([copy_task(True, 8, BYTES)], "its array has"),
        ([copy_task(True, 2**64 - 8, 16)], "its array has"),
        ([kernel_task(0, 1, after=[0])], "task 0 waits for task 0"),
        ([kernel_task(0, 1), kernel_task(0, 1, after=[-1])], "task 1 waits for task -1"),
        ([kernel_task(-1, 1)], "neither may be negative"),
        ([kernel_task(2, -1)], "neither may be negative"),
        ([kernel_task(1, COUNT)], "an array has 1048576"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tasks_that_do_not_fit_are_refused_before_anything_runs(topology, tasks, part):
    memory = filled(topology, 1)
    with pytest.raises(native.NativeError, match=part) as refused:
        native.moving_graph(topology, memory, tasks, 1, 1)
    assert refused.value.args[2] == "bad tasks"
    assert native.moving_graph(topology, memory, [kernel_task(0, 1)], 1, 1).run(1)


def test_numbers_that_no_kernel_has_are_refused(topology):
    memory = filled(topology, 1)
    for reads, writes, part in (
        (2, 1, "of which there are 1 and 1"),
        (4, 0, "reads 0 to 3 arrays"),
        (0, 0, "one at least"),
        (-1, 1, "reads 0 to 3 arrays"),
    ):
        with pytest.raises(native.NativeError, match=part):
            native.moving_graph(topology, memory, [kernel_task(0, 1)], reads, writes)
    with pytest.raises(native.NativeError, match="10 s at most"):
        native.busy_graph(topology, memory, [kernel_task()], 10**18)


@pytest.mark.parametrize(
    ("sides", "task", "columns", "part"),
    [
        ((8, 8, 4), (4, 1), (), "1 levels from 4 on are not among 4"),
        ((8, 8, 4), (0, 0), (), "0 levels from 0 on"),
        ((8, 8, 4), (-1, 2), (), "2 levels from -1 on"),
        ((8, 8, 5), (0, 1), (), "do not fit"),
        ((0, 8, 4), (0, 1), (), "1 point or more on each side"),
        ((8, -8, 4), (0, 1), (), "1 point or more on each side"),
        ((1 << 16, 1 << 16, 4), (0, 1), (), "fewer than 2.31 points"),
        ((8, 8, 4), (0, 1), ([1.0] * 3,), "a pressure for each level"),
        ((8, 8, 4), (0, 1), ([1.0] * 4, [4] * 63), "a depth for each point"),
    ],
)
def test_grids_that_do_not_fit_are_refused(topology, sides, task, columns, part):
    memory = filled(topology, 2, 8 * 8 * 4 * 8)
    pressure, deepest = (*columns, [], [])[:2]
    with pytest.raises(native.NativeError, match=part):
        native.grid_graph(
            *(topology, memory, [kernel_task(*task)], native.GridKernel.axpy, FREE, *sides, 1),
            *(pressure, deepest, False, False, False),
        )


def test_arrays_outlive_the_memory_s_name_and_so_does_the_graph(topology):
    memory = filled(topology, 1)
    view, out = memory.host_in(0), memory.host_out(0)
    graph = native.moving_graph(topology, memory, [kernel_task(0, COUNT)], 1, 1)
    del memory
    gc.collect()
    view[:] = 5
    graph.run(1)
    del graph
    gc.collect()
    assert np.all(np.asarray(out) == 5)
    view[:] = 6
    assert np.all(np.asarray(view) == 6)


def test_memory_that_is_not_there_is_refused_and_what_was_taken_is_given_back(topology):
    with pytest.raises(native.NativeError) as refused:
        native.TaskMemory(topology, 0, [BYTES, 1 << 50], [])
    assert refused.value.args[2] == "cudaErrorMemoryAllocation"
    with pytest.raises(native.NativeError):
        native.TaskMemory(topology, GPUS, [8], [])
    with pytest.raises(IndexError):
        filled(topology, 1, 8).host_in(1)
    assert filled(topology, 1, 8).host_out(0).shape == (1,)
