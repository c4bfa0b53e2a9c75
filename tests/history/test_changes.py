"""Levels of a series: found where they change, and how often where they do not."""

import numpy as np
import pytest

from lanescope.history.index import LEAST_HISTORY, levels, scatter, shift_to


def series(rng, *parts, sigma=0.005, normal=True):
    """Runs of levels, given as (count, value)."""
    noise = rng.standard_normal if normal else (lambda n: rng.standard_t(3, n))
    return [float(v) for n, value in parts for v in value * np.exp(sigma * noise(n))]


@pytest.mark.parametrize(("before", "after"), [(6, 3), (10, 3), (20, 2), (20, 10), (3, 20)])
def test_a_loss_of_a_tenth_is_found_where_it_began(before, after):
    rng = np.random.default_rng(before * 100 + after)
    for _ in range(20):
        found = levels(series(rng, (before, 50.0), (after, 45.0)))
        assert [level.runs for level in found] == [before, after]
        assert found[1].value / found[0].value == pytest.approx(0.9, abs=0.01)


def test_a_loss_and_its_repair_are_two_changes():
    rng = np.random.default_rng(5)
    found = levels(series(rng, (8, 50.0), (8, 45.0), (8, 50.0)))
    assert [(level.first, level.end) for level in found] == [(0, 8), (8, 16), (16, 24)]


@pytest.mark.parametrize("runs", [4, 6, 10, 20])
@pytest.mark.parametrize(("normal", "allowed"), [(True, 0.006), (False, 0.03)])
def test_unchanged_series_show_a_change_seldom(runs, normal, allowed):
    """Of 1,000 one may; the values of normal=False have the tails of Student's t of 3 degrees."""
    rng = np.random.default_rng(runs)
    wrong = sum(
        len(levels(series(rng, (runs, 50.0), sigma=0.02, normal=normal))) > 1 for _ in range(2000)
    )
    assert wrong / 2000 <= allowed


def test_a_new_run_is_compared_with_the_level():
    rng = np.random.default_rng(3)
    values = series(rng, (12, 50.0))
    level = levels(values)[-1]
    slower, same = shift_to(values, level, 45.0), shift_to(values, level, level.value)
    assert slower.certain
    assert slower.effect == pytest.approx(45.0 / level.value - 1)
    assert abs(slower.effect + 0.1) < slower.half_width
    assert not same.certain


def test_a_small_effect_is_none_however_sure():
    values = [50.0 + 1e-4 * n for n in range(9)]
    assert not shift_to(values, levels(values)[-1], 49.1).certain
    assert shift_to(values, levels(values)[-1], 49.1, least_effect=0.005).certain


def test_few_runs_say_nothing():
    values = [50.0] * (LEAST_HISTORY - 1)
    assert [level.runs for level in levels([50.0, 10.0, 50.0])] == [3]
    assert shift_to(values, levels(values)[0], 10.0) is None
    assert scatter([50.0]) == float("inf")


def test_one_disturbed_run_changes_no_level():
    rng = np.random.default_rng(4)
    values = series(rng, (20, 50.0))
    values[11] = 20.0
    assert len(levels(values)) == 1
    assert scatter(values) < 0.01
