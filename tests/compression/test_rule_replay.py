"""The rule decides about the same transfers as versions before did: replays of recorded cases."""

import random
from dataclasses import replace
from hashlib import sha256
from itertools import product

import pytest

from lanescope._core import native
from lanescope.compression.costs import CodecCost, LinkCost, compressed_seconds, raw_seconds
from lanescope.compression.deciding import Outcome, Transfer
from lanescope.compression.rule import AT_BEST, Rule
from tests.compression.simulated import MIB, NVLINK, PCIE

FAST, SLOW = CodecCost(600, 900, 30e-6), CodecCost(150, 200, 40e-6)


def told(decision):
    """What is compared of a decision; also the line of native/tests/rule_replay.cpp."""
    seconds = [
        -1.0 if one is None else one for one in (decision.raw_seconds, decision.compressed_seconds)
    ]
    codec = native.Codec[decision.codec].value
    return [int(decision.compress), codec, decision.dimensionality, *seconds, decision.reason]


class Device:
    """Links and codecs that change now and then, as chance has it."""

    def __init__(self, seed, link, cost, late, slab_bytes, codec):
        self.chance = random.Random(seed)
        self.link, self.cost, self.late = link, cost, late
        self.options = [slab_bytes] if codec is None else [slab_bytes, native.Codec[codec].value]
        self.rule = Rule(cost=replace(AT_BEST, slab_bytes=slab_bytes), codec=codec)
        self.lines, self.expected, self.untold = [], [], []
        self.ratios = {"exponent": 1.4, "delta": 1.2, "gfc": 1.1, "zvc": 1.3}

    def outcome(self, transfer, decision):
        chance = self.chance
        if decision.compress and chance.random() < 0.97:
            ratio = self.ratios[decision.codec] * chance.uniform(0.98, 1.02)
            seconds = compressed_seconds(transfer.bytes, ratio, self.cost, self.link)
            wire, compressed = round(transfer.bytes / ratio), True
        else:
            seconds, wire = raw_seconds(transfer.bytes, self.link), transfer.bytes
            compressed = False
        held_up = chance.choice([1, 5]) if chance.random() < 0.02 else 1
        seconds *= held_up * chance.uniform(0.97, 1.05)
        return Outcome(seconds, transfer.bytes, wire, compressed)

    def change(self):
        chance = self.chance
        self.ratios = {name: chance.choice([0.9998, 1.05, 1.4, 3, 20]) for name in self.ratios}
        self.link = LinkCost(self.link.gbs * chance.uniform(0.7, 1.4), self.link.first_seconds)

    def send(self, number, transfer):
        decision = self.rule.decide(transfer)
        kind = native.Dtype["bytes" if transfer.dtype == "uint8" else transfer.dtype].value
        self.lines.append(f"decide {number} {transfer.tag} {transfer.path} {kind} {transfer.bytes}")
        self.expected.append(told(decision))
        self.untold.append((number, transfer, decision, self.outcome(transfer, decision)))
        if len(self.untold) > self.late:
            which, *rest = self.untold.pop(0)
            self.rule.learn(*rest)
            got = rest[-1]
            self.lines.append(f"learn {which} {got.seconds!r} {got.wire_bytes} {+got.compressed}")


def played(seed, link, cost, late, slab_bytes=8 * MIB, codec=None):
    """A device over which arrays of four kinds have gone, of some sizes, in a row of chance."""
    device = Device(seed, link, cost, late, slab_bytes, codec)
    chance = device.chance
    dtypes = ["bfloat16", "float32", "float64", "int64", "uint8"]
    paths = ["g0>g1", "g0>host"]
    kinds = [(f"t{i}", chance.choice(paths), chance.choice(dtypes)) for i in range(4)]
    sizes = [64 * MIB, 90 * MIB, 8 * MIB, MIB, 4096]
    for number in range(2000):
        if number % 400 == 399:
            device.change()
        size = chance.choices(sizes, [8, 4, 2, 1, 1])[0]
        device.send(number, Transfer(*chance.choice(kinds), size))
    return device


CASES = [
    *product(range(2), [NVLINK, PCIE], [FAST, SLOW], [0, 5]),
    (2, PCIE, FAST, 0, 2 * MIB, None),
    (3, PCIE, FAST, 5, 8 * MIB, "delta"),
    (4, NVLINK, FAST, 0, 16 * MIB, "gfc"),
]

#: Of each case, as the rule decided that was written in Python, up to version 0.3.
RECORDED = [
    "01832f5aa90458ee",
    "e8953e04903ddbc5",
    "a1a8f0a989cbd1e6",
    "1c4a8763b0b4ca6b",
    "dca3c45a13aa4ebd",
    "37bfba87b70ab075",
    "499897ca70f9ce07",
    "9187e1306caa9557",
    "306aef3eba3f8990",
    "ed1d0938e76f3d5a",
    "ceeaa2236effdba4",
    "5ba874e0f029c655",
    "cccbf15cc91eeabf",
    "1bb66b8bb057ca5b",
    "a69f3ee4d6e77120",
    "483d6e870a0ea457",
    "37a4b0722638d4ed",
    "97414ca3f11c5ec3",
    "9aff4eba377eb948",
]


def digest(device):
    """Of all that was decided in a case, with predicted times to the last bit, and reasons."""
    lines = [
        f"{compress} {codec} {dimensionality} {raw.hex()} {compressed.hex()} {reason}"
        for compress, codec, dimensionality, raw, compressed, reason in device.expected
    ]
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


@pytest.mark.parametrize(("case", "recorded"), list(zip(CASES, RECORDED, strict=True)))
def test_decisions_are_those_on_record(case, recorded):
    assert digest(played(*case)) == recorded


def test_every_reason_comes_up():
    said = "\n".join(one[5] for case in CASES for one in played(*case).expected)
    for part in (
        "no codec takes",
        "nothing is known of such transfers",
        "too small for this link",
        "nothing is known of it yet, a trial",
        "the outcome of a trial is awaited",
        "times as small: ",
        "sent as it is to time that again",
        "it was a loss the last time, a trial",
        "it has not been tried for long, a trial",
        "compressed it took longer the last time",
        "saves too little",
        "other arrays told that",
        "no codec makes it smaller",
    ):
        assert part in said, part
