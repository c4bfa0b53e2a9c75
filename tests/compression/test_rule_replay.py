"""The rule decides about the same transfers as versions before did: replays of recorded cases."""

import random
from dataclasses import replace
from hashlib import sha256
from itertools import product

import pytest

from lanescope._core import native
from lanescope.compression.deciding import Sampled, Transfer, TransferOutcome
from lanescope.compression.rule import (
    AT_BEST,
    CodecCost,
    LinkCost,
    Rule,
    compressed_seconds,
    raw_seconds,
)
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

    def __init__(self, seed, link, cost, late, slab_bytes, codec, looks):
        self.chance = random.Random(seed)
        self.link, self.cost, self.late = link, cost, late
        self.options = [slab_bytes] if codec is None else [slab_bytes, native.Codec[codec].value]
        self.rule = Rule(cost=replace(AT_BEST, slab_bytes=slab_bytes), codec=codec)
        self.lines, self.expected, self.untold = [], [], []
        self.looks, self.sample = looks, None
        self.ratios = {"exponent": 1.4, "delta": 1.2, "gfc": 1.1, "zvc": 1.3}
        if seed % 4 == 0:
            self.ratios = dict.fromkeys(self.ratios, 0.9998)

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
        return TransferOutcome(seconds, transfer.bytes, wire, compressed)

    def change(self):
        chance = self.chance
        self.ratios = {name: chance.choice([0.9998, 1.05, 1.4, 3, 20]) for name in self.ratios}
        self.link = LinkCost(self.link.gbs * chance.uniform(0.7, 1.4), self.link.first_seconds)

    def look(self, number, transfer, line):
        """Let the rule have what blocks of the array before have become, and look at this one."""
        chance = self.chance
        if self.sample is not None:
            which, of, found = self.sample
            self.rule.take_sample(of, found)
            codecs = " ".join(
                f"{native.Codec[one.codec].value} {one.dimensionality} {one.wire_share!r}"
                for one in found
            )
            self.lines.append(f"sample {which} {len(found)} {codecs}")
            self.sample = None
        wanted = self.rule.wants_sample(transfer)
        self.lines.append(f"wants {line}")
        self.expected.append(wanted)
        if wanted and chance.random() < 0.9:  # some never come
            found = [
                Sampled(name, chance.choice([1, 5]), 1 / (ratio * chance.uniform(0.95, 1.05)))
                for name, ratio in self.ratios.items()
            ]
            self.sample = number, transfer, found

    def send(self, number, transfer):
        kind = native.Dtype["bytes" if transfer.dtype == "uint8" else transfer.dtype].value
        line = f"{number} {transfer.tag} {transfer.path} {kind} {transfer.bytes}"
        if self.looks:
            self.look(number, transfer, line)
        decision = self.rule.decide(transfer)
        self.lines.append(f"decide {line}")
        self.expected.append(told(decision))
        self.untold.append((number, transfer, decision, self.outcome(transfer, decision)))
        if len(self.untold) > self.late:
            which, *rest = self.untold.pop(0)
            self.rule.learn(*rest)
            got = rest[-1]
            self.lines.append(f"learn {which} {got.seconds!r} {got.wire_bytes} {+got.compressed}")


def played(seed, link, cost, late, slab_bytes=8 * MIB, codec=None, looks=False):
    """A device over which arrays of four kinds have gone, of some sizes, in a row of chance."""
    device = Device(seed, link, cost, late, slab_bytes, codec, looks)
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
    (5, PCIE, FAST, 0, 8 * MIB, None, True),
    (6, PCIE, SLOW, 5, 8 * MIB, None, True),
    (7, NVLINK, FAST, 0, 16 * MIB, "gfc", True),
]

#: Of each case, as the rule decided when it was last changed.
RECORDED = [
    "1113cb638e72bfd1",
    "c54f61d80aac07d4",
    "afe89cd11ee95eaa",
    "935668838e4a90ae",
    "6e94e5756231f249",
    "2ccad5a14f8de1c8",
    "b92841f7d56744c5",
    "6d8f8e34f7219e77",
    "e5f97f709a55f879",
    "e7d7d3733597ea14",
    "274d017cb6a2154b",
    "2c460259476f95d2",
    "a3f5b801c2779cfd",
    "4af1030d4a83fe4e",
    "4d0cbc551c00d10e",
    "afa55b42209d1111",
    "dc2caca17a465114",
    "70b85fb644a5b39c",
    "a11a0d8ef879ab87",
    "ee9877e69e0a54f4",
    "8cb588b7dae60d2a",
    "44196f95e4e86503",
]


def line_of(compress, codec, dimensionality, raw, compressed, reason):
    return f"{compress} {codec} {dimensionality} {raw.hex()} {compressed.hex()} {reason}"


def digest(device):
    """Of all that was decided in a case, with predicted times to the last bit, and reasons."""
    lines = [str(one) if isinstance(one, bool) else line_of(*one) for one in device.expected]
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


@pytest.mark.parametrize(("case", "recorded"), list(zip(CASES, RECORDED, strict=True)))
def test_decisions_are_those_on_record(case, recorded):
    assert digest(played(*case)) == recorded


def test_every_reason_comes_up():
    said = "\n".join(
        one[5] for case in CASES for one in played(*case).expected if not isinstance(one, bool)
    )
    for part in (
        "no codec takes",
        "nothing is known of such transfers",
        "too small for this link",
        "nothing is known of it yet, a trial",
        "the outcome of a trial is awaited",
        "makes it ",
        "makes arrays like it ",
        "times as small: ",
        "sent as it is to time that again; ",
        "sent as it is to time that again, as times have changed",
        "it was a loss the last times, a trial",
        "it has not been tried for long, a trial",
        "compressed it took longer the last times",
        "saves too little",
        "a trial has to wait",
        "some of its blocks are looked at first",
        "makes blocks of such arrays ",
        "no codec makes it smaller",
    ):
        assert part in said, part
