"""Compressing is left out where a program's rounds do not wait for the link."""

from __future__ import annotations

import pytest

from lanescope.compression.deciding import (
    SamplingDecider,
    Transfer,
    TransferOutcome,
    WhileBusy,
    decided,
)

MIB = 1 << 20
ARRAY = Transfer("", "g0>host", "bfloat16", 16 * MIB)
RAW_SECONDS = 0.3e-3


class Recorded:
    """Always compresses, and notes what it is asked and told."""

    def __init__(self):
        self.calls = []

    def decide(self, transfer):
        self.calls.append("decide")
        return decided(True, "exponent", 1, RAW_SECONDS, RAW_SECONDS / 1.4, "it is smaller")

    def learn(self, transfer, decision, outcome):
        self.calls.append("learn")

    def wants_sample(self, transfer):
        return True

    def take_sample(self, transfer, sampled):
        self.calls.append("take_sample")


class Program:
    """Rounds in which 10 arrays leave and come back."""

    def __init__(self):
        self.now, self.decider = 0.0, Recorded()
        self.busy = WhileBusy(self.decider, lambda: self.now)

    def round(self, share):
        """Run a round of which transfers as they are would take a share; return the decisions."""
        self.busy.begin_round()
        decisions = [self.busy.decide(ARRAY) for _ in range(10)]
        for _ in range(10):
            self.busy.count(ARRAY.bytes)
        self.now += 20 * RAW_SECONDS / share
        return {one.compress for one in decisions}


@pytest.fixture
def program():
    return Program()


def test_it_is_a_decider_that_takes_samples(program):
    assert isinstance(program.busy, SamplingDecider)


def test_a_busy_link_is_the_others_business(program):
    for share in (1.0, 0.75, 1.3, 0.95):
        assert program.round(share) == {True}
    assert program.busy.wants_sample(ARRAY)


def test_after_three_rounds_on_an_idle_link_nothing_is_compressed(program):
    assert [program.round(0.5) for _ in range(5)] == [{True}, {True}, {True}, {False}, {False}]
    assert not program.busy.wants_sample(ARRAY)
    assert "idle" in program.busy.decide(ARRAY).reason


def test_single_rounds_that_take_long_change_nothing(program):
    for share in (0.1, 1.0, 0.2, 0.2, 1.0) * 4:
        assert program.round(share) == {True}


def test_compressing_begins_again_where_rounds_wait_for_the_link(program):
    for _ in range(4):
        program.round(0.5)
    assert [program.round(0.8) for _ in range(5)] == [{False}] * 5
    assert [program.round(0.98) for _ in range(5)] == [{False}] * 3 + [{True}] * 2


def test_what_begins_amid_a_round_ends_none(program):
    """As passes of a checkpointed model do, which are repeated amid the backward pass."""
    for _ in range(20):
        assert program.round(1.0) == {True}
        for _ in range(4):
            program.busy.begin_round()
            program.busy.count(ARRAY.bytes // 8)
            program.now += RAW_SECONDS


def test_nothing_is_known_before_times_are(program):
    program.decider.decide = lambda transfer: decided(False, "raw", reason="nothing is known yet")
    for _ in range(8):
        program.round(0.01)
    assert not program.busy.is_idle


def test_the_other_one_learns_from_all(program):
    for _ in range(4):
        program.round(0.5)
    program.decider.calls.clear()
    decision = program.busy.decide(ARRAY)
    outcome = TransferOutcome(RAW_SECONDS, ARRAY.bytes, ARRAY.bytes, False)
    program.busy.learn(ARRAY, decision, outcome)
    program.busy.take_sample(ARRAY, ())
    assert program.decider.calls == ["learn", "take_sample"]
