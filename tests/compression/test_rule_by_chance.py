"""The rule on links, codecs, arrays, tags and disturbances as chance has them."""

import random
from dataclasses import dataclass, replace
from statistics import mean

import pytest

from lanescope.compression.deciding import Sampled, Transfer, TransferOutcome
from lanescope.compression.rule import (
    AT_BEST,
    CODECS_BY_DTYPE,
    CodecCost,
    LinkCost,
    Rule,
    compressed_seconds,
    raw_seconds,
)
from tests.compression.simulated import EXPANSION, MIB

NONE = 1 / EXPANSION
TRANSFERS = 600


@dataclass
class Gains:
    """How many times as fast as raw: always compressed by each array's best codec, and the rule."""

    always: float
    rule: float


class Workload:
    """What chance made; the same for the same seed."""

    def __init__(self, seed):
        self.chance = chance = random.Random(seed)
        self.link = LinkCost(chance.choice([12, 25, 55, 150, 395]), chance.choice([5e-6, 3e-5]))
        slow = chance.choice([1, 1, 2, 4])
        slab = chance.choice([8, 20]) * MIB
        self.cost = CodecCost(700 / slow, 1000 / slow, chance.choice([2e-5, 4e-5]), slab)
        self.dtype = chance.choice(list(CODECS_BY_DTYPE))
        self.size = chance.choice([4, 32, 64, 256, 1024]) * MIB
        self.codecs = CODECS_BY_DTYPE[self.dtype]
        self.ratios = [self.some_ratios() for _ in range(4)]
        self.tags = chance.choice(["one", "two", "four", "new"])
        self.stalls, self.times = chance.choice([0, 0.01, 0.05]), chance.choice([1.4, 3, 10])
        self.never_smaller = chance.choice([0, 0, 0.1])
        self.jitter = chance.choice([0, 0.02, 0.05])

    def some_ratios(self):
        return {name: self.chance.choice([NONE, NONE, 1.1, 1.4, 2, 8]) for name in self.codecs}

    def next(self, number):
        """Return a transfer, its ratios, and how many times as long it takes as expected."""
        chance = self.chance
        tag = {"one": 0, "two": number % 2, "four": chance.randrange(4), "new": number}[self.tags]
        ratios = self.ratios[0 if self.tags == "new" else tag]
        if chance.random() < self.never_smaller:
            ratios = dict.fromkeys(self.codecs, NONE)
        held_up = self.times if chance.random() < self.stalls else 1
        times = held_up * (1 + self.jitter * chance.uniform(-1, 1))
        return Transfer(f"t{tag}", "g0>g1", self.dtype, self.size), ratios, times

    def play(self, *, looks):
        rule = Rule(cost=replace(AT_BEST, slab_bytes=self.cost.slab_bytes))
        raw = always = ruled = 0.0
        sample = None
        for number in range(TRANSFERS):
            transfer, ratios, times = self.next(number)
            as_it_is = times * raw_seconds(self.size, self.link)
            coded = {
                name: times * compressed_seconds(self.size, ratio, self.cost, self.link)
                for name, ratio in ratios.items()
            }
            if looks:
                if sample is not None:
                    rule.take_sample(*sample)
                found = [Sampled(name, 1, 1 / ratio) for name, ratio in ratios.items()]
                sample = (transfer, found) if rule.wants_sample(transfer) else None
            decision = rule.decide(transfer)
            seconds = coded[decision.codec] if decision.compress else as_it_is
            wire = self.size / ratios[decision.codec] if decision.compress else self.size
            outcome = TransferOutcome(seconds, self.size, round(wire), decision.compress)
            rule.learn(transfer, decision, outcome)
            raw, always, ruled = raw + as_it_is, always + min(coded.values()), ruled + seconds
        return Gains(raw / always, raw / ruled)


@pytest.mark.parametrize("looks", [False, True])
def test_it_is_nearly_as_good_as_the_better_of_always_and_never(looks):
    gains = [Workload(seed).play(looks=looks) for seed in range(120)]
    assert min(one.rule for one in gains) > 0.98
    assert mean(one.rule / max(1, one.always) for one in gains) > 0.975
