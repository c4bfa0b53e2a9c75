"""What single copies and kernels take in the replay, and copies that meet."""

from dataclasses import replace

import pytest

from lanescope.errors import NotMeasuredError
from lanescope.prediction.costs import single_seconds, transfer_seconds
from lanescope.prediction.flows import SharedLinks, shared_links
from lanescope.prediction.graphs import Task, TaskGraph, TaskKind, on_gpus
from lanescope.prediction.parameters import Direction, Duplex, HostBuffer, Mixture, Paced
from lanescope.prediction.replay import replay
from tests.prediction.machines import (
    CURVED,
    curve,
    direction,
    duplex,
    exactly,
    launching,
    link,
    mapped,
    seconds,
)

H2D, D2H, KERNEL = TaskKind.H2D, TaskKind.D2H, TaskKind.KERNEL


def graph(*tasks):
    return TaskGraph(tasks)


def copies(kind, size, n):
    return TaskGraph(tuple(Task(kind, stream=i, bytes=size) for i in range(n)))


@pytest.mark.parametrize("size", [0, 1024, 30_000, 1 << 20, 123_456_789, 1 << 30])
@pytest.mark.parametrize(
    "one", [CURVED, direction(9e-6, 8e-11, 2.5e-6), direction(1e-6, 1e-9, 3e-6)]
)
@pytest.mark.parametrize("kind", [H2D, D2H])
def test_a_lone_copy_takes_what_a_single_copy_does(one, size, kind):
    parameters = link(one, one)
    expected = single_seconds(one, size).value
    assert seconds(graph(Task(kind, bytes=size)), parameters) == pytest.approx(expected)


@pytest.mark.parametrize("streams", [1, 2, 16, 256])
@pytest.mark.parametrize("size", [1024, 1 << 20, 1 << 26])
@pytest.mark.parametrize(
    "one", [CURVED, direction(9e-6, 8e-11, 2.5e-6), direction(1e-6, 1e-9, 3e-6)]
)
def test_copies_on_many_streams_take_what_a_transfer_does(one, size, streams):
    expected = transfer_seconds(one, size * streams, streams).value
    assert seconds(copies(H2D, size, streams), link(one)) == pytest.approx(expected, rel=0.02)


def test_calls_bound_small_copies():
    replayed = replay(copies(H2D, 1024, 100), link(CURVED))
    assert replayed.busiest == "calls"
    assert replayed.busy["calls"] == pytest.approx(200e-6)
    assert replayed.busy["g0 h2d"] == pytest.approx(120e-6)


def test_an_empty_kernel_takes_a_launch():
    parameters = link(launching=launching(first=5e-6, call=2e-6), mapped=mapped(first=7e-6))
    assert seconds(graph(Task(KERNEL)), parameters) == pytest.approx(5e-6)
    written = seconds(graph(Task(KERNEL, writes=1000)), parameters)
    assert written == pytest.approx(7e-6 + 1e-6)


def test_kernels_on_a_stream_have_a_gap_between_them():
    parameters = link(launching=launching(gap=1e-3))
    same = [Task(KERNEL, seconds=1.0) for _ in range(3)]
    assert seconds(graph(*same), parameters) == pytest.approx(3.002)
    others = [Task(KERNEL, stream=i, seconds=1.0) for i in range(3)]
    assert seconds(graph(*others), parameters) == pytest.approx(3.0)


