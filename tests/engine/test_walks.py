"""Copies that walk over memory or take a chosen route, with the core made up."""

import dataclasses

import numpy as np
import pytest

from lanescope._core import native
from lanescope.copies import (
    Access,
    Caches,
    Copy,
    Engine,
    Experiment,
    Memory,
    Pattern,
    Place,
    Route,
    Timing,
)
from lanescope.engine import native as module
from lanescope.engine import sessions as events
from lanescope.engine.base import ReadsClock
from lanescope.engine.core import copy_spec
from lanescope.engine.sessions import MOST_QUEUED, EventCosts, GpuSession, event_seconds
from lanescope.engine.special_sessions import WalkSession, require_walks
from lanescope.errors import NotMeasuredError
from tests.engines import Engines

PINNED, GPU = Place("h0", Memory.PINNED), Place("g0", Memory.DEVICE)
EVENT = 1.3e-6


class Copies:
    """Stands in for the core's CopySet: copies of `seconds`, with an event after each window."""

    def __init__(self, seconds, number=1, is_staged=False):
        self.seconds = seconds
        self.number = number
        self.is_staged = is_staged
        self.calls = []

    def run_gated(self, windows, loops, shares=()):
        self.calls.append((windows, loops))
        return [list(np.arange(windows + 1) * (self.seconds * loops + EVENT))] * self.number

    def run_on_host_clock(self, windows):
        self.calls.append((windows, 1))
        return [list(np.arange(windows + 1) * self.seconds)] * self.number

    def staged(self, copy):
        return self.is_staged


def down(size=16, access=None, memory=Memory.PINNED):
    host, gpu = Place("h0", memory), Place("g0", Memory.DEVICE)
    return Copy(host, gpu, size, Engine.CE, access=access)


def between(source, destination, route=None, size=16):
    ends = (Place(part, Memory.DEVICE) for part in (source, destination))
    return Copy(*ends, size, Engine.CE, route=route)


def experiment(*copies, timing=Timing.GATE):
    return Experiment("x", "x", copies, timing)


def session(copies, *of, timing=Timing.GATE, event=EVENT):
    return WalkSession(copies, experiment(*of, timing=timing), (), None, lambda: event)


def run(walk, batches=5):
    return [walk.sample() for _ in range(batches)]


RANDOM = Access(Pattern.RANDOM, 1 << 20)


@pytest.mark.parametrize("seconds", [0.7e-6, 0.9e-6, 1.4e-6, 8e-6, 1e-3])
def test_events_take_a_small_share_of_short_copies_and_the_queue_stays_short(seconds):
    copies = Copies(seconds)
    walk = session(copies, down(access=RANDOM))
    (last,) = run(walk)[-1]
    assert walk.clock_seconds() / np.median(last) < 0.05
    assert np.median(last) == pytest.approx(seconds, rel=0.05)
    assert all((windows + 1) * (loops + 1) <= MOST_QUEUED for windows, loops in copies.calls)
    assert all(windows >= 2 for windows, _ in copies.calls)


def test_long_copies_are_timed_one_by_one():
    copies = Copies(1e-3)
    walk = session(copies, down(64 << 20, Access()))
    run(walk)
    assert {loops for _, loops in copies.calls} == {1}
    assert walk.clock_seconds() == EVENT


def test_a_copy_that_seems_to_be_all_clock_is_left_to_be_told():
    copies = Copies(0.0)
    walk = session(copies, down(access=RANDOM), event=2 * EVENT)
    (last,) = run(walk)[-1]
    assert copies.calls[-1][1] == 100
    assert walk.clock_seconds() > 0.05 * np.median(last)


def test_several_short_copies_at_once_keep_their_windows():
    copies = Copies(1e-6, number=4)
    walk = session(copies, *[down(access=RANDOM)] * 4)
    batches = run(walk)
    assert all(4 * (windows + 1) * (loops + 1) <= MOST_QUEUED for windows, loops in copies.calls)
    assert all(seconds.size for seconds in batches[-1])


def test_the_method_names_what_is_done():
    walk = session(Copies(1e-6), down(access=Access(Pattern.DESCENDING, 1024)))
    run(walk)
    assert "descending blocks of 1024 bytes" in walk.method
    assert walk.method.count("copies between two events") == 1
    staged = session(Copies(1e-6, is_staged=True), between("g0", "g1", Route.STAGED))
    assert "peer access switched off" in staged.method
    assert "after 50 ms" in staged.method
    assert staged.staged


def test_the_host_clock_is_read_once_for_each_copy(monkeypatch):
    monkeypatch.setattr(native, "host_clock_cost", lambda: 2e-8)
    walk = session(Copies(1e-5), down(access=RANDOM), timing=Timing.HOST, event=None)
    run(walk)
    assert isinstance(walk, ReadsClock)
    assert walk.clock_seconds() == 2e-8


@pytest.mark.parametrize("timing", Timing)
@pytest.mark.parametrize("blocks", [2, 3, 10, 300])
def test_flushed_blocks_are_touched_once_in_a_batch(blocks, timing):
    copies = Copies(1e-6)
    access = Access(Pattern.RANDOM, 16 * blocks, caches=Caches.FLUSHED)
    walk = session(copies, down(access=access), timing=timing)
    batches = run(walk)
    assert all((windows + 1) * loops <= blocks for windows, loops in copies.calls)
    assert all(batch[0].size for batch in batches[1:])


def test_an_event_costs_what_leaving_it_out_saves():
    assert event_seconds(Copies(0.9e-6)) == pytest.approx(EVENT)


