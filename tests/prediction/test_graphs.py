import pytest

from lanescope.errors import InputError
from lanescope.prediction.graphs import MOST_TASKS, Order, TaskKind, graph_for, on_gpus
from lanescope.prediction.predictor import Method, Workload

STATE = Workload(2 * 42 * 80, 3 * 42 * 80, 4.2, h2d_arrays=2, d2h_arrays=3, most_streams=42)
BUOYDIFF = Workload(
    2 * 42 * 80,
    2 * 42 * 80,
    4.2,
    h2d_arrays=2,
    d2h_arrays=2,
    most_streams=42,
    needs_previous=True,
    returns_later=1,
    mapped_reads=2.5,
)


def of_kind(graph, kind):
    return [task for task in graph.tasks if task.kind is kind]


def moved(graph, kind):
    return sum(task.bytes for task in of_kind(graph, kind))


def test_explicit_copies_each_array_once_on_one_stream():
    graph = graph_for(STATE, Method.EXPLICIT)
    kinds = [task.kind for task in graph.tasks]
    assert kinds == [TaskKind.H2D] * 2 + [TaskKind.KERNEL] + [TaskKind.D2H] * 3
    assert {(t.stream, t.first, t.count, t.pageable) for t in graph.tasks} == {(0, 0, 42, False)}
    assert [t.array for t in graph.tasks] == [0, 1, 0, 0, 1, 2]


def test_pageable_copies_hold_the_host():
    graph = graph_for(STATE, Method.PAGEABLE)
    assert [t.pageable for t in graph.tasks] == [t.kind is not TaskKind.KERNEL for t in graph.tasks]


@pytest.mark.parametrize("streams", [1, 4, 5, 42])
@pytest.mark.parametrize("workload", [STATE, BUOYDIFF])
def test_parts_cover_everything_once(workload, streams):
    graph = graph_for(workload, Method.STREAMS, streams)
    assert moved(graph, TaskKind.H2D) == workload.h2d_bytes
    assert moved(graph, TaskKind.D2H) == workload.d2h_bytes
    kernels = of_kind(graph, TaskKind.KERNEL)
    assert sum(k.seconds for k in kernels) == pytest.approx(workload.kernel_seconds)
    levels = [level for k in kernels for level in range(k.first, k.first + k.count)]
    assert levels == list(range(42))
    assert all(t.bytes == 80 * t.count for t in graph.tasks if t.kind is not TaskKind.KERNEL)


def test_what_is_left_over_goes_to_the_first_parts():
    kernels = of_kind(graph_for(STATE, Method.STREAMS, 4), TaskKind.KERNEL)
    assert [k.count for k in kernels] == [11, 11, 10, 10]


def test_bytes_that_do_not_divide_are_not_lost():
    odd = Workload(1001, 77, 1.0, h2d_arrays=3)
    graph = graph_for(odd, Method.STREAMS, 7)
    assert (moved(graph, TaskKind.H2D), moved(graph, TaskKind.D2H)) == (1001, 77)


def test_independent_parts_go_depth_first_each_on_its_stream():
    graph = graph_for(STATE, Method.STREAMS, 3)
    assert [t.stream for t in graph.tasks] == [0] * 6 + [1] * 6 + [2] * 6
    assert not any(t.after for t in graph.tasks)
    broad = graph_for(STATE, Method.STREAMS, 3, order=Order.BREADTH)
    kinds = [t.kind for t in broad.tasks]
    assert kinds == [TaskKind.H2D] * 6 + [TaskKind.KERNEL] * 3 + [TaskKind.D2H] * 9


def test_parts_that_need_the_one_before_are_copied_in_order():
    graph = graph_for(BUOYDIFF, Method.STREAMS, 4)
    kinds = [t.kind for t in graph.tasks]
    assert kinds == [TaskKind.H2D] * 8 + [TaskKind.KERNEL] * 4 + [TaskKind.D2H] * 8
    # the first copy of a part waits for the last of the part before; all else by its stream
    assert [t.after for t in graph.tasks[:8]] == [(), (), (1,), (), (3,), (), (5,), ()]
    assert [t.stream for t in graph.tasks[:8]] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert not any(k.after for k in of_kind(graph, TaskKind.KERNEL))


def test_arrays_that_return_later_wait_for_the_next_kernel():
    graph = graph_for(BUOYDIFF, Method.STREAMS, 4)
    kernels = {t.stream: i for i, t in enumerate(graph.tasks) if t.kind is TaskKind.KERNEL}
    for copy in of_kind(graph, TaskKind.D2H):
        later = copy.array == 0 and copy.stream < 3
        assert copy.after == ((kernels[copy.stream + 1],) if later else ())
    # what is complete does not stand behind what is not
    arrays = [t.array for t in of_kind(graph, TaskKind.D2H)]
    assert arrays == [1, 0] * 4


def test_implicit_reads_as_often_as_the_kernel_does():
    (kernel,) = graph_for(BUOYDIFF, Method.IMPLICIT).tasks
    assert (kernel.reads, kernel.writes) == (2.5 * BUOYDIFF.h2d_bytes, BUOYDIFF.d2h_bytes)


def test_hybrid_copies_in_and_writes_mapped():
    graph = graph_for(STATE, Method.HYBRID, 5)
    assert not of_kind(graph, TaskKind.D2H)
    assert moved(graph, TaskKind.H2D) == STATE.h2d_bytes
    assert sum(t.writes for t in graph.tasks) == STATE.d2h_bytes
    assert not any(t.reads for t in graph.tasks)


def test_a_direction_without_bytes_has_no_copies():
    graph = graph_for(Workload(0, 100, 1.0), Method.STREAMS, 2)
    assert not of_kind(graph, TaskKind.H2D)


def test_the_same_for_several_gpus():
    graph = on_gpus(graph_for(BUOYDIFF, Method.STREAMS, 3), (0, 1))
    for gpu in (0, 1):
        own = [t for t in graph.tasks if t.gpu == gpu]
        assert len(own) == 15
        assert all(graph.tasks[j].gpu == gpu for t in own for j in t.after)


@pytest.mark.parametrize("streams", [0, 43])
def test_more_parts_than_there_are(streams):
    with pytest.raises(InputError, match=f"{streams} streams: .* 1 to 42 parts"):
        graph_for(STATE, Method.STREAMS, streams)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (Workload(1, 1, 1.0, h2d_arrays=0), "one array or more"),
        (Workload(1, 1, 1.0, returns_later=2), "return later"),
    ],
)
def test_impossible_workloads(workload, words):
    with pytest.raises(InputError, match=words):
        graph_for(workload, Method.EXPLICIT)


def test_more_tasks_than_can_be_replayed_are_refused():
    many = Workload(1 << 30, 1 << 30, 0.0, h2d_arrays=99, d2h_arrays=100)
    assert len(graph_for(many, Method.STREAMS, 100).tasks) == MOST_TASKS
    with pytest.raises(
        InputError, match=r"20200 copies and kernels .* give fewer arrays or streams"
    ):
        graph_for(many, Method.STREAMS, 101)
