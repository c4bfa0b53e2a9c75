"""How cases share the time of --within: a clock that only the engine moves."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

from lanescope.engine.base import Deadline
from lanescope.engine.sampling import PATIENCE_SECONDS, Plan, measure_all
from lanescope.errors import NotMeasuredError
from lanescope.results import MIN_SAMPLES, Source, Status
from tests.conftest import experiment_of, host_to_gpu
from tests.fake_backend import FakeSession

TEN_MS = 0.01


@dataclass
class Slow:
    """An engine whose work takes time on a clock of its own.

    Attributes
    ----------
    ready, batch, check
        Seconds that making ready, a batch of `samples` samples, and the check take.
    """

    ready: float = 0.1
    batch: float = 0.1
    check: float = 0.05
    samples: int = 2
    now: float = 1000.0
    batches: list[int] = field(default_factory=list)
    source = Source.MEASURED

    @contextmanager
    def prepare(self, experiment):
        self.now += self.ready
        self.batches.append(0)
        yield _Session(self, experiment)


class _Session(FakeSession):
    def __init__(self, engine, experiment):
        super().__init__(experiment, self._noise, ())
        self._engine = engine
        self._random = np.random.default_rng(len(engine.batches))

    def _noise(self, copy, batch):
        self._engine.now += self._engine.batch
        self._engine.batches[-1] += 1
        return list(TEN_MS * self._random.uniform(0.5, 1.5, self._engine.samples))

    def check(self):
        self._engine.now += self._engine.check


def measured(machine, engine, cases, within, plan=None, further=0):
    """Return what is handed on, and what there is no time for."""
    plan = plan or Plan(target=1e-6)
    deadline = Deadline(engine.now + within, lambda: engine.now)
    plan = Plan(plan.target, plan.budget_seconds, plan.samples, plan.verify, within, deadline)
    found = []
    experiments = [experiment_of(host_to_gpu(), name=f"case-{i}") for i in range(cases)]
    late = measure_all(experiments, engine, machine, plan, found.append, further=further)
    return found, late


def test_much_time_changes_nothing(two_gpus):
    engine = Slow()
    found, late = measured(two_gpus, engine, 3, 1000, Plan(target=1e-6, budget_seconds=1.0))
    assert late == []
    assert [r.stop.budget_seconds for r in found] == [1.0] * 3
    assert engine.batches == [10] * 3


@pytest.mark.parametrize("cases", [2, 5, 12])
def test_all_cases_have_enough_samples_where_time_suffices(two_gpus, cases):
    engine = Slow()
    begin, within = engine.now, cases * 0.6
    found, late = measured(two_gpus, engine, cases, within)
    assert late == []
    assert all(r.copies[0].statistics.n >= MIN_SAMPLES for r in found)
    assert engine.now - begin <= within + engine.batch + engine.check


def test_what_quick_cases_leave_others_have(two_gpus):
    engine = Slow(batch=0.1)
    steady = Plan(target=0.9)  # converges with the first six samples
    found, _ = measured(two_gpus, engine, 4, 4.0, steady)
    assert [r.stop.reason for r in found] == ["converged"] * 4
    shares = [r.stop.budget_seconds for r in found]
    assert shares == sorted(shares)


@pytest.mark.parametrize("within", [0.5, 1.0, 2.5])
def test_the_last_cases_are_those_that_are_left_out(two_gpus, within):
    engine = Slow(ready=0.3)
    begin = engine.now
    found, late = measured(two_gpus, engine, 20, within)
    assert 0 < len(found) < 20
    assert [r.experiment.name for r in [*found, *late]] == [f"case-{i}" for i in range(20)]
    assert all(r.copies for r in found), "each has a sample at least"
    for result in late:
        assert result.not_measured.status is Status.NOT_MEASURED
        assert result.not_measured.reason == "The time given by --within was over."
        assert result.stop.reason == "time"
    longest = engine.ready + engine.batch + engine.check  # what was begun is ended
    assert engine.now - begin <= within + longest


def test_without_any_time_nothing_is_begun(two_gpus):
    engine = Slow()
    found, late = measured(two_gpus, engine, 3, 0.0)
    assert (found, len(late), engine.batches) == ([], 3, [])


def test_a_case_without_a_sample_when_the_time_is_over_is_not_measured(two_gpus):
    engine = Slow(samples=0)
    found, _ = measured(two_gpus, engine, 1, 0.15)
    assert found[0].stop.reason == "time"
    assert found[0].not_measured is not None


def test_later_stages_have_their_share(two_gpus):
    alone, shared = Slow(), Slow()
    (result,), _ = measured(two_gpus, alone, 1, 8.0, Plan(target=1e-6, budget_seconds=100))
    assert result.stop.budget_seconds == pytest.approx(7.9)
    (result,), _ = measured(two_gpus, shared, 1, 8.0, Plan(target=1e-6, budget_seconds=100), 3)
    assert result.stop.budget_seconds == pytest.approx(1.9)


def test_as_many_samples_as_asked_for_end_with_the_time(two_gpus):
    engine = Slow()
    begin = engine.now
    (result,), _ = measured(two_gpus, engine, 1, 2.0, Plan(samples=1000))
    assert 0 < result.copies[0].statistics.n < 1000
    assert engine.now - begin <= 2.0 + engine.batch + engine.check


def test_slow_samples_end_a_while_after_the_budget(two_gpus):
    """What a machine that is busy with other things makes of a budget, without --within."""
    engine = Slow(batch=0.9, samples=1)
    plan = Plan(target=1e-6, budget_seconds=0.2)
    found = []
    plan = Plan(1e-6, 0.2, deadline=Deadline(float("inf"), lambda: engine.now))
    measure_all([experiment_of(host_to_gpu())], engine, two_gpus, plan, found.append)
    (result,) = found
    assert 0 < result.copies[0].statistics.n < MIN_SAMPLES
    assert result.stop.spent_seconds <= 0.2 + PATIENCE_SECONDS + engine.batch


def test_the_time_runs_from_when_the_plan_begins():
    assert Plan().begun().deadline is None
    plan = Plan(within_seconds=15).begun(at=100.0)
    assert plan.deadline.ends_at == 115
    assert plan.begun(at=500.0).deadline.ends_at == 115, "it began once"


def test_the_end_is_left_to_storing_and_showing():
    deadline = Deadline(100.0, lambda: 0.0)
    assert 0.6 <= 100 - deadline.before_the_end(13).ends_at < 1
    assert 100 - deadline.before_the_end(1300).ends_at < 5


def test_what_else_fails_is_no_lack_of_time(two_gpus):
    class Refusing(Slow):
        @contextmanager
        def prepare(self, experiment):
            raise NotMeasuredError("GPU 0 fell off.")
            yield

    (result,), _ = measured(two_gpus, Refusing(), 1, 5.0)
    assert result.stop is None