def test_events_and_waits_hold_the_host():
    parameters = link(launching=launching(event_call=0.5))
    pair = graph(Task(KERNEL, seconds=0.1), Task(KERNEL, 1, seconds=0.1, after=(0,)))
    replayed = replay(pair, parameters)
    assert replayed.busy["calls"] == pytest.approx(1.0)  # one event, one wait
    assert replayed.seconds == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("sizes", "latency"), [((1e9, 3e9), 0.0), ((3e9, 1e9), 0.2), ((2e9, 2e9), 0.1)]
)
def test_two_copies_meet_by_cocopelias_rule(sizes, latency):
    """t1(1 - 1/s2) + ti2/s2 + tb2·B2, where direction 1 ends first when slowed."""
    parameters = link(
        direction(latency, 1e-9, latency),
        direction(latency, 2e-9, latency),
        duplex=duplex(1.5e-9, 2.6e-9),
    )
    bytes_ = tuple(map(int, sizes))
    directions = sorted(
        (latency + slow * b * alone, slow, b * alone)
        for b, alone, slow in zip(bytes_, (1e-9, 2e-9), (1.5, 1.3), strict=True)
    )
    (t1, _, _), (_, s2, alone2) = directions
    expected = t1 * (1 - 1 / s2) + latency / s2 + alone2
    both = graph(Task(H2D, 0, bytes_[0]), Task(D2H, 1, bytes_[1]))
    assert seconds(both, parameters) == pytest.approx(expected)


def test_one_engine_does_one_copy_at_a_time():
    both = graph(Task(H2D, 0, 10**9), Task(D2H, 1, 10**9))
    assert seconds(both, link(engines=2)) == pytest.approx(1.0)
    one = replay(both, link(engines=1, duplex=duplex(5e-9, 5e-9)))
    assert one.seconds == pytest.approx(2.0)
    assert one.busy["g0 copy"] == pytest.approx(2.0)


def test_one_engine_keeps_the_order_of_the_calls():
    waiting = (Task(KERNEL, 0, seconds=3.0), Task(D2H, 0, 10**9), Task(H2D, 1, 10**9))
    assert seconds(graph(*waiting), link(engines=1)) == pytest.approx(5.0)
    assert seconds(graph(*waiting), link(engines=2)) == pytest.approx(4.0)


def test_copies_of_one_stream_are_not_parted():
    """Two arrays for each of two kernels: the first kernel need not wait for all four copies."""
    tasks = [Task(H2D, i, 10**9) for i in (0, 0, 1, 1)]
    kernels = [Task(KERNEL, i, seconds=0.5) for i in (0, 1)]
    replayed = replay(graph(*tasks[:2], kernels[0], *tasks[2:], kernels[1]), link())
    assert replayed.begin[2] == pytest.approx(2.0)
    assert replayed.seconds == pytest.approx(4.5)


def test_a_mapped_kernel_takes_the_longest_of_its_parts():
    mixture = Mixture((1 / 3,), (exactly(1.25),))
    parameters = link(mapped=mapped(read=2e-9, write=1e-9, mixture=mixture))
    alone = Task(KERNEL, seconds=5.0, reads=10**9)
    assert seconds(graph(alone), parameters) == pytest.approx(5.0)
    assert seconds(graph(replace(alone, seconds=1.0)), parameters) == pytest.approx(2.0)
    both = replace(alone, seconds=1.0, writes=10**9)
    # writes take a third of what both take in turn: the reads, which take longer, are slowed so
    replayed = replay(graph(both), parameters)
    assert replayed.seconds == pytest.approx(2 * 1.25)
    assert replayed.busiest == "h2d"


def test_copies_in_and_mapped_writes_slow_each_other():
    parameters = link(mapped=mapped(), explicit_mapped=duplex(2e-9, 4e-9))
    both = graph(Task(H2D, 0, 10**9), Task(KERNEL, 1, writes=10**9))
    # after 2 s the copy is done, and half of the writes; the rest goes alone
    assert seconds(both, parameters) == pytest.approx(2.5)
    unknown = replace(parameters, explicit_mapped=None, duplex=duplex(2e-9, 4e-9))
    assert seconds(both, unknown) == pytest.approx(2.5)


