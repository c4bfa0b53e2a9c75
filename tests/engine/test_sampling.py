import numpy as np
import pytest

from lanescope.engine.sampling import Plan, measure_all, sample_call
from lanescope.errors import NotMeasuredError
from lanescope.results import LinkEvidence, Status
from tests.conftest import experiment_of, gpu_to_host, host_to_gpu
from tests.fake_backend import FakeBackend

TEN_MS = 512 * 2**20 / 55e9


def measured(machine, seconds, *experiments, plan=None, evidence=()):
    results = []
    backend = FakeBackend(seconds, evidence)
    plan = plan or Plan(budget_seconds=0.05)
    measure_all(
        experiments or [experiment_of(host_to_gpu())], backend, machine, plan, results.append
    )
    return results


def test_steady_samples_converge(two_gpus):
    result = measured(two_gpus, lambda copy, batch: [TEN_MS] * 2)[0]
    assert result.stop.reason == "converged"
    assert result.copies[0].statistics.n == 6
    assert result.copies[0].gbs == pytest.approx(55)
    assert result.copies[0].verdict.status is Status.HEALTHY


def test_noise_spends_the_budget_and_says_so(two_gpus):
    random = np.random.default_rng(1)
    noise = lambda copy, batch: list(TEN_MS * random.uniform(0.5, 1.5, 4))  # noqa: E731
    result = measured(two_gpus, noise, plan=Plan(0.0001, 0.02))[0]
    assert result.stop.reason == "budget"
    assert "budget" in str(result.stop)
    assert result.stop.spent_seconds >= 0.02
    assert result.copies[0].statistics.half_width > 0.0001


def test_samples_are_kept_raw(two_gpus):
    result = measured(two_gpus, lambda copy, batch: [TEN_MS, TEN_MS * (1 + batch)])[0]
    assert list(result.copies[0].seconds[:4]) == [TEN_MS, TEN_MS, TEN_MS, TEN_MS * 2]


def test_a_path_that_fails_does_not_stop_the_rest(two_gpus):
    def seconds(copy, batch):
        if copy.destination.part == "g0":
            raise NotMeasuredError("GPU 0 fell off.", "Look at dmesg.")
        return [TEN_MS] * 6

    cases = [experiment_of(host_to_gpu(gpu=g), name=f"h2d/g{g}") for g in (0, 1)]
    lost, fine = measured(two_gpus, seconds, *cases)
    assert lost.not_measured.status is Status.NOT_MEASURED
    assert lost.not_measured.remedy == "Look at dmesg."
    assert lost.copies == ()
    assert fine.copies[0].verdict.status is Status.HEALTHY


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_what_was_sampled_before_an_interruption_is_handed_on(two_gpus, interruption):
    def seconds(copy, batch):
        if batch == 3:
            raise interruption
        return [TEN_MS]

    results = []
    with pytest.raises(interruption):
        measure_all(
            [experiment_of(host_to_gpu())], FakeBackend(seconds), two_gpus, Plan(), results.append
        )
    assert results[0].stop.reason == "interrupted"
    assert results[0].copies[0].statistics.n == 3


def test_a_copy_without_a_shared_window_is_not_measured(two_gpus):
    both = experiment_of(host_to_gpu(), gpu_to_host())
    lone = lambda copy, batch: [] if copy.source.is_host else [TEN_MS]  # noqa: E731
    assert "ends before" in measured(two_gpus, lone, both)[0].not_measured.reason


def test_times_of_nothing_are_no_measurement(two_gpus):
    reason = measured(two_gpus, lambda copy, batch: [0.0] * 6)[0].not_measured.reason
    assert "within one step of the clock" in reason


def test_evidence_reaches_the_verdict(two_gpus):
    evidence = (LinkEvidence("g0", 4, 16),)
    result = measured(two_gpus, lambda copy, batch: [TEN_MS * 2.3] * 6, evidence=evidence)[0]
    assert result.copies[0].verdict.status is Status.SLOW


@pytest.mark.parametrize("wanted", [1, 7, 20])
def test_as_many_samples_as_asked_for_and_no_more(two_gpus, wanted):
    """Batches bring what they bring, and not the same of each copy."""
    both = experiment_of(host_to_gpu(), gpu_to_host())
    uneven = lambda copy, batch: [TEN_MS] * (5 if copy.source.is_host else 3)  # noqa: E731
    (result,) = measured(two_gpus, uneven, both, plan=Plan(samples=wanted))
    assert result.stop.reason == "samples"
    assert [c.statistics.n for c in result.copies] == [wanted, wanted]


def test_a_call_is_sampled_until_its_median_is_known():
    calls = []
    seconds = sample_call(lambda: calls.append(0) or 0.25, Plan(budget_seconds=0.5))
    assert list(seconds) == [0.25] * 6
    assert len(calls) == 6  # each takes longer than a batch


def test_a_noisy_call_spends_the_budget():
    random = np.random.default_rng(1)
    seconds = sample_call(lambda: random.uniform(1e-6, 3e-6), Plan(budget_seconds=0.2))
    assert seconds.size > 100
    assert seconds.min() < 1.1e-6 < 2.9e-6 < seconds.max()


@pytest.mark.parametrize(
    ("times", "status"),
    [([2.0] * 6 + [6.0, 6.2], Status.SLOW), ([1.08] * 6 + [1.0, 1.0], Status.UNJUDGED)],
)
def test_slow_samples_excuse_no_slow_path(two_gpus, times, status):
    """The first interval is the wider one, as two samples were held up, but has no fast end."""
    seconds = lambda copy, batch: [TEN_MS * one for one in times]  # noqa: E731
    (result,) = measured(two_gpus, seconds, plan=Plan(samples=len(times)))
    assert result.copies[0].verdict.status is status
