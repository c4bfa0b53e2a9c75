"""What holds for every graph."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.prediction.costs import Rules
from lanescope.prediction.graphs import Task, TaskGraph, TaskKind
from lanescope.prediction.parameters import HostBuffer, Mixture
from lanescope.prediction.replay import replay
from tests.prediction.machines import direction, duplex, exactly, launching, link, mapped

PARAMETERS = link(
    direction(5e-6, 1e-9, 1e-6),
    direction(6e-6, 1.5e-9, 2e-6),
    duplex=duplex(1.4e-9, 1.8e-9),
    explicit_mapped=duplex(1.6e-9, 1.9e-9),
    mapped=mapped(7e-6, 1.2e-9, 1.3e-9, Mixture((0.3, 0.6), (exactly(1.2), exactly(1.4)))),
    pageable_h2d=direction(8e-6, 3e-9, 5e-6),
    pageable_d2h=direction(8e-6, 4e-9, 5e-6),
    launching=launching(4e-6, 1e-6, 0.5e-6, 0.3e-6),
)
SIMPLE = link(direction(5e-6, 1e-9, 1e-6), direction(6e-6, 1.5e-9, 2e-6))


@st.composite
def graphs(draw, most=12, plain=False):
    """Graphs of several GPUs and streams; plain ones have pinned copies and kernels only."""
    tasks = []
    for place in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from(TaskKind))
        size, amount = draw(st.integers(0, 20_000)), draw(st.integers(0, 20_000))
        others = draw(st.sets(st.integers(0, place - 1), max_size=2)) if place else set()
        common = Task(
            kind,
            draw(st.integers(0, 3)),
            gpu=0 if plain else draw(st.integers(0, 1)),
            after=tuple(sorted(others)),
        )
        if kind is TaskKind.KERNEL:
            reads, writes = (0, 0) if plain else (draw(st.sampled_from([0, size])), amount)
            task = replace(common, seconds=size * 1e-9, reads=reads, writes=writes)
        else:
            used = not plain and amount % 4 == 0
            task = replace(
                common, bytes=size, memory=HostBuffer.USED if used else HostBuffer.PINNED
            )
        tasks.append(task)
    return TaskGraph(tuple(tasks))


engines = st.sampled_from(
    [PARAMETERS, replace(PARAMETERS, copy_engines=1)]
    + [replace(PARAMETERS, copy_engines=n, implicit_synchronisation=True) for n in (1, 2)]
)
rules = st.builds(
    Rules,
    before_share=st.floats(0, 1),
    kernels_at_once=st.integers(1, 3),
    in_call_order=st.sampled_from([None, True, False]),
    many_waves=st.booleans(),
)


def lone_seconds(task):
    """What the server of a task is held at least, of anything that flows alone."""
    if task.kind is TaskKind.KERNEL:
        return max(task.seconds, task.reads * 1.2e-9, task.writes * 1.3e-9)
    return task.bytes * (1e-9 if task.kind is TaskKind.H2D else 1.5e-9)


def longest_path(graph):
    ends, last = [], {}
    for task in graph.tasks:
        lane = (task.gpu, task.stream)
        before = [ends[j] for j in task.after] + [last.get(lane, 0.0)]
        last[lane] = max(before) + lone_seconds(task)
        ends.append(last[lane])
    return max(ends)


@given(graphs(), engines, rules)
@settings(max_examples=300)
def test_every_graph(graph, parameters, rules):
    got = replay(graph, parameters, rules=rules)
    slack = 1e-12
    assert got.seconds + slack >= max(got.busy.values())
    assert got.seconds + slack >= longest_path(graph)
    last = {}
    for i, task in enumerate(graph.tasks):
        lane = (task.gpu, task.stream)
        for j in (*task.after, *last.get(lane, ())):
            assert got.begin[i] + slack >= got.end[j]
        last[lane] = (i,)
        assert got.begin[i] + slack >= got.called[i]
        assert got.end[i] - got.begin[i] + slack >= lone_seconds(task) * (not task.pageable)
        assert got.seconds >= got.seen[i] >= got.end[i]


@given(graphs(), engines, rules)
@settings(max_examples=200)
def test_the_critical_path_is_all_of_the_time(graph, parameters, rules):
    got = replay(graph, parameters, rules=rules)
    steps = got.critical
    assert steps[0].begin == 0.0
    assert steps[-1].end == got.seconds
    assert all(a.end == b.begin for a, b in pairwise(steps))
    assert all(s.end > s.begin for s in steps)
    assert sum(got.critical_seconds().values()) == pytest.approx(got.seconds)


@given(graphs(plain=True), graphs(most=1, plain=True), st.booleans())
@settings(max_examples=200)
def test_one_more_task_never_shortens(graph, more, one_engine):
    """Where servers keep the order of the calls and flows do not slow each other.

    Otherwise it may, as Graham showed of any list of jobs (1966).
    """
    parameters = replace(SIMPLE, copy_engines=1 if one_engine else 2)
    longer = TaskGraph((*graph.tasks, *more.tasks))
    in_order = Rules(in_call_order=True)
    before = replay(graph, parameters, rules=in_order).seconds
    assert replay(longer, parameters, rules=in_order).seconds >= before - 1e-12


@given(graphs())
def test_slower_parameters_never_take_less_than_the_longest_path(graph):
    slow = replace(PARAMETERS, h2d=direction(5e-6, 4e-9, 1e-6))
    copies = sum(t.bytes for t in graph.tasks if t.kind is TaskKind.H2D and t.gpu == 0)
    pinned = not any(t.pageable for t in graph.tasks)
    assert replay(graph, slow).seconds + 1e-12 >= copies * 4e-9 * pinned


def test_nothing_takes_no_time():
    got = replay(TaskGraph(()), PARAMETERS)
    assert (got.seconds, got.critical) == (0.0, ())


def test_kernels_at_once_share_the_gpu():
    pair = TaskGraph((Task(TaskKind.KERNEL, 0, seconds=1.0), Task(TaskKind.KERNEL, 1, seconds=3.0)))
    serial = replay(pair, link())
    assert serial.end == pytest.approx((1.0, 4.0))
    shared = replay(pair, link(), rules=Rules(kernels_at_once=2))
    assert shared.end == pytest.approx((2.0, 4.0))
