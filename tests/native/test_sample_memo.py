"""Values of samples that are found again by their bytes."""

import gzip
import struct
from pathlib import Path

import pytest

from lanescope._core import native

H200 = Path(__file__).parents[1] / "data" / "h200-pm"
SampleMemo, OwnTraffic = native.testing.SampleMemo, native.testing.OwnTraffic
BYTES = 24


def sample(number, *counts, time=0):
    return struct.pack("<IIQQ", number, counts[0], counts[1] if len(counts) > 1 else 0, time)


class Asked:
    """A memo, and how often its owner had to ask."""

    def __init__(self, bytes_=BYTES, values=1):
        self.memo = SampleMemo(bytes_, values)
        self.count = 0

    def value(self, raw, *truth):
        found = self.memo.find(raw)
        if found is not None:
            return found
        self.count += 1
        self.memo.learn(list(truth))
        return truth[0]


def trained(rounds=300):
    asked = Asked()
    for i in range(rounds * 10):
        value = i % 10
        assert asked.value(sample(i, value, time=i * 7), float(value)) == value
    return asked


def test_samples_of_an_h200_are_asked_for_once():
    raw = gzip.decompress((H200 / "samples.bin.gz").read_bytes())
    lines = gzip.decompress((H200 / "values.csv.gz").read_bytes()).split()
    truth = [tuple(map(float, line.split(b","))) for line in lines]
    asked = Asked(89, 2)
    for _ in range(4):
        for i, values in enumerate(truth):
            assert asked.value(raw[89 * i : 89 * (i + 1)], *values) == values[0]
    asked.count = 0
    for i, values in enumerate(truth):
        assert asked.value(raw[89 * i : 89 * (i + 1)], *values) == values[0]
    assert asked.memo.contradictions() == 0
    assert asked.count < 0.03 * len(truth)  # one in 64 is asked for to check


def test_nothing_is_used_before_it_has_proved_itself():
    asked = Asked()
    for i in range(900):
        asked.value(sample(i, 0), 0.0)
    for i in range(900):
        asked.value(sample(i, 5), 5.0)
    assert asked.count == 1800  # two values alone prove nothing
    trained_count = trained(2000).count
    assert trained_count < 2000


def test_what_differs_while_all_is_zero_does_not_matter_and_nothing_else():
    asked = trained()
    asked.count = 0
    assert asked.value(sample(99_999, 4, time=1 << 50), 4.0) == 4.0
    assert asked.value(sample(0, 0, time=1 << 51), 0.0) == 0.0  # the high bytes of the time
    asked.count = 0
    for i in range(50):  # a second counter begins: its bytes were never seen to differ
        assert asked.value(sample(i, 4, i + 1), 5.0 + i) == 5.0 + i
    assert asked.memo.contradictions() == 0
    assert asked.count == 50


def test_one_contradiction_ends_it():
    asked = trained()
    for i in range(200):
        asked.value(sample(i, 3), 77.0)
    assert asked.memo.contradictions() == 1
    asked.count = 0
    assert asked.value(sample(1, 3), 77.0) == 77.0
    assert asked.count == 1


@pytest.mark.parametrize("before", range(4))
def test_a_contradiction_is_found_in_samples_that_take_turns(before):
    asked = trained()
    for i in range(before):
        asked.value(sample(i, 7), 7.0)
    wrong = 0
    for i in range(1000):
        assert asked.value(sample(i, 4), 4.0) == 4.0
        wrong += asked.value(sample(i, 3), 77.0) != 77.0
    assert asked.memo.contradictions() == 1
    assert wrong < 64


def test_after_a_new_beginning_other_bytes_may_mean_the_same():
    asked = trained()
    asked.memo.forget()
    for i in range(3000):  # as if the counters' bytes were of another kind now
        assert asked.value(sample(i, 1000 + i % 10), float(i % 10)) == i % 10
    assert asked.memo.contradictions() == 0


def test_too_large_samples_are_always_asked_for():
    memo = SampleMemo(4097, 1)
    for _ in range(5000):
        assert memo.find(bytes(4097)) is None
        memo.learn([0.0])


def test_own_traffic_is_found_with_a_margin_and_in_order():
    own = OwnTraffic()
    own.add(1_000_000, 2_000_000)
    own.add(9_000_000, 9_500_000)
    assert not own.during(800_000, 940_000)
    assert own.during(940_000, 960_000)
    assert own.during(1_400_000, 1_500_000)
    assert own.during(2_040_000, 2_100_000)
    assert not own.during(2_050_000, 2_100_000)
    assert own.during(8_000_000, 12_000_000)
    assert not own.during(12_000_000, 13_000_000)
