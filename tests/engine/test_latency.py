"""Latencies under load: which batches count."""

import numpy as np
import pytest

from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place
from lanescope.engine import latency
from lanescope.engine.latency import LatencySession, LoadedSession
from lanescope.errors import NotMeasuredError
from lanescope.studies.latency import LOAD_BYTES

HOST, GPU = Place("h0", Memory.PINNED), Place("g0", Memory.DEVICE)
PROBE = Copy(HOST, GPU, 2 << 20, Engine.SM, Operation.CHASE)
LOAD = Copy(HOST, GPU, LOAD_BYTES, Engine.CE)


class Probe:
    method = "a probe"

    def __init__(self):
        self.planned, self.shortened, self.checked = [], 0, False

    def measure(self):
        return np.full(10, 1e-6)

    def plan(self, seconds, found):
        self.planned.append(seconds)

    def shorten(self):
        self.shortened += 1

    def check(self):
        self.checked = True


class Load:
    """Copies, of which as many end during a probe as `ended` says."""

    def __init__(self, ended, wrong=0, seconds=5e-3):
        self.ended, self.wrong, self.seconds, self.started = ended, wrong, seconds, []

    def start(self, copies):
        self.started.append(copies)

    def completed(self):
        return min(self.ended, self.started[-1])

    def finish(self):
        return [1.0, *[self.seconds] * (self.started[-1] - 1)]

    def count_mismatches(self):
        return self.wrong


def session(load, *copies):
    return LoadedSession(Probe(), load, Experiment("x", "x", copies or (PROBE, LOAD)))


def test_the_first_batch_only_tells_how_long_the_others_may_be():
    probe = Probe()
    idle = LatencySession(probe)
    assert [s.size for s in idle.sample()] == [0]
    assert [s.size for s in idle.sample()] == [10]
    assert probe.planned == [0.04, 0.04]


def test_only_copies_that_ran_during_the_probe_count():
    loaded = session(Load(ended=7))
    assert [s.size for s in loaded.sample()] == [0, 0]
    found, copies = loaded.sample()
    assert found.size == 10
    assert copies.tolist() == [5e-3] * 6  # not the first, which ran alone


def test_samples_come_in_the_order_of_the_copies():
    loaded = session(Load(ended=7), LOAD, PROBE)
    loaded.sample()
    assert [s.size for s in loaded.sample()] == [6, 10]


def test_a_load_that_ended_too_early_does_not_count_and_grows():
    load = Load(ended=50, seconds=1e-3)
    loaded = session(load)
    for _ in range(2):  # too early, then the trial
        assert [s.size for s in loaded.sample()] == [0, 0]
    assert load.started == [32, 128]
    assert loaded.sample()[0].size == 10


def test_a_probe_that_waits_for_the_load_is_given_up():
    load = Load(ended=1000)
    loaded = session(load)
    for _ in range(6):  # fewer empty batches than the sampler bears
        assert [s.size for s in loaded.sample()] == [0, 0]
    with pytest.raises(NotMeasuredError, match="ends only when the load does"):
        loaded.sample()
    assert max(load.started) == 200


def test_the_load_is_checked_too():
    session(Load(ended=7)).check()
    with pytest.raises(NotMeasuredError, match="3 bytes of the load"):
        session(Load(ended=7, wrong=3)).check()


class Chases:
    """Stands in for the core's ChaseProbe: each load takes the same time."""

    def __init__(self, seconds):
        self.seconds, self.spent = seconds, 0.0

    def multiprocessors(self):
        return 132

    def run(self, chases, hops):
        self.spent += chases * hops * self.seconds
        return [self.seconds] * chases


@pytest.mark.parametrize(("load", "rounds"), [(1.2e-6, 6), (0.83e-6, 6), (0.4e-6, 8), (10e-6, 6)])
def test_rounds_that_take_longer_are_fewer(monkeypatch, load, rounds):
    chases = Chases(load)
    monkeypatch.setattr(latency.native, "ChaseProbe", lambda *_, **__: chases)
    probe = latency.ChaseProbe(None, None, PROBE)
    idle = LatencySession(probe)
    idle.sample()
    trial = chases.spent
    (found,) = idle.sample()
    assert found.size == rounds
    assert chases.spent - trial == pytest.approx(rounds * max(5e-3, 132 * 64 * load), rel=0.05)
