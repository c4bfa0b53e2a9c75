"""When samples come faster than they can be fetched: decided from numbers, and by a model of it."""

import dataclasses
import random
from collections.abc import Callable

import pytest

from lanescope._core import native

US, MS, S = 1_000, 1_000_000, 1_000_000_000
PERIOD, BUFFER = 50 * MS, 512 << 20
#: What is left of a thread, and what the rate is lowered to.
MOST_LOAD, FINE_LOAD = 0.9, 0.75


def judge_of(interval_ns=2 * US, buffered=400_000):
    return native.testing.SamplingLoad(interval_ns, PERIOD, buffered)


@dataclasses.dataclass
class Decoder:
    """A thread that fetches samples, which costs it so much each time and for each sample.

    Attributes
    ----------
    decode_us, evaluate_us
        Of a sample; functions of the time since the start, s.
    fixed_us
        Of a fetching.
    learned
        So many samples cost 20 µs more, which is known to be learning.
    restart_s
        Nothing is sampled meanwhile.
    noise
        What is random: some fetchings take up to three times as long.
    """

    wanted_us: float
    decode_us: Callable[[float], float] = lambda at: 1.3
    evaluate_us: Callable[[float], float] = lambda at: 1.2
    fixed_us: float = 1000
    learned: int = 0
    restart_s: float = 0.6
    noise: random.Random | None = None
    sample_bytes: int = 1344

    def run(self, seconds):
        """Return since when the interval was which, s and µs, the first one included."""
        wanted = int(self.wanted_us * US)
        buffered = BUFFER // self.sample_bytes
        judge, interval, steps = judge_of(wanted, buffered), wanted, [(0.0, self.wanted_us)]
        now = begun = fetched_until = last = 0.0  # ns
        fetchings, waiting, counted, self.lost_ns = 0, 0, 0, 0.0
        while now < seconds * S:
            if not waiting:
                short = max(3 - fetchings, 0)
                period = PERIOD / 2**short
                now = max(last + period, now + min(period, PERIOD / 4))
            fetchings += 1
            decoded, learning, overflowed = (0, 0), 0.0, False
            begin, before = now, counted
            had = waiting
            if not waiting:
                waiting = int((now - fetched_until) // interval)
                overflowed = waiting > buffered
                fetched_until = now
                took = self._took(waiting, self.decode_us, now, self.fixed_us / 2)
                decoded, now = (waiting, int(took)), now + took
            each = self.evaluate_us(now / S) * US
            done = min(waiting, int(max(100 * MS - (now - begin), MS) / each))
            took = self._took(done, self.evaluate_us, now, self.fixed_us / 2)
            if (news := min(self.learned, done)) > 0:
                self.learned -= news
                learning = news * 20 * US
            now += took + learning
            waiting, counted = waiting - done, counted + done
            since, last = begin - last, begin
            sampled = (counted - before) * interval if had or waiting else since
            found = judge.add(
                int(sampled), decoded, (done, int(took)), overflowed, counted,
                learning_ns=int(learning),
            )  # fmt: skip
            if found != interval or overflowed:
                self.lost_ns += now - fetched_until + waiting * interval + self.restart_s * S
                steps.append((now / S, found / US))
                now += self.restart_s * S
                interval, begun, fetched_until, waiting, fetchings = found, now, now, 0, 0
                last = begun
                judge.begin_again(interval, counted)
        self.settled = judge.settled
        return steps

    def _took(self, samples, each_us, at, fixed_us):
        held_up = 1.0
        if self.noise is not None and self.noise.random() < 0.1:
            held_up = self.noise.uniform(1, 3)
        return (fixed_us + samples * each_us(at / S)) * US * held_up


def constant(us):
    return lambda at: us


def shortest(wanted_us, sample_us, most):
    interval = wanted_us
    while sample_us / interval > most:
        interval *= 2
    return interval


@pytest.mark.parametrize("wanted_us", [2, 4, 5, 8, 10, 20, 100, 1000])
@pytest.mark.parametrize("sample_us", [0.3, 1.2, 2.2, 2.5, 2.8, 4.0, 9.0])
def test_the_rate_is_lowered_in_one_step_within_the_first_second_and_no_further_than_needed(
    wanted_us, sample_us
):
    decoder = Decoder(wanted_us, constant(sample_us / 2), constant(sample_us / 2))
    steps = decoder.run(8)
    if sample_us / wanted_us <= 0.85:
        assert steps == [(0.0, wanted_us)]
    else:
        assert len(steps) == 2
        at, interval = steps[1]
        assert at < 1.0
        assert interval == shortest(wanted_us, sample_us, FINE_LOAD)
    assert decoder.settled


@pytest.mark.parametrize("sample_us", [2.2, 2.5, 2.8])
def test_every_2_us_of_18_nvlinks_becomes_every_4_us_and_less_than_a_second_is_lost(sample_us):
    decoder = Decoder(2, constant(0.5 * sample_us), constant(0.5 * sample_us), learned=5000)
    ((_, first), (at, interval)) = decoder.run(20)
    assert (first, interval) == (2, 4)
    assert at < 0.8
    assert decoder.lost_ns < 1.2 * S  # 0.6 of it are the new beginning


@pytest.mark.parametrize("fixed_us", [0, 1000, 10_000])
def test_costs_of_a_fetching_and_of_its_samples_are_separate(fixed_us):
    """10 ms of each 50 ms, and 2 µs of a sample: 4 µs would need 0.7 of a thread, 2 µs 1.2."""
    ((_, _), (at, interval)) = Decoder(2, constant(1), constant(1), fixed_us).run(10)
    assert interval == 4
    assert at < 1.0


@pytest.mark.parametrize("wanted_us", [4, 10, 100])
@pytest.mark.parametrize("learned", [600, 5000, 40_000])
def test_what_learning_takes_says_nothing(wanted_us, learned):
    assert Decoder(wanted_us, learned=learned).run(5) == [(0.0, wanted_us)]


@pytest.mark.parametrize("seed", range(8))
def test_fetchings_that_are_held_up_now_and_then_say_nothing(seed):
    held_up = random.Random(seed)
    assert Decoder(4, constant(1), constant(1), noise=held_up).run(30) == [(0.0, 4)]
    assert len(Decoder(2, constant(1.2), constant(1.2), noise=held_up).run(3)) == 2


def test_what_a_program_s_start_took_is_had_back():
    """While it starts a sample takes four times as long; it is 4 µs that holds."""
    decoder = Decoder(2, lambda at: 5 if at < 1.5 else 1.2, lambda at: 5 if at < 1.5 else 1.2)
    steps = decoder.run(60)
    assert [interval for _, interval in steps] == [2, 16, 8, 4]
    assert steps[2][0] < 5
    assert steps[3][0] < 20


@pytest.mark.parametrize("cores", [1, 2])
def test_eight_gpus_on_few_cores_do_not_go_up_and_down(cores):
    """A sample takes longer while threads wait for cores, less when all sample more rarely."""

    def waiting(us):
        return lambda at: us * 8 / cores * (1 if at < 2 else 0.6)

    steps = [interval for _, interval in Decoder(2, waiting(1.3), waiting(1.2)).run(120)]
    assert steps[1] == max(steps) == shortest(2, 2.5 * 8 / cores, FINE_LOAD)
    assert len(steps) <= 5
    assert min(steps[1:]) >= steps[1] / 2


def test_a_rate_that_was_tried_again_in_vain_is_left_alone():
    """Samples cost too much whenever they come every 2 µs, and little otherwise."""
    load = judge_of()
    interval, tried, counted = 2 * US, [], 0
    for _ in range(5000):
        cost = 3000 if interval == 2 * US else 400
        n = PERIOD // interval
        counted += n
        found = load.add(PERIOD, (n, n * cost), (n, n * 100), samples=counted)
        if found != interval:
            tried.append(found // US)
            interval = found
            load.begin_again(interval, counted)
    assert tried == [8, 4, 2, 8]


def fetching(judge, sample_us=1.0, n=25_000, **more):
    return judge.add(
        50 * MS, (n, int(n * sample_us * US / 2)), (n, int(n * sample_us * US / 2)), **more
    )


@pytest.mark.parametrize("took_ms", [300, 700, 10_000])
def test_one_fetching_that_comes_late_says_nothing(took_ms):
    judge = judge_of()
    assert fetching(judge) == 2 * US
    assert fetching(judge, sample_us=took_ms / 25) == 2 * US
    assert {fetching(judge) for _ in range(20)} == {2 * US}


def test_what_is_lost_while_it_learns_says_nothing():
    judge, samples, lost, gaps = judge_of(100 * US), 0, 0, 0
    for learning_ms, wanted in ((30, 100 * US), (0, 200 * US)):
        found = []
        for _ in range(8):
            samples, lost, gaps = samples + 500, lost + 100, gaps + 1
            found.append(
                fetching(judge, 20, 500, samples=samples, lost=lost, gaps=gaps,
                         learning_ns=learning_ms * MS)
            )  # fmt: skip
        assert max(found) == wanted


def test_samples_that_are_lost_again_and_again_are_too_many_and_that_is_not_tried_again():
    judge, samples, lost, gaps, found = judge_of(), 0, 0, 0, []
    for _ in range(8):
        samples, lost, gaps = samples + 100, lost + 20, gaps + 1
        found.append(fetching(judge, 0.2, samples=samples, lost=lost, gaps=gaps))
    assert found == [2 * US] * 7 + [4 * US]
    judge.begin_again(4 * US, samples, lost, gaps)
    assert {fetching(judge, 0.2, samples=samples + 1 + i) for i in range(200)} == {4 * US}


def test_what_is_lost_as_samples_cost_too_much_is_tried_again_when_they_do_not():
    judge, samples, lost, gaps, found = judge_of(), 0, 0, 0, 2 * US
    while found == 2 * US:
        samples, lost, gaps = samples + 100, lost + 20, gaps + 1
        found = fetching(judge, 3, samples=samples, lost=lost, gaps=gaps)
    assert found == 4 * US
    judge.begin_again(found, samples, lost, gaps)
    told = [fetching(judge, 0.5, samples=samples + 1 + i, lost=lost, gaps=gaps) for i in range(60)]
    assert max(told) == 4 * US
    assert min(told) == 2 * US


def test_one_long_gap_is_no_rate():
    judge = judge_of()
    told = [fetching(judge, samples=100, lost=10_000, gaps=1) for _ in range(48)]
    assert set(told) == {2 * US}


def test_an_overflow_is_too_many_at_once():
    assert fetching(judge_of(), overflowed=True) == 4 * US


def test_an_overflow_of_a_costly_rate_is_followed_by_one_that_holds():
    judge = judge_of()
    for _ in range(3):
        assert fetching(judge, 9, 5000) == 2 * US
    assert fetching(judge, 9, 5000) == 16 * US
    judge = judge_of()
    assert fetching(judge, 9, 5000, overflowed=True) == 4 * US  # nothing is known of costs


def test_whoever_was_stopped_finds_the_buffer_full_at_any_rate():
    judge = judge_of()
    assert judge.add(10 * S, (0, 0), (0, 0), True) == 2 * US
    assert judge.add(10 * S, (0, 0), (0, 0), True) == 4 * US  # again: it is the rate
    judge = judge_of()
    assert judge.add(10 * S, (0, 0), (0, 0), True) == 2 * US
    assert {fetching(judge) for _ in range(20)} == {2 * US}
    assert judge.add(10 * S, (0, 0), (0, 0), True) == 2 * US  # that it was stopped is long ago


def test_a_buffer_that_ran_over_while_it_learned_says_nothing():
    judge = judge_of()
    assert fetching(judge, learning_ns=300 * MS) == 2 * US
    assert fetching(judge, learning_ns=300 * MS, overflowed=True) == 2 * US
    assert fetching(judge, overflowed=True) == 4 * US


def test_what_a_new_beginning_loses_counts_for_nothing():
    judge = judge_of()
    assert fetching(judge, overflowed=True, samples=100) == 4 * US
    judge.begin_again(4 * US, 100, 0, 0)
    assert fetching(judge, samples=100) == 4 * US
    assert fetching(judge, samples=200, lost=5000, gaps=5) == 4 * US
    told = {fetching(judge, samples=200, lost=5000, gaps=5) for _ in range(20)}
    assert told == {4 * US}


def test_no_interval_is_longer_than_counters_last():
    judge = judge_of(40 * MS)
    told = [fetching(judge, 400_000, 1) for _ in range(8)]
    assert max(told) == 50 * MS
    judge.begin_again(50 * MS)
    assert {fetching(judge, 400_000, 1, samples=i) for i in range(8)} == {50 * MS}
