"""Experiments of host threads on the machine that runs the tests."""

import dataclasses
import os

import numpy as np
import pytest

from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place, Timing
from lanescope.copies.terms import BY_DRIVER, Access, Caches, Pattern
from lanescope.engine import host
from lanescope.engine import native as module
from lanescope.engine.base import ReadsClock
from lanescope.engine.host import BlockSession, HostSession
from lanescope.engine.native import NativeBackend
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import NotMeasuredError
from lanescope.machine import Gpu, Machine, NumaNode
from lanescope.results import Status

CPU = min(os.sched_getaffinity(0))


@pytest.fixture
def here():
    return Machine(name="here", nodes=(NumaNode(0, ((CPU,),), 8 << 30, 1 << 20),))


def copy(size=1 << 20, memory=Memory.PAGEABLE, cpus=(CPU,), **more):
    place = Place("h0", memory)
    return Copy(place, place, size, Engine.CPU, cpus=cpus, **more)


def experiment(*copies):
    return Experiment("x", "x", copies, Timing.HOST)


def session_of(machine, *copies):
    with NativeBackend(machine).prepare(experiment(*copies)) as session:
        return session


def refusal(machine, *copies):
    with pytest.raises(NotMeasuredError) as caught:
        session_of(machine, *copies)
    return caught.value


def measured(machine, *copies):
    results = []
    plan = Plan(budget_seconds=0.05)
    measure_all([experiment(*copies)], NativeBackend(machine), machine, plan, results.append)
    return results[0]


@pytest.mark.parametrize("pattern", Pattern)
def test_blocks_of_any_size_have_a_time_and_right_bytes(here, pattern):
    result = measured(here, copy(13, access=Access(pattern, span_bytes=10_000)))
    assert result.not_measured is None
    assert result.copies[0].clock_seconds is not None
    assert result.copies[0].statistics.median_seconds > 0
    assert "memcpy" in result.method


def test_one_flushed_small_block_is_not_resolved(here):
    flushed = Access(Pattern.REPEATED, caches=Caches.FLUSHED)
    session = session_of(here, copy(1, access=flushed))
    assert isinstance(session, ReadsClock)
    assert "flushed from the caches" in session.method
    # it takes a few readings of the clock, and no second block is there to loop over
    share = session.clock_seconds() / float(np.median(session.sample()[0]))
    status = measured(here, copy(1, access=flushed)).copies[0].verdict.status
    assert share < 0.04 or status is Status.UNRESOLVED


def test_who_does_what(here):
    walk = Access(Pattern.RANDOM, span_bytes=4 << 20)
    assert isinstance(session_of(here, copy(access=walk)), BlockSession)
    assert isinstance(session_of(here, copy(access=walk, cpus=())), BlockSession)
    assert isinstance(session_of(here, copy()), HostSession)
    assert isinstance(session_of(here, copy(access=Access(), cpus=(CPU, CPU))), HostSession)


def test_a_walk_by_many_is_refused_and_not_ignored(here):
    walk = Access(Pattern.RANDOM, span_bytes=4 << 20)
    for copies in (
        [copy(access=walk, cpus=(CPU, CPU))],
        [copy(access=walk), copy(access=walk)],
        [copy(access=walk, operation=Operation.ADD)],
    ):
        assert "Only one copy by one host thread walks" in refusal(here, *copies).reason


def test_a_block_is_copied_by_the_cpu_that_was_named_or_not_at_all(here):
    assert "CPU 100000 is none" in refusal(here, copy(cpus=(100_000,), access=Access())).reason


def test_a_walk_needs_memory_for_its_span(here, monkeypatch):
    monkeypatch.setattr(module, "available_host_bytes", lambda: 64 << 20)
    walk = Access(Pattern.ASCENDING, span_bytes=64 << 20)
    assert "needs 128 MiB of host memory" in refusal(here, copy(64, access=walk)).reason


