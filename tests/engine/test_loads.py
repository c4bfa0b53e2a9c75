import numpy as np
import pytest

from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place, Timing
from lanescope.copies.terms import Access, Caches
from lanescope.engine.host import LoadSession
from lanescope.engine.native import NativeBackend
from lanescope.engine.sampling import Plan, measure_one
from lanescope.errors import NotMeasuredError
from lanescope.machine import discover
from lanescope.results import Status


@pytest.fixture(scope="module")
def machine():
    return discover()


@pytest.fixture(scope="module")
def backend(machine):
    return NativeBackend(machine)


def loads(operation, size, *, memory=Memory.PAGEABLE, cpus=(0,), **access):
    place = Place("h0", memory)
    copy = Copy(place, place, size, Engine.CPU, operation, cpus, access=Access(**access))
    return Experiment("nurma", "loads", (copy,), Timing.HOST)


def measured(experiment, backend, machine, plan=None):
    results = []
    measure_one(
        experiment, backend, machine, plan or Plan(samples=6, budget_seconds=0.2), results.append
    )
    return results[0]


@pytest.mark.parametrize("memory", [Memory.PAGEABLE, Memory.SMALL_PAGES])
@pytest.mark.parametrize("caches", list(Caches))
@pytest.mark.parametrize("operation", [Operation.CHASE, Operation.CHASE_RANDOM])
def test_the_time_of_one_load(machine, backend, operation, caches, memory):
    experiment = loads(operation, 64 << 10, memory=memory, stride_bytes=64, caches=caches)
    result = measured(experiment, backend, machine)
    (copy,) = result.copies
    assert 1e-10 < copy.statistics.median_seconds < 1e-5
    assert copy.gbs is None
    assert copy.clock_seconds < 0.01 * copy.statistics.median_seconds
    assert "the mean of one over many" in result.method
    assert ("flushed" in result.method) == (caches is Caches.FLUSHED)


def test_a_gather_has_a_bandwidth(machine, backend):
    experiment = loads(Operation.GATHER, 64 << 10, stride_bytes=512, span_bytes=1 << 20)
    (copy,) = measured(experiment, backend, machine).copies
    assert copy.gbs == pytest.approx((64 << 10) / copy.statistics.median_seconds / 1e9)
    assert copy.verdict.status is not Status.UNRESOLVED


def test_ten_flushed_loads_are_close_to_the_clock(machine, backend):
    experiment = loads(Operation.GATHER, 80, caches=Caches.FLUSHED)
    with backend.prepare(experiment) as session:
        while not (found := session.sample()[0]).size:
            pass
        session.check()
        assert session.clock_seconds() > 5e-9  # the whole reading, in each sample
        assert np.all(found > 0)


def test_a_sample_goes_on_where_the_last_has_ended(machine, backend):
    experiment = loads(Operation.CHASE_RANDOM, 16 << 20, stride_bytes=64)
    with backend.prepare(experiment) as session:
        assert session.sample()[0].size == 0  # the trial
        assert session.sample()[0].size > 0
        session.check()


def test_a_wrong_end_is_told(backend):
    with backend.prepare(loads(Operation.CHASE, 4096, stride_bytes=64)) as session:
        session._probe.spoil()
        session._probe.run(1, 10)
        with pytest.raises(NotMeasuredError, match="ended at a wrong place"):
            session.check()


@pytest.mark.parametrize(
    ("operation", "size", "access", "words"),
    [
        (Operation.GATHER, 12, {}, "12 bytes are no 1 or more loads"),
        (Operation.CHASE, 8, {}, "8 bytes are no 2 or more loads"),
        (Operation.GATHER, 80, {"stride_bytes": 12, "span_bytes": 120}, "would cross lines"),
        (Operation.GATHER, 80, {"stride_bytes": 4096}, "has room for 0 different loads"),
        (
            Operation.CHASE,
            4096,
            {"stride_bytes": 4096, "span_bytes": 4100},
            None,  # one place, all its words
        ),
    ],
)
def test_loads_without_places_of_their_own(backend, operation, size, access, words):
    experiment = loads(operation, size, **access)
    if words is None:
        with backend.prepare(experiment) as session:
            assert isinstance(session, LoadSession)
        return
    with pytest.raises(NotMeasuredError, match=words), backend.prepare(experiment):
        pass


def test_loads_are_measured_alone(backend):
    (copy,) = loads(Operation.GATHER, 4096).copies
    experiment = Experiment("two", "two", (copy, copy), Timing.HOST)
    with pytest.raises(NotMeasuredError, match="alone"), backend.prepare(experiment):
        pass


def test_a_cpu_that_is_not_there_is_named(backend):
    experiment = loads(Operation.GATHER, 4096, cpus=(9999,))
    with pytest.raises(NotMeasuredError, match="CPU 9999 is none"), backend.prepare(experiment):
        pass
