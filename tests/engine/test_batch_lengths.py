"""Batches fill the budget: they end with it, and hopeless ones are long."""

from __future__ import annotations

import numpy as np
import pytest

from lanescope.copies.experiment import experiment_of
from lanescope.copies.grammar import parse_copies
from lanescope.engine.base import Deadline
from lanescope.engine.sampling import Plan, measure_all
from lanescope.results import Status
from tests.engines import Engines
from tests.findings.machine.simulator import nvswitched
from tests.torture.test_turns import Backend

#: Between two batches.
_OVERHEAD_SECONDS = 1e-3


class NoisyEngines(Engines):
    """Windows of random lengths, by a clock that moves as far as they take."""

    def __init__(self, seconds, noise, seed, *, disturbed_until=0.0):
        super().__init__([seconds], [[0]])
        self.now, self._disturbed_until = 0.0, disturbed_until
        self._noise, self._random = noise, np.random.default_rng(seed)

    def run_gated(self, *arguments):
        (ends,) = super().run_gated(*arguments)
        lengths = np.diff([0.0, *ends])
        lengths *= self._random.uniform(1 - self._noise, 1 + self._noise, len(ends))
        if self.now < self._disturbed_until:
            lengths *= self._random.uniform(1, 3, len(ends))
        self.now += float(lengths.sum()) + _OVERHEAD_SECONDS
        return [list(np.cumsum(lengths))]


def sampled(engines, budget, **more):
    machine = nvswitched(1)
    plan = Plan(budget_seconds=budget, deadline=Deadline(1e9, lambda: engines.now), **more)
    results = []
    experiment = experiment_of(parse_copies("h0 -> g0", machine))
    measure_all([experiment], Backend(engines), machine, plan, results.append)
    return results[0]


@pytest.mark.parametrize("window", [8.8e-3, 9.7e-3, 11e-3, 13e-3, 17e-3])
@pytest.mark.parametrize("budget", [0.3, 0.4, 1.0])
def test_sampling_ends_with_the_budget(window, budget):
    result = sampled(NoisyEngines(window, 0.05, 1), budget)
    assert result.stop.reason == "budget"
    assert result.stop.spent_seconds == pytest.approx(budget, abs=1.7 * window)


def test_where_the_target_is_out_of_reach_few_windows_only_warm_up():
    engines = NoisyEngines(10e-3, 0.3, 1)
    result = sampled(engines, 0.4)
    assert len(engines.calls) == 3
    assert result.copies[0].statistics.n >= 32  # of 40 windows that fit


def test_a_target_out_of_reach_takes_the_time_for_noisy_paths_only():
    result = sampled(NoisyEngines(10e-3, 0.3, 1), 0.4, noisy_seconds=0.2)
    assert result.stop.reason == "budget"
    assert result.stop.spent_seconds == pytest.approx(0.2, abs=0.02)
    assert str(result.stop).endswith(" s of a budget of 0.4 s spent before 0.5 %")


def test_a_target_that_the_budget_nearly_reaches_takes_all_of_it():
    result = sampled(NoisyEngines(10e-3, 0.02, 1), 0.4, noisy_seconds=0.2, target=0.007)
    assert result.stop.spent_seconds > 0.3


def test_a_path_that_was_held_up_at_first_is_sampled_until_it_is_not_slow():
    result = sampled(NoisyEngines(9.5e-3, 0.01, 1, disturbed_until=0.2), 0.2)
    assert result.copies[0].verdict.status is Status.HEALTHY
    assert result.stop.reason == "budget"
    assert 0.3 < result.stop.spent_seconds < 1.2


def test_a_slow_path_is_sampled_no_longer():
    result = sampled(NoisyEngines(20e-3, 0.03, 1), 0.2)
    assert result.copies[0].verdict.status is Status.SLOW
    assert result.stop.spent_seconds == pytest.approx(0.2, abs=0.05)


def test_a_path_that_is_slow_and_noisy_is_slow_in_the_end():
    result = sampled(NoisyEngines(30e-3, 0, 1, disturbed_until=60.0), 0.2)
    assert result.copies[0].verdict.status is Status.SLOW
    assert 1 < result.stop.spent_seconds < 1.5


def test_where_the_target_is_near_batches_are_short():
    engines = NoisyEngines(10e-3, 0.01, 3)
    result = sampled(engines, 0.4)
    assert result.stop.reason == "converged"
    assert max(windows for windows, _ in engines.calls) * 10e-3 <= 0.11


def test_a_number_of_samples_is_taken_whatever_the_budget():
    result = sampled(NoisyEngines(10e-3, 0.3, 1), 0.1, samples=50)
    assert result.copies[0].statistics.n == 50
