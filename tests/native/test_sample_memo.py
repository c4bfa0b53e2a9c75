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
        self.times = []
        self.count = 0

    def value(self, raw, *truth):
        found = self.memo.find(raw)
        if found is not None:
            return found
        self.count += 1
        self.memo.learn(list(truth), self.times)
        return truth[0]


def trained(rounds=300):
    asked = Asked()
    for i in range(rounds * 10):
        value = i % 10
        assert asked.value(sample(i, value, time=i * 7), float(value)) == value
    return asked


def h200():
    raw = gzip.decompress((H200 / "samples.bin.gz").read_bytes())
    lines = gzip.decompress((H200 / "values.csv.gz").read_bytes()).split()
    return raw, [tuple(map(float, line.split(b","))) for line in lines]


def test_samples_of_an_h200_are_asked_for_once():
    raw, truth = h200()
    asked = Asked(89, 2)
    for _ in range(4):
        for i, values in enumerate(truth):
            assert asked.value(raw[89 * i : 89 * (i + 1)], *values) == values[0]
    asked.count = 0
    for i, values in enumerate(truth):
        assert asked.value(raw[89 * i : 89 * (i + 1)], *values) == values[0]
    assert asked.memo.contradictions() == 0
    assert asked.count < 0.02 * len(truth)  # one in 64 is asked for to check, or fewer


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


@pytest.mark.parametrize("told", [True, False])
def test_samples_of_an_h200_are_found_hours_later(told):
    raw, truth = h200()
    asked, later = Asked(89, 2), []
    for i, values in enumerate(4 * truth):
        one = bytearray(raw[89 * (i % len(truth)) :][:89])
        times = struct.unpack_from("<QQ", one, 73)
        asked.times = list(times) if told else [0, 0]
        asked.value(bytes(one), *values)
        struct.pack_into("<QQ", one, 73, *(time + (1 << 45) for time in times))  # ten hours
        later.append((bytes(one), values))
    asked.count = 0
    in_use = [(one, values) for one, values in later[: len(truth)] if values != (0, 0)]
    for one, values in in_use:  # no sample of zeros has shown that high bytes do not matter
        assert asked.value(one, *values) == values[0]
    assert (asked.count < 0.03 * len(in_use)) == told
    assert asked.memo.contradictions() == 0


def test_a_time_of_few_bytes_could_be_a_counter():
    asked = trained()
    asked.times = [0, 0]  # as are the bytes of counters in samples of zeros
    asked.value(sample(0, 0, time=1 << 50), 0.0)
    for i in range(1, 4):
        assert asked.value(sample(1, 3, i), 12.0 + i) == 12 + i
    assert asked.memo.contradictions() == 0


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


def test_checks_get_rarer_and_never_end():
    asked = trained()
    asked.value(sample(1, 20), 20.0)
    asked.count = 0
    for i in range(4 * 64 + 10 * 256):
        asked.value(sample(i, 20), 20.0)
    assert asked.count == 4 + 10
    wrong = sum(asked.value(sample(i, 20), 77.0) != 77.0 for i in range(1000))
    assert asked.memo.contradictions() == 1
    assert wrong == 255


def test_samples_do_not_push_each_other_out_while_there_is_room():
    asked = trained()
    some = range(256)  # beside 1024 entries: were there one place for each, 29 would be gone
    for numbers in (some, reversed(some)):
        asked.count = 0
        for i in numbers:
            assert asked.value(sample(i, 1000 + i), 1000.0 + i) == 1000 + i
    assert asked.count <= 5


def test_the_sample_found_longest_ago_makes_room():
    asked = trained()
    for i in range(
        1000, 500_000
    ):  # many more than there is room for, and one that comes all the time
        asked.value(sample(1, i), float(i))
        asked.value(sample(1, 3), 3.0)
        if i % 1000 == 0:
            asked.count = 0
            assert asked.value(sample(1, i), float(i)) == i
            assert asked.count == 0
    asked.count = 0
    for _ in range(100):
        asked.value(sample(1, 3), 3.0)
    assert asked.count <= 1  # to check
    asked.count = 0
    for i in range(1000, 2000):
        assert asked.value(sample(1, i), float(i)) == i
    assert asked.count > 900


def test_what_is_learned_not_to_matter_later_makes_old_entries_useless_and_not_wrong():
    asked = trained()
    late = 1 << 50  # a byte of the time that was never seen to differ
    assert asked.value(sample(0, 0, time=late), 0.0) == 0
    asked.count = 0
    for time in (0, late, 2 * late, 3 * late):
        for i in range(1, 10):
            assert asked.value(sample(i, i, time=time), float(i)) == i
    assert asked.count == 9
    assert asked.memo.contradictions() == 0


def test_few_samples_take_little_memory_and_many_10_mb():
    asked = trained()
    assert asked.memo.memory_bytes() < 50_000
    memo = SampleMemo(8, 2)
    memo.draw(100_000, 0, 2, 2, seed=1)
    assert memo.memory_bytes() < 50_000
    memo.draw(1_000_000, 5000, 22, 22, seed=2)
    assert 1e6 < memo.memory_bytes() < 4e6
    memo.draw(3_000_000, 50_000, 100, 300, seed=3)
    assert 10e6 < memo.memory_bytes() < 11e6


def test_a_link_in_use_both_directions_is_seldom_asked_for():
    memo = SampleMemo(8, 2)
    memo.draw(1_000_000, 5000, 22, 22, seed=1)
    asked, wrong = memo.draw(2_000_000, 5000, 22, 22, seed=2)
    assert asked < 0.015 * 2_000_000  # 0.13 where 2^15 entries have one place each
    assert wrong == 0
    assert memo.contradictions() == 0


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
