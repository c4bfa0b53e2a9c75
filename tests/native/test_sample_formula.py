"""Values of samples that follow from their bits."""

import gzip
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from lanescope._core import native

H200 = Path(__file__).parents[1] / "data" / "h200-pm"
SampleFormula, OwnTraffic = native.testing.SampleFormula, native.testing.OwnTraffic
#: Samples of a formula that is in use: one in 128 is evaluated, and some more by chance.
SELDOM = 0.02
#: The bits of counters that are inverted.
KEY = 0xCEF0_734E_B842_0A19


def state(formula):
    return formula.report()[0]


def begun_anew(formula):
    return formula.report()[4]


def h200():
    raw = gzip.decompress((H200 / "samples.bin.gz").read_bytes())
    lines = gzip.decompress((H200 / "values.csv.gz").read_bytes()).split()
    return raw, [tuple(map(float, line.split(b","))) for line in lines]


class Sampled:
    """Samples made up as CUPTI's: a number, counters of 8 bytes at odd places, and times."""

    def __init__(self, counters=4, seed=1):
        self.random = random.Random(seed)
        self.counters = counters
        self.number = 0

    def take(self, count, draw, value):
        """Return samples of which `draw` makes the counts and `value` the values."""
        samples, values = [], []
        for _ in range(count):
            self.number += 1
            counts = draw(self.random, self.number)
            at = 1_700_000_000_000_000_000 + 2_016 * self.number
            blocks = b"".join(b"\x19\x0a\x42" + struct.pack("<Q", one ^ KEY) for one in counts)
            samples.append(struct.pack("<II", 0, self.number) + blocks)
            samples[-1] += struct.pack("<QQ", at, at + 2_016)
            values.append([float(one) for one in value(counts)])
        return b"".join(samples), values

    def formula(self):
        return SampleFormula(8 + 11 * self.counters + 16, 4)


def busy(random, _number):
    """Four links in use: each count as a multiple of 32, none like another."""
    return [32 * max(round(random.gauss(mean, mean / 3)), 0) for mean in (9, 40, 800, 25_000)]


def four(counts):
    """The second is a difference, as NVLink's payload may be one."""
    first, second, third, fourth = counts
    return first, 2 * third - second, 32 * third, fourth


def test_samples_of_an_h200_follow_from_their_bits():
    raw, truth = h200()
    formula = SampleFormula(89, 2)
    evaluated, wrong = formula.run(raw, truth)
    assert wrong == 0
    assert evaluated < 0.5 * len(truth)  # it begins with an idle link, and each bit that is new
    evaluated, wrong = formula.run(raw, truth)
    assert wrong == 0
    assert evaluated < SELDOM * len(truth)
    assert formula.contradictions() == 0


def test_samples_of_an_h200_are_known_hours_later():
    raw, truth = h200()
    formula, later = SampleFormula(89, 2), []
    formula.run(raw, truth)
    for i in range(len(truth)):
        one = bytearray(raw[89 * i : 89 * (i + 1)])
        times = struct.unpack_from("<QQ", one, 73)
        struct.pack_into("<QQ", one, 73, *(time + (1 << 45) for time in times))  # ten hours
        later.append(bytes(one))
    formula.run(b"".join(later), truth)
    evaluated, wrong = formula.run(b"".join(later), truth)
    assert wrong == 0
    assert evaluated < SELDOM * len(truth)


def test_four_values_of_links_in_use_are_seldom_evaluated():
    sampled = Sampled()
    formula = sampled.formula()
    formula.run(*sampled.take(3000, busy, four))
    evaluated, wrong = formula.run(*sampled.take(50_000, busy, four))
    assert wrong == 0
    assert evaluated < SELDOM * 50_000
    assert formula.contradictions() == 0


def test_nothing_is_used_before_it_has_proved_itself():
    sampled = Sampled()
    formula = sampled.formula()
    evaluated, _ = formula.run(*sampled.take(200, busy, four))
    assert evaluated == 200


def test_counters_that_were_equal_are_not_mixed_up_when_they_differ():
    sampled = Sampled()
    formula = sampled.formula()

    def together(random, _number):
        return [random.randrange(256)] * 4

    formula.run(*sampled.take(3000, together, four))
    evaluated, wrong = formula.run(*sampled.take(2000, together, four))
    assert evaluated < SELDOM * 2000
    evaluated, wrong = formula.run(*sampled.take(2000, busy, four))
    assert wrong == 0
    assert evaluated > 30  # what was new, and its proof
    assert formula.contradictions() == 0


