"""When samples come faster than they can be fetched: decided from numbers."""

import pytest

from lanescope._core import native

MS = 1_000_000
BUFFERED = 2000 * MS


def load():
    return native.testing.SamplingLoad(BUFFERED)


def verdicts(judge, times, sampled_ms, took_ms, **counts):
    """Return what is said of each of some fetchings, one like the other, until one is too many."""
    found = []
    for _ in range(times):
        found.append(judge.add(int(sampled_ms * MS), int(took_ms * MS), **counts))
    return found


def test_a_rate_that_holds_stays():
    assert set(verdicts(load(), 100, 50, 10)) == {1}


@pytest.mark.parametrize(
    ("took_ms", "factor"),
    [(46, 2), (74, 2), (76, 4), (84, 4)],  # at most 0.75 is left of 0.92, 1.48, 1.52 ...
)
def test_fetchings_that_take_as_long_as_samples_take_to_come_are_known_at_once(took_ms, factor):
    found = verdicts(load(), 8, 50, took_ms)
    assert found == [1] * 7 + [factor]  # after 0.4 s of samples


@pytest.mark.parametrize("took_ms", [150, 400, 30_000])
def test_far_too_many_samples_are_found_within_a_second_and_at_most_four_times_at_once(took_ms):
    judge = load()
    found, took = 1, 0
    while found == 1 and took < 60_000:
        found, took = judge.add(50 * MS, took_ms * MS), took + took_ms
    assert found == 4
    assert took <= max(1000, 2 * took_ms)  # fetchings are cut short after 0.4 s


@pytest.mark.parametrize("took_ms", [300, 700, 10_000])
def test_one_fetching_that_comes_late_says_nothing(took_ms):
    judge = load()
    assert judge.add(50 * MS, took_ms * MS) == 1
    assert judge.add(took_ms * MS, 20 * MS) == 1
    assert set(verdicts(judge, 20, 50, 5)) == {1}


def test_what_learning_takes_says_nothing():
    judge = load()
    assert set(verdicts(judge, 8, 50, 390, learning_ns=380 * MS)) == {1}
    assert judge.add(400 * MS, 5 * MS) == 1
    assert max(verdicts(judge, 16, 50, 390, learning_ns=330 * MS)) > 1  # 60 ms each without it


def test_what_is_lost_while_it_learns_says_nothing():
    judge, samples, lost, gaps = load(), 0, 0, 0
    for took_ms, learning_ms, factor in ((45, 30, 1), (15, 1, 2)):
        found = []
        for _ in range(8):
            samples, lost, gaps = samples + 100, lost + 20, gaps + 1
            found.append(
                judge.add(
                    50 * MS, took_ms * MS, samples=samples, lost=lost, gaps=gaps,
                    learning_ns=learning_ms * MS,
                )
            )  # fmt: skip
        assert max(found) == factor


def test_samples_that_are_lost_again_and_again_are_too_many():
    judge, samples, lost, gaps, found = load(), 0, 0, 0, []
    for _ in range(8):
        samples, lost, gaps = samples + 100, lost + 20, gaps + 1
        found.append(judge.add(50 * MS, 5 * MS, samples=samples, lost=lost, gaps=gaps))
    assert found == [1] * 7 + [2]


def test_one_long_gap_is_no_rate():
    judge = load()
    assert set(verdicts(judge, 8, 50, 5, samples=100, lost=10_000, gaps=1)) == {1}
    assert set(verdicts(judge, 40, 50, 5, samples=100, lost=10_000, gaps=1)) == {1}


def test_an_overflow_is_too_many_at_once():
    assert load().add(50 * MS, 5 * MS, overflowed=True) == 2


def test_whoever_was_stopped_finds_the_buffer_full_at_any_rate():
    judge = load()
    assert judge.add(10_000 * MS, 5 * MS, overflowed=True) == 1
    assert judge.add(1500 * MS, 5 * MS, overflowed=True) == 2  # again: it is the rate
    judge = load()
    assert judge.add(10_000 * MS, 5 * MS, overflowed=True) == 1
    assert set(verdicts(judge, 20, 50, 5)) == {1}
    assert judge.add(10_000 * MS, 5 * MS, overflowed=True) == 1  # that it was stopped is long ago


def test_a_buffer_that_ran_over_while_it_learned_says_nothing():
    judge = load()
    assert judge.add(50 * MS, 400 * MS, learning_ns=300 * MS) == 1
    assert judge.add(50 * MS, 400 * MS, learning_ns=300 * MS, overflowed=True) == 1
    assert judge.add(50 * MS, 5 * MS, overflowed=True) == 2


def test_what_a_new_beginning_loses_counts_for_nothing():
    judge = load()
    assert judge.add(50 * MS, 5 * MS, overflowed=True, samples=100) == 2
    judge.begin_again(100, 0, 0)
    assert judge.add(50 * MS, 5 * MS, samples=100) == 1
    assert judge.add(50 * MS, 5 * MS, samples=200, lost=5000, gaps=5) == 1
    assert set(verdicts(judge, 20, 50, 5, samples=200, lost=5000, gaps=5)) == {1}
