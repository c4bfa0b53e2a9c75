import dataclasses
from pathlib import Path

import pytest

from lanescope.copies import Copy, Engine, Experiment, Memory, Place, Route
from lanescope.copies.limit import limits
from lanescope.engine import base as model
from lanescope.engine.base import ModelBackend
from lanescope.engine.sampling import Plan, measure_all
from lanescope.machine import Latencies, machine_named
from lanescope.results import Source, Status
from lanescope.store.store import read_run
from tests.conftest import experiment_of, gpu_to_host, host_to_gpu

STORED = Path(__file__).parents[2] / "benchmarks" / "results" / "h200-x2" / "suite"


def predict(machine, what):
    results = []
    one = what if isinstance(what, Experiment) else experiment_of(what)
    measure_all([one], ModelBackend(machine), machine, Plan(), results.append)
    return results[0]


def test_latency_and_limit_make_the_time(two_gpus):
    machine = dataclasses.replace(two_gpus, latencies=Latencies(h2d_us=3.0, source="a test"))
    result = predict(machine, host_to_gpu(1 << 20))
    (copy,) = result.copies
    assert result.source is Source.PREDICTED
    assert copy.verdict.status is Status.PREDICTED
    expected = 3e-6 + (1 << 20) / (copy.limit_gbs * 1e9)
    assert copy.statistics.median_seconds == pytest.approx(expected)
    assert "predicted" in result.method
    assert "a test" in result.method


def test_sets_that_differ_in_size_alone_share_their_limits(two_gpus, monkeypatch):
    asked = []
    original = model.limits
    monkeypatch.setattr(model, "limits", lambda *a: asked.append(a) or original(*a))
    backend = ModelBackend(two_gpus)
    ends = Place("g0", Memory.DEVICE), Place("g1", Memory.DEVICE)
    down, up = host_to_gpu(), gpu_to_host()
    sets = [
        (down,),
        (up,),
        (down, up),
        (down, down),
        *((Copy(*ends, 1 << 30, Engine.CE, route=route),) for route in Route),
        (Copy(*ends, 1 << 30, Engine.SM),),
        (Copy(*ends, 1 << 30, Engine.SM, executor="g1"),),
    ]
    for size in (1 << 28, 1 << 30):
        for copies in sets:
            one = experiment_of(*(dataclasses.replace(c, bytes=size) for c in copies))
            fresh = predict(two_gpus, one)
            results = []
            measure_all([one], backend, two_gpus, Plan(), results.append)
            assert results[0].copies == fresh.copies
    assert len(asked) == len(sets) * 3  # two fresh ones and one that is shared


def test_a_staged_copy_takes_the_latency_of_both_halves(two_gpus):
    known = Latencies(h2d_us=3.0, d2h_us=4.0, d2d_us=1.0)
    machine = dataclasses.replace(two_gpus, latencies=known)
    ends = Place("g0", Memory.DEVICE), Place("g1", Memory.DEVICE)
    (copy,) = predict(machine, Copy(*ends, 1 << 20, Engine.CE, route=Route.STAGED)).copies
    expected = 7e-6 + (1 << 20) / (copy.limit_gbs * 1e9)
    assert copy.statistics.median_seconds == pytest.approx(expected)


def test_no_staged_copy_that_was_measured_is_faster_than_predicted():
    measured = read_run(STORED)
    machine = machine_named("h200-x2")
    staged = [r for r in measured.results if "/staged/" in r.experiment.name]
    assert len(staged) == 18
    for result in staged:
        (copy,) = result.copies
        (limit,) = limits(measured.manifest.machine, result.experiment)
        assert copy.gbs < limit.gbs < 60
        assert copy.limit_gbs == limit.gbs  # though it was stored with that of NVLink
        (predicted,) = predict(machine, copy.copy).copies
        assert predicted.limit_gbs == pytest.approx(limit.gbs)
        # An upper bound: the driver's own work between the two halves is not in it.
        assert copy.gbs < predicted.gbs
    largest = max(staged, key=lambda r: r.experiment.copies[0].bytes)
    assert largest.copies[0].gbs > 0.6 * limit.gbs


def test_pageable_memory_needs_a_staging_rate(two_gpus):
    pageable = dataclasses.replace(host_to_gpu(), source=Place("h0", Memory.PAGEABLE))
    assert "pageable" in predict(two_gpus, pageable).not_measured.reason
    known = dataclasses.replace(two_gpus, latencies=Latencies(pageable_gbs=4.3))
    assert predict(known, pageable).copies[0].gbs == pytest.approx(4.3)


def test_nothing_is_made_up_without_a_limit(two_sockets):
    no_links = dataclasses.replace(two_sockets, links=())
    assert predict(no_links, host_to_gpu()).not_measured.status is Status.NOT_MEASURED


def test_gpus_that_cannot_be_used_or_reached_by_kernels_are_not_predicted(two_gpus):
    ends = Place("g0", Memory.DEVICE), Place("g1", Memory.DEVICE)
    apart = tuple(dataclasses.replace(gpu, peers=()) for gpu in two_gpus.gpus)
    machine = dataclasses.replace(two_gpus, gpus=apart)
    verdict = predict(machine, Copy(*ends, 1 << 20, Engine.SM)).not_measured
    assert verdict.reason.startswith("g0 and g1 cannot reach each other's memory")
    staged = predict(machine, Copy(*ends, 1 << 30, Engine.CE)).copies[0]
    assert staged.limit_gbs < 60
    assert "staged through host memory" in staged.verdict.reason
    hidden = tuple(dataclasses.replace(gpu, unavailable="no driver") for gpu in two_gpus.gpus)
    verdict = predict(dataclasses.replace(two_gpus, gpus=hidden), host_to_gpu()).not_measured
    assert verdict.reason == "g0 is not usable: no driver"