@pytest.mark.parametrize("memory", BY_DRIVER)
@pytest.mark.parametrize("access", [None, Access()])
def test_memory_of_the_driver_takes_one(here, memory, access):
    error = refusal(here, copy(memory=memory, access=access))
    assert "made by the NVIDIA driver" in error.reason
    assert "pageable" in error.remedy
    gpu = Gpu(0, "Test GPU", unavailable="MIG is on.")
    machine = dataclasses.replace(here, gpus=(gpu,))
    assert "none that can be used" in refusal(machine, copy(memory=memory, access=access)).reason


@pytest.mark.parametrize("operation", [Operation.SCALE, Operation.ADD])
@pytest.mark.parametrize("memory", [Memory.PAGEABLE, Memory.SMALL_PAGES])
def test_operations_and_memories_of_whole_arrays(here, operation, memory):
    result = measured(here, copy(operation=operation, memory=memory))
    assert result.not_measured is None
    arrays = 3 if operation is Operation.ADD else 2
    assert result.copies[0].copy.counted_bytes == arrays << 20


def test_copies_at_once_say_that_they_run_free(here):
    three = [copy(4 << 20, operation=op) for op in (Operation.COPY, Operation.TRIAD)]
    result = measured(here, *three)
    assert result.not_measured is None
    assert "none of which waits for another" in result.method
    assert all(c.seconds.size for c in result.copies)
    assert "share a CPU" in result.method  # this test takes one only
    assert "waits" not in session_of(here, copy()).method


class Team:
    """Stands in for the core's threads: two copies, one begins late and is slow."""

    def __init__(self, *args):
        self.asked = []

    def run(self, repetitions, most_seconds):
        self.asked.append(repetitions)
        fast = [(t * 0.01, t * 0.01 + 0.009) for t in range(10 * repetitions)]
        slow = [(0.005 + t * 0.1, 0.105 + t * 0.1) for t in range(repetitions)]
        return [fast, slow]

    def streaming_stores(self, index):
        return index == 0

    def count_mismatches(self):
        return 2


def test_repetitions_that_ran_partly_alone_do_not_count(monkeypatch):
    monkeypatch.setattr(host.native, "HostTeam", Team)
    monkeypatch.setattr(host.native, "has_streaming_stores", lambda: True)
    session = HostSession(None, None, experiment(copy(cpus=(0,)), copy(cpus=(1,))))
    fast, slow = session.sample()
    assert fast == pytest.approx([0.009] * 29)  # not the one before the other began
    assert slow == pytest.approx([0.1] * 2)  # not the one that ended after the other
    session.sample()
    assert session._team.asked == [3, 3]  # 0.15 s are 1.5 of the slow one, and 3 the least
    assert "cached and streaming stores" in session.method
    assert "during which all ran" in session.method
    with pytest.raises(NotMeasuredError, match="2 elements arrived wrong"):
        session.check()


def test_stores_that_were_not_tried_are_not_called_the_faster(monkeypatch):
    monkeypatch.setattr(host.native, "HostTeam", Team)
    monkeypatch.setattr(host.native, "has_streaming_stores", lambda: False)
    session = HostSession(None, None, experiment(copy(cpus=(0,))))
    assert "cached stores (lanescope has no streaming ones for this CPU)" in session.method
    assert "on trial" not in session.method


def test_copies_that_share_a_cpu_share_its_time(monkeypatch):
    monkeypatch.setattr(host.native, "HostTeam", Team)
    session = HostSession(None, None, experiment(copy(cpus=(0,)), copy(cpus=(0,))))
    fast, slow = session.sample()
    # common are the times from 5 ms, when the second began, to the end of the first's last
    # repetition, 299 ms: between 29 and 30 repetitions of the first
    assert fast == pytest.approx([0.294 / (29 + 4 / 9)])
    assert slow == pytest.approx([0.1])
    assert "take turns" in session.method
