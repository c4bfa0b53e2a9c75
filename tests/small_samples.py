"""A made-up machine on which each way of handing pieces over has a cost of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lanescope.copies import Copy, Experiment, Submission
from lanescope.engine.sampling import Plan, measure_all
from lanescope.machine import Machine
from lanescope.results import Result
from lanescope.studies.small import COUNTS, LARGEST_BYTES, SMALLEST_BYTES, STEP, small_experiments
from lanescope.units.sizes import rising_sizes
from tests.fake_backend import FakeBackend, FakeSession

#: Seconds of a call, and of each piece.
COSTS = {
    Submission.SINGLE: (3e-6, 2e-6),
    Submission.BATCH: (9e-6, 0.4e-6),
    Submission.GRAPH: (12e-6, 0.5e-6),
    Submission.KERNEL: (8e-6, 0.01e-6),
    Submission.MAPPED: (6e-6, 0.01e-6),
}
#: Each with less of the link than the one before.
_GBS = {Submission.KERNEL: 40.0, Submission.MAPPED: 38.0}
SIZES = rising_sizes(SMALLEST_BYTES, LARGEST_BYTES, STEP)
_WOBBLE = np.array([1.0, 1.004, 0.997, 1.002, 0.999, 1.001, 1.003, 0.998])


def seconds_of(copy: Copy, batch: int = 0) -> list[float]:
    call, piece = COSTS[copy.submission]
    gbs = _GBS.get(copy.submission, 50.0)
    return list((call + piece * copy.pieces + copy.bytes / gbs / 1e9) * _WOBBLE)


class SubmittingSession(FakeSession):
    """Also says when its calls returned, as the native session does."""

    def submit_seconds(self) -> float:
        copy = self._experiment.copies[0]
        return 0.4 * seconds_of(copy)[0]


class SubmittingBackend(FakeBackend):
    def prepare(self, experiment: Experiment):
        from contextlib import nullcontext

        return nullcontext(SubmittingSession(experiment, self._seconds, ()))


def small_results(
    machine: Machine,
    sizes=SIZES,
    counts=COUNTS,
    methods=tuple(Submission),
    seconds=seconds_of,
) -> list[Result]:
    results: list[Result] = []
    experiments = small_experiments(machine, machine.gpus[:1], sizes, counts, methods)
    backend = SubmittingBackend(seconds)
    measure_all(experiments, backend, machine, Plan(budget_seconds=0.0), results.append)
    return results


def without(results: list[Result], method: Submission) -> list[Result]:
    """The same with one method not measured."""
    from lanescope.results import Status, Verdict

    missing = Verdict(Status.NOT_MEASURED, "Not applicable: this driver is too old for the call.")
    return [
        replace(r, copies=(), stop=None, not_measured=missing)
        if r.experiment.copies[0].submission is method
        else r
        for r in results
    ]
