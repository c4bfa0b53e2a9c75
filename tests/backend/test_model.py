import dataclasses

import pytest

from lanescope.backend.model import ModelBackend
from lanescope.experiment import Copy, Engine, Memory, Place
from lanescope.machine import Latencies
from lanescope.measurement.result import Source, Status
from lanescope.measurement.sampling import Plan, measure_all
from tests.conftest import experiment_of, host_to_gpu


def predict(machine, copy):
    results = []
    measure_all([experiment_of(copy)], ModelBackend(machine), machine, Plan(), results.append)
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


def test_pageable_memory_needs_a_staging_rate(two_gpus):
    pageable = dataclasses.replace(host_to_gpu(), source=Place("h0", Memory.PAGEABLE))
    assert "pageable" in predict(two_gpus, pageable).not_measured.reason
    known = dataclasses.replace(two_gpus, latencies=Latencies(pageable_gbs=4.3))
    assert predict(known, pageable).copies[0].gbs == pytest.approx(4.3)


def test_nothing_is_made_up_without_a_limit(two_sockets):
    no_links = dataclasses.replace(two_sockets, links=())
    assert predict(no_links, host_to_gpu()).not_measured.status is Status.NOT_MEASURED


def test_gpus_that_cannot_be_used_or_reached_are_not_predicted(two_gpus):
    between = Copy(Place("g0", Memory.DEVICE), Place("g1", Memory.DEVICE), 1 << 20, Engine.CE)
    apart = tuple(dataclasses.replace(gpu, peers=()) for gpu in two_gpus.gpus)
    verdict = predict(dataclasses.replace(two_gpus, gpus=apart), between).not_measured
    assert verdict.reason.startswith("g0 and g1 cannot reach each other's memory")
    hidden = tuple(dataclasses.replace(gpu, unavailable="no driver") for gpu in two_gpus.gpus)
    verdict = predict(dataclasses.replace(two_gpus, gpus=hidden), host_to_gpu()).not_measured
    assert verdict.reason == "g0 is not usable: no driver"