def test_copies_in_get_what_a_kernel_leaves_that_computes_longer_than_it_writes():
    # at full pace the copy gets 1/4 and the writes 1: room for 1.25
    parameters = link(mapped=mapped(), explicit_mapped=duplex(4e-9, 1e-9))
    kernel = Task(KERNEL, 1, seconds=2.0, writes=10**9)
    # spread over 2 s the writes take 0.5 of it, and the copy 0.75 until its end
    replayed = replay(graph(Task(H2D, 0, 10**9), kernel), parameters)
    assert replayed.end == pytest.approx((1 / 0.75, 2.0))
    # over 5 s they take 0.2, and leave all that the copy can use
    slow = replace(kernel, seconds=5.0)
    assert replay(graph(Task(H2D, 0, 10**9), slow), parameters).end == pytest.approx((1.0, 5.0))
    # a kernel that computes less than it writes goes at full pace
    quick = replace(kernel, seconds=0.5)
    end = replay(graph(Task(H2D, 0, 10**9), quick), parameters).end
    assert end == pytest.approx((1.0 + 0.75, 1.0))


def test_copies_back_get_what_mapped_reads_leave():
    parameters = link(mapped=mapped(), duplex=duplex(2e-9, 2e-9))
    slow = Task(KERNEL, 1, seconds=5.0, reads=10**9)
    # of room for 1.0 in all the reads want 0.2
    assert replay(graph(Task(D2H, 0, 10**9), slow), parameters).end == pytest.approx((1.25, 5.0))


def test_what_a_kernel_spreads_over_its_time_is_not_what_it_is_bound_by():
    parameters = link(mapped=mapped(), explicit_mapped=duplex(4e-9, 1e-9))
    for writes in (8, 10**9):
        kernel = Task(KERNEL, seconds=2.0, writes=writes, reads=8)
        assert replay(graph(kernel), parameters).busiest == "kernel"
    # copies in slow the writes, which end a little behind the computing
    kernel = Task(KERNEL, 1, seconds=2.0, writes=10**9)
    slowed = link(mapped=mapped(), explicit_mapped=duplex(4e-9, 2.4e-9))
    replayed = replay(graph(Task(H2D, 0, 10**8), kernel), slowed)
    assert 2.0 < replayed.end[1] < 2.1
    assert replayed.busiest == "kernel"
    long = Task(KERNEL, seconds=0.5, writes=10**9)
    assert replay(graph(long), parameters).busiest == "d2h"


def test_a_gap_beside_few_writes_is_small():
    both = Duplex(exactly(1e-9), exactly(1e-9), exactly(0.1))
    parameters = link(mapped=mapped(), explicit_mapped=both)
    copies = [Task(H2D, 0, 10**8) for _ in range(10)]
    kernel = Task(KERNEL, 1, seconds=5.0, writes=10**9)
    # each of ten copies takes 0.1 s and a fifth of the gap
    end = replay(graph(kernel, *copies), parameters).end
    assert end[-1] == pytest.approx(10 * (0.1 + 0.02), rel=1e-3)


def test_copies_beside_a_kernel_that_writes_some_of_its_time_take_as_long_as_was_measured():
    paced = Paced((0.5,), (exactly(1.25),), (exactly(1.1),))
    parameters = link(mapped=mapped(), explicit_mapped=duplex(4e-9, 2e-9), paced=paced)
    kernel = Task(KERNEL, 1, seconds=2.0, writes=10**9)
    end = replay(graph(Task(H2D, 0, 10**9), kernel), parameters).end
    # the kernel does 1.25 s of itself more slowly
    assert end == pytest.approx((1.25, 2.0 + 1.25 * (1 - 1 / 1.1)))


def test_flows_the_same_direction_share_a_link_fairly():
    parameters = link(mapped=mapped())
    kernel = Task(KERNEL, 1, seconds=10.0, writes=10**9)
    # the writes want a tenth of the link, and the copy gets the rest
    end = replay(graph(Task(D2H, 0, 10**9), kernel), parameters).end
    assert end == pytest.approx((1 / 0.9, 10.0))


def test_mapped_reads_and_copies_back_slow_each_other():
    parameters = link(mapped=mapped(), duplex=duplex(2e-9, 4e-9))
    both = graph(Task(D2H, 0, 10**9), Task(KERNEL, 1, reads=10**9))
    assert seconds(both, parameters) == pytest.approx(2.5)