def test_an_event_never_costs_less_than_nothing():
    class Faster(Copies):
        def run_gated(self, windows, loops, shares=()):
            return [list(np.arange(windows + 1) * 1e-6 * loops * (1 if loops == 1 else 2))]

    assert event_seconds(Faster(1e-6)) == 0


def test_events_are_looked_at_once_for_each_direction(monkeypatch):
    made = []

    def copy_set(topology, pool, specs):
        made.append(specs)
        return Copies(1e-6)

    monkeypatch.setattr(events.native, "CopySet", copy_set)
    costs = EventCosts(None, None)
    up = Copy(Place("g0", Memory.DEVICE), PINNED, 64, Engine.CE)
    for copy in (down(), down(1 << 20, RANDOM), down(memory=Memory.MAPPED)):
        assert costs.of(copy) == pytest.approx(EVENT)
    assert len(made) == 1
    for copy in (up, between("g0", "g1"), between("g0", "g1", Route.PEER), between("g1", "g0")):
        costs.of(copy)
    assert len(made) == 5


def test_walks_that_take_turns_are_each_done_as_often():
    """More of one would come round to blocks that a cache holds."""
    access = Access(Pattern.RANDOM, 8 << 26, caches=Caches.FLUSHED)
    up = dataclasses.replace(down(1 << 26, access), source=GPU, destination=PINNED)
    copies = [down(1 << 26, access), down(1 << 26, access), up]
    engines = Engines([1e-2, 1.01e-2, 1e-2], [[0, 1], [2]])
    session = WalkSession(engines, experiment(*copies), (), None, lambda: 3e-6)
    said = session.method
    while not all(one.size for one in session.sample()):
        assert len(engines.calls) < 12
    assert session.turns().groups == ((0, 1),)
    assert session.method.startswith(said)
    assert "flushed" in said
    assert session._shares == [1, 1, 1]


def refused(*copies):
    with pytest.raises(NotMeasuredError) as caught:
        require_walks(experiment(*copies))
    assert caught.value.remedy
    return caught.value.reason


def test_staged_copies_do_not_share_a_pair_of_gpus_with_others():
    staged = between("g0", "g1", Route.STAGED)
    for route in (None, Route.PEER, Route.UVA):
        assert "staged" in refused(staged, between("g1", "g0", route))
        assert "staged" in refused(between("g0", "g1", route), staged)
    kernel = dataclasses.replace(between("g0", "g1"), engine=Engine.SM)
    assert "staged" in refused(staged, kernel)
    require_walks(experiment(staged, between("g1", "g0", Route.STAGED)))
    require_walks(experiment(staged, between("g0", "g2", Route.PEER), between("g1", "g1")))


def test_nothing_is_staged_inside_a_gpu():
    assert "inside g0" in refused(between("g0", "g0", Route.STAGED))
    require_walks(experiment(between("g0", "g0", Route.PEER), between("g0", "g0", Route.UVA)))


def test_flushed_caches_are_refused_where_they_mean_nothing():
    def flushed(pattern, span):
        return Access(pattern, span, caches=Caches.FLUSHED)

    assert "repeats" in refused(down(16, flushed(Pattern.REPEATED, 64)))
    assert "repeats" in refused(down(16, flushed(Pattern.RANDOM, 24)))
    inside = dataclasses.replace(between("g0", "g1"), access=flushed(Pattern.RANDOM, 64))
    assert "no cache" in refused(inside)
    managed = down(16, flushed(Pattern.RANDOM, 64), Memory.MANAGED)
    with pytest.raises(NotMeasuredError, match="move its pages"):
        require_walks(experiment(managed, timing=Timing.HOST))


def test_a_copy_is_handed_to_the_core_with_its_walk_and_route(monkeypatch):
    seen = {}
    monkeypatch.setattr(native, "CopySpec", lambda *_, **named: seen.update(named))
    copy_spec(down(16, Access(Pattern.DESCENDING, 99, caches=Caches.FLUSHED)))
    assert seen == {
        "span_bytes": 99,
        "pattern": native.BlockPattern.descending,
        "flushed": True,
        "route": native.Route.uva,
    }
    copy_spec(between("g0", "g1", Route.STAGED, size=7))
    assert seen == {
        "span_bytes": 7,
        "pattern": native.BlockPattern.repeated,
        "flushed": False,
        "route": native.Route.staged,
    }


@pytest.mark.parametrize("pattern", Pattern)
def test_the_core_knows_every_pattern_and_route(pattern):
    copy_spec(down(16, Access(pattern, 64)))
    for route in Route:
        copy_spec(between("g0", "g1", route))


def test_only_copies_that_walk_or_take_a_route_are_measured_anew(two_gpus, monkeypatch):
    monkeypatch.setattr(module.NativeBackend, "_open_nvml", lambda self: None)
    monkeypatch.setattr(module.native, "CopySet", lambda *_: Copies(1e-6))
    backend = module.NativeBackend(two_gpus)
    for copy, kind in [
        (down(), GpuSession),
        (down(access=Access()), WalkSession),
        (between("g0", "g1"), GpuSession),
        (between("g0", "g1", Route.PEER), WalkSession),
    ]:
        with backend.prepare(experiment(copy)) as made:
            assert type(made) is kind
            assert isinstance(made, ReadsClock) is (kind is WalkSession)


@pytest.mark.parametrize("copies", [2, 25, 32, 64])
def test_many_copies_at_once_keep_windows_in_which_all_run(copies):
    core = Copies(1e-3, number=copies)
    many = GpuSession(core, experiment(*[down(1 << 20)] * copies), (), None)
    batches = run(many)
    assert all(windows >= 8 for windows, _ in core.calls)
    assert all(seconds.size for seconds in batches[-1])
