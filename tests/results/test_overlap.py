import numpy as np
import pytest

from lanescope.results.turns import (
    overlapping_spans,
    overlapping_windows,
    shares_of_common_time,
)


def test_a_copy_alone_keeps_all_windows():
    assert overlapping_windows([[1, 2, 4]])[0] == pytest.approx([1, 2])


def test_windows_outside_the_common_time_are_dropped():
    fast, slow = [0, 1, 2, 3, 4], [0.5, 2.5, 4.5]
    kept = overlapping_windows([fast, slow])
    assert kept[0] == pytest.approx([1, 1, 1])  # from 1 to 4; 0 to 1 began before the other
    assert kept[1] == pytest.approx([2])  # 0.5 to 2.5; 2.5 to 4.5 ran on alone


def test_a_lone_tail_would_have_looked_too_fast():
    # the second copy speeds up once the first has ended
    slow = list(np.arange(0, 4.1, 1.0))
    speeding = [*np.arange(0, 4.1, 1.0), 4.5, 5.0]
    assert set(overlapping_windows([slow, speeding])[1]) == {1.0}


def test_no_common_window():
    kept = overlapping_windows([[0, 1], [5, 6, 7]])
    assert [k.size for k in kept] == [0, 0]


def test_repetitions_with_gaps_count_when_all_ran():
    first = [(0.0, 1.0), (1.5, 2.0), (2.0, 3.0)]
    second = [(0.1, 1.9), (1.9, 2.9)]
    kept = overlapping_spans([first, second])
    assert kept[0] == pytest.approx([0.5])  # the first began alone, the last went on alone
    assert kept[1] == pytest.approx([1.8, 1.0])
    assert overlapping_spans([first])[0] == pytest.approx([1.0, 0.5, 1.0])


def test_threads_that_take_turns_on_a_cpu_are_not_each_as_fast_as_alone():
    # ten repetitions of 1 s in each turn, and a turn of the other between
    first = [(t, t + 1.0) for turn in (0, 20, 40) for t in np.arange(turn, turn + 10.0)]
    second = [(t, t + 1.0) for turn in (10, 30, 50) for t in np.arange(turn, turn + 10.0)]
    shares = shares_of_common_time([first, second])
    # common from 10 to 50: two turns of each
    assert np.concatenate(shares) == pytest.approx([2.0, 2.0])
    assert shares_of_common_time([[(0, 1)], [(2, 3)]])[0].size == 0


def test_a_slow_copy_has_a_window_although_a_fast_one_ends_early():
    """Two H100s: PCIe both ways on both, beside NVLink, which is done after 47 ms."""
    slow = [[20.2, 40.3, 60.1], [12.2, 24.8, 37.3, 49.5], [20.1, 40.1, 60.0]]
    fast = [1.48 + 1.385 * i for i in range(34)]
    found = overlapping_windows([*slow, fast])
    assert [one.size for one in found] == [1, 2, 1, 33]
    assert found[0] == pytest.approx([20.1])
    assert found[1] == pytest.approx([12.6, 12.5])


def test_a_copy_that_begins_late_is_waited_for_all_the_same():
    late = [101.0, 102.0, 103.0]
    early = [10.0, 20.0, 90.0, 99.0]
    assert overlapping_windows([early, late])[0].size == 0
