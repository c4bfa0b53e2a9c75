"""Arrays that leave a GPU by two streams share the link: what each took, and what the rule learns.

Kernels that code take turns on two streams: the next one begins when 16 MiB of the one before are
left. It waits for SMs first, which others hide; behind a copy as it is, nobody does.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from lanescope._core import native
from lanescope.compression.deciding import Decision, Sampled, Transfer, TransferOutcome
from lanescope.compression.rule import AT_BEST, Rule
from tests.compression.simulated import MIB

own_seconds = native.testing.own_seconds
#: Bytes a second of stores by kernels and of the copy engine.
STORED, COPIED = 50.8e9, 55.3e9
LEFT = 16 * MIB
RATIO = 1.42
#: Arrays that a block of a model saves.
SAVED = (32, 96, 32, 32, 32, 128, 128)


@dataclass
class Going:
    """A transfer on the link; times in seconds from the begin of the pass."""

    transfer: Transfer
    decision: Decision
    wait: float
    begin: float
    end: float = 0.0

    def __post_init__(self):
        self.wire = self.left = self.transfer.bytes / (RATIO if self.decision.compress else 1)

    @property
    def bytes_left(self):
        return self.left * self.transfer.bytes / self.wire

    def lets_begin(self, decision):
        both = decision.compress and self.decision.compress
        return self.wait == 0 and both and self.bytes_left <= LEFT

    def until(self, rate):
        """When something changes: it begins to flow, lets another begin, or ends."""
        if self.wait > 0:
            return self.wait
        to_another = (self.bytes_left - LEFT) * self.wire / self.transfer.bytes
        return (to_another if to_another > 1 else self.left) / rate

    def go_on(self, seconds, rate):
        if self.wait > 0:
            self.wait = max(0.0, self.wait - seconds)
        else:
            self.left -= seconds * rate


def a_pass(rule, chance, count):
    """Return the transfers of one pass over a model, in the order of their begin."""
    gone, going, now = [], [], 0.0
    sizes = [size * MIB for _ in range(count) for size in SAVED]
    waiting = [Transfer("", "g0>host", "bfloat16", size) for size in sizes]
    while waiting or going:
        if waiting and len(going) < 2:
            transfer = waiting[0]
            if rule.wants_sample(transfer):
                rule.take_sample(transfer, [Sampled("exponent", 1, 1 / RATIO)])
            decision = rule.decide(transfer)
            if not going or going[-1].lets_begin(decision):
                wait = chance.uniform(50e-6, 250e-6) if decision.compress else 0.0
                going.append(Going(waiting.pop(0), decision, wait, now))
                gone.append(going[-1])
                continue
        flowing = max(sum(one.wait == 0 for one in going), 1)
        rates = [(STORED if one.decision.compress else COPIED) / flowing for one in going]
        step = min(one.until(rate) for one, rate in zip(going, rates, strict=True))
        now += step
        for one, rate in zip(going, rates, strict=True):
            one.go_on(step, rate)
            one.end = now
        going = [one for one in going if one.left > 1]
    return gone


def own_times(gone):
    """Return what each transfer took, as tickets find it: of neighbours that overlap, shares."""
    shared = [max(0.0, min(a.end, b.end) - b.begin) for a, b in pairwise(gone)]
    return [
        own_seconds(one.end - one.begin, before, behind)
        for one, before, behind in zip(gone, [0.0, *shared], [*shared, 0.0], strict=True)
    ]


def test_times_of_overlapping_transfers_add_up_to_that_of_the_link():
    gone = a_pass(Rule(codec="exponent"), random.Random(1), 3)
    assert sum(own_times(gone)) == pytest.approx(gone[-1].end, rel=1e-9)
    assert own_seconds(3.0, 1.0, 1.0) == 2.0
    assert own_seconds(1.0, 5.0, -1.0) == 0.5  # overtaken; the next one began later
    assert own_seconds(1.0, 1.0, 1.0) == 0.5


@pytest.mark.parametrize("seed", range(4))
def test_the_rule_goes_on_to_compress_arrays_that_overlap(seed):
    chance = random.Random(seed)
    rule = Rule(cost=replace(AT_BEST, slab_bytes=8 * MIB), codec="exponent")
    shares = []
    for _ in range(15):
        gone = a_pass(rule, chance, 12)
        for one, seconds in zip(gone, own_times(gone), strict=True):
            varied = seconds * chance.uniform(0.97, 1.05)
            outcome = TransferOutcome(
                varied, one.transfer.bytes, round(one.wire), one.decision.compress
            )
            rule.learn(one.transfer, one.decision, outcome)
        sent_raw = sum(one.transfer.bytes for one in gone if not one.decision.compress)
        shares.append(sent_raw / sum(one.transfer.bytes for one in gone))
    assert max(shares[5:]) < 0.05
    assert sum(shares[5:]) / len(shares[5:]) < 0.015