def test_a_count_that_grows_by_another_bit_is_never_wrong():
    sampled = Sampled(counters=1)
    formula = SampleFormula(8 + 11 + 16, 1)

    def growing(random, number):
        return [random.randrange(1 << min(4 + number // 1500, 40))]

    _, wrong = formula.run(*sampled.take(60_000, growing, lambda counts: [7 * counts[0]]))
    assert wrong == 0
    assert formula.contradictions() == 0


@pytest.mark.parametrize(
    "value",
    [lambda counts: [counts[0] ** 2], lambda counts: [max(counts[0], 1000)]],
    ids=["square", "maximum"],
)
def test_what_is_no_sum_is_left_to_cupti(value):
    sampled = Sampled(counters=1)
    formula = SampleFormula(8 + 11 + 16, 1)

    def counts(random, _number):
        return [random.randrange(4000)]

    formula.run(*sampled.take(1000, counts, value))
    evaluated, wrong = formula.run(*sampled.take(1000, counts, value))
    assert (evaluated, wrong) == (1000, 0)
    assert formula.contradictions() == 0


def test_values_that_are_no_whole_numbers_are_left_to_cupti():
    sampled = Sampled()
    formula = sampled.formula()
    formula.run(*sampled.take(1000, busy, lambda counts: [one / 7 for one in counts]))
    evaluated, wrong = formula.run(*sampled.take(1000, busy, four))
    assert (evaluated, wrong) == (1000, 0)


def test_one_contradiction_ends_it():
    sampled = Sampled()
    formula = sampled.formula()
    formula.run(*sampled.take(3000, busy, four))

    def other(counts):
        return [one + 1 for one in four(counts)]

    evaluated, wrong = formula.run(*sampled.take(10_000, busy, other))
    assert formula.contradictions() == 1
    assert 0 < wrong < 2000  # one in 128 is evaluated
    assert "contradicted" in state(formula)
    evaluated, wrong = formula.run(*sampled.take(1000, busy, four))
    assert evaluated == 1000


def test_after_a_new_beginning_what_was_learned_is_proved_anew_and_used():
    sampled = Sampled()
    formula = sampled.formula()
    formula.run(*sampled.take(3000, busy, four))
    work = formula.work()
    formula.doubt()
    assert state(formula) == "learning"
    evaluated, wrong = formula.run(*sampled.take(3000, busy, four))
    assert wrong == 0
    assert 200 <= evaluated < 400
    assert formula.work() - work < 0.5 * work  # of bits that are rare
    assert state(formula) == "in use"
    assert begun_anew(formula) == 0


def test_after_a_new_beginning_other_bits_may_mean_the_same():
    sampled = Sampled()
    formula = sampled.formula()
    formula.run(*sampled.take(3000, busy, four))
    formula.doubt()

    def others(counts):
        return four(counts[::-1])

    _, wrong = formula.run(*sampled.take(3000, busy, others))
    assert wrong == 0
    assert (formula.contradictions(), begun_anew(formula)) == (0, 1)
    assert state(formula) == "in use"


def test_what_holds_for_idle_samples_alone_is_doubted_until_there_is_traffic():
    sampled = Sampled()
    formula = sampled.formula()
    formula.run(*sampled.take(3000, busy, four))
    formula.doubt()
    formula.run(*sampled.take(500, lambda _random, _number: [0] * 4, four))
    assert state(formula) == "in use for samples without traffic"
    _, wrong = formula.run(*sampled.take(3000, busy, lambda counts: four(counts[::-1])))
    assert (wrong, formula.contradictions(), begun_anew(formula)) == (0, 0, 1)
    assert state(formula) == "in use"


class Linked:
    """Samples made up as those of a GPU with NVLinks: blocks of 32 bytes with a counter in each."""

    def __init__(self, links, least_bits, most_bits, seed=1):
        self.random = np.random.default_rng(seed)
        widths = self.random.integers(least_bits, most_bits, 2 * links, endpoint=True)
        # of no metric: the last one
        self.widths = np.concatenate([[14, 14], widths, [20]]).astype(np.uint64)
        self.keys = self.random.integers(0, 1 << 63, len(self.widths), dtype=np.uint64)
        self.factors = np.zeros((len(self.widths), 4))
        self.factors[0, 0] = self.factors[1, 1] = 1
        self.factors[2:-1:2, 2], self.factors[3:-1:2, 3] = 32, 16
        self.size = 9 + 32 * len(self.widths) + 16
        self.number = 0

    def take(self, count, busy):
        """Return samples, and their values, every 2 µs; while it is busy one in four is idle."""
        most = (np.uint64(1) << self.widths) - np.uint64(1)
        shares = self.random.random((count, len(most))) * busy
        shares *= self.random.random((count, 1)) > 0.25
        counts = (shares * most).astype(np.uint64)
        raw = np.zeros((count, self.size), np.uint8)
        numbers = np.arange(self.number, self.number + count, dtype=np.uint64)
        self.number += count

        def put(at, words, dtype):
            words = np.ascontiguousarray(words, dtype)
            raw[:, at : at + words.itemsize] = words[:, None].view(np.uint8)

        put(4, numbers, "<u4")
        for i, key in enumerate(self.keys):
            put(9 + 32 * i, counts[:, i] ^ key, "<u8")
        for at, end in ((self.size - 16, 0), (self.size - 8, 1)):
            put(at, 1_700_000_000_000_000_000 + 2016 * (numbers + np.uint64(end)), "<u8")
        return raw.tobytes(), (counts @ self.factors).tolist()


@pytest.mark.parametrize(("links", "least", "most"), [(18, 11, 24), (36, 11, 12)])
def test_many_links_that_become_busy_are_learned_from_about_as_many_samples_as_bits(
    links, least, most
):
    sampled = Linked(links, least, most)
    formula = SampleFormula(sampled.size, 4)
    evaluated, wrong = formula.run(*sampled.take(2000, busy=False))
    assert (wrong, evaluated < 600) == (0, True)
    bits = int(sampled.widths.sum())
    evaluated, wrong = formula.run(*sampled.take(3000, busy=True))
    assert wrong == 0
    assert evaluated < 1.1 * bits + 600  # each once, and proofs: 5 to 10 ms of CUPTI's time
    _, size, rows, columns, _ = formula.report()
    assert size == sampled.size
    assert 0.95 * bits < rows <= columns < bits + 100
    # A third of a cube, since rows are triangular; and what follows from them, again and again.
    assert formula.work() < 0.6 * columns**3
    work = formula.work()
    evaluated, wrong = formula.run(*sampled.take(3000, busy=True))
    assert (wrong, formula.contradictions()) == (0, 0)
    assert evaluated < 0.05 * 3000  # by chance, and a bit of the times
    assert formula.work() - work < 0.05 * work
    assert state(formula) == "in use"


def test_what_is_no_number_now_and_then_is_left_to_cupti():
    sampled = Sampled()
    formula = sampled.formula()
    raw, values = sampled.take(3000, busy, four)
    for i in range(5, 3000, 300):
        values[i] = [float("nan")] * 4
    formula.run(raw, values)
    evaluated, wrong = formula.run(*sampled.take(20_000, busy, four))
    assert wrong == 0
    assert evaluated < SELDOM * 20_000


@pytest.mark.parametrize("odd", [0, 40])
def test_a_single_sample_that_is_none_does_not_end_it(odd):
    sampled = Sampled()
    formula = sampled.formula()
    raw, values = sampled.take(3000, busy, four)
    values[odd] = [one + 1 for one in values[odd]]
    _, wrong = formula.run(raw, values)
    evaluated, wrong = formula.run(*sampled.take(20_000, busy, four))
    assert (wrong, formula.contradictions(), begun_anew(formula)) == (0, 0, 1)
    assert evaluated < SELDOM * 20_000


def test_each_reason_not_to_use_it_has_words():
    sampled = Sampled()
    fractions, no_sum = sampled.formula(), SampleFormula(35, 1)
    fractions.run(*sampled.take(500, busy, lambda counts: [one / 7 for one in counts]))
    one = Sampled(counters=1)
    no_sum.run(*one.take(500, lambda r, _: [r.randrange(4000)], lambda counts: [counts[0] ** 2]))
    many = SampleFormula(1000, 1)
    many.run(random.Random(1).randbytes(3000), [[0.0], [1.0], [2.0]])
    assert "whole numbers" in state(fractions)
    assert "no sums" in state(no_sum)
    assert "too many bits" in state(many)
    assert "too large" in state(SampleFormula(16_385, 1))
    assert "not known" in state(SampleFormula(0, 1))


def test_too_large_samples_are_left_to_cupti():
    formula = SampleFormula(16_385, 1)
    assert formula.run(bytes(16_385 * 50), [[0.0]] * 50) == (50, 0)


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