def test_pageable_copies_hold_the_host_until_they_are_done():
    slow = direction(0.1, 2e-9)
    parameters = link(pageable_h2d=slow, pageable_d2h=slow)
    pair = [Task(H2D, i, 10**9, memory=HostBuffer.USED) for i in (0, 1)]
    replayed = replay(graph(*pair, Task(KERNEL, 2, seconds=0.5)), parameters)
    # a further one costs 2 s: the call returns when the next could be staged
    assert replayed.called[1:] == pytest.approx((2.0, 4.0))
    assert replayed.seconds == pytest.approx(4.5)
    total = transfer_seconds(slow, 2 * 10**9, 2).value
    assert seconds(graph(*pair), parameters) == pytest.approx(total)


def test_calls_that_wait_are_made_after_a_pageable_copy():
    """The kernel's own launch comes late, so that it cannot hide behind the other stream's copy."""
    parameters = link(pageable_h2d=direction(), launching=launching(call=1.0, first=1.0))
    tasks = graph(Task(H2D, 0, 10**9, memory=HostBuffer.USED), Task(KERNEL, 1, seconds=1.0))
    replayed = replay(tasks, parameters)
    assert replayed.seconds == pytest.approx(3.0)
    assert sum(s.end - s.begin for s in replayed.critical) == pytest.approx(3.0)


@pytest.mark.parametrize(
    "task",
    [Task(H2D, bytes=1, memory=HostBuffer.USED), Task(KERNEL, reads=1), Task(KERNEL, writes=1)],
)
def test_what_was_not_measured_is_said(task):
    with pytest.raises(NotMeasuredError, match=r"made-up do not tell what .* memory.*fit"):
        replay(graph(task), link())


def test_gpus_share_what_both_use():
    links = SharedLinks({"memory": 1.5e9}, {(g, Direction.H2D): {"memory": 1.0} for g in (0, 1)})
    pair = graph(Task(H2D, bytes=3 * 10**9), Task(H2D, bytes=3 * 10**9, gpu=1))
    assert seconds(pair, link()) == pytest.approx(3.0)
    assert seconds(pair, link(), links=links) == pytest.approx(4.0)
    uneven = graph(Task(H2D, bytes=3 * 10**9), Task(H2D, bytes=10**9, gpu=1))
    # 4/3 s until the short one is done, then 2e9 left, alone
    assert seconds(uneven, link(), links=links) == pytest.approx(4 / 3 + 2)


def test_gpus_behind_a_switch_share_its_uplink(two_sockets, two_gpus):
    uplink = two_sockets.links[1].payload_gbs[0] * 1e9
    fast = link(direction(per_byte=1 / (0.9 * uplink)))
    copy = graph(Task(H2D, bytes=int(uplink)))
    shared = shared_links(two_sockets)
    alone = seconds(copy, fast, links=shared)
    assert alone == pytest.approx(1 / 0.9)
    assert seconds(on_gpus(copy, (0, 1)), fast, links=shared) == pytest.approx(2.0, rel=1e-3)
    apart = seconds(on_gpus(copy, (0, 1)), fast, links=shared_links(two_gpus))
    assert apart == pytest.approx(1 / 0.9)


def test_gpus_share_the_memory_of_a_node(two_gpus):
    shared = shared_links(two_gpus)
    assert shared.capacity == {("memory", "h0"): 200e9}
    elsewhere = shared_links(two_gpus, {0: 0})
    assert not elsewhere.capacity


def test_a_shared_link_carries_something():
    with pytest.raises(ValueError, match="more than 0 bytes"):
        SharedLinks({"memory": 0.0}, {})


def test_a_curve_that_is_inconsistent_is_not_shorter_than_its_call_and_bytes():
    odd = replace(CURVED, single=curve((1024, 1e-6), (1 << 30, 1e-6)))
    one = seconds(graph(Task(H2D, bytes=1 << 20)), link(odd))
    assert one == pytest.approx(2e-6 + (1 << 20) * 2e-11)
