"""Single loads of host memory by the compiled core."""

import numpy as np
import pytest

from lanescope._core import native
from tests.patience import until

RANDOM, BY_ADDRESS = native.ChaseOrder.random, native.ChaseOrder.sequential
ORDERS = [RANDOM, BY_ADDRESS, None]
OWN_KINDS = ["pageable", "small_pages"]


@pytest.fixture(scope="module")
def topology():
    return native.Topology()


@pytest.fixture
def probe(topology):
    pool = native.BufferPool(topology)

    def make(span, stride=8, loads=None, chase=None, kind="pageable", flushed=False, cpu=0):
        place = native.PlaceSpec(getattr(native.Memory, kind), 0)
        loads = loads or span // stride
        return native.LoadProbe(
            topology, pool, place, span, stride, loads, chase, flushed, 0, [cpu]
        )

    return make


def one_load(probe, loads, samples=9):
    probe.run(1, loads)
    return np.median(probe.run(samples, loads)) / loads


@pytest.mark.parametrize("kind", OWN_KINDS)
@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("chase", ORDERS)
@pytest.mark.parametrize(("span", "stride", "loads"), [(16, 8, 2), (8 << 10, 64, 999), (80, 8, 10)])
def test_loads_end_where_they_should(probe, span, stride, loads, chase, flushed, kind):
    made = probe(span, stride, loads, chase, kind, flushed)
    for batch in (1, loads, 3 * loads + 1):
        seconds = made.run(4, batch)
        assert len(seconds) == 4
        assert all(s >= 0 for s in seconds)
    assert made.count_mismatches() == 0


@pytest.mark.parametrize("chase", ORDERS)
def test_a_changed_word_is_seen(probe, chase):
    made = probe(64 << 10, 64, chase=chase)
    made.spoil()
    made.run(1, 1000)  # no whole pass: a chase would be back where it began
    assert made.count_mismatches() == 1


@pytest.mark.parametrize("place", [(4096, 12, 1), (4096, 0, 1), (64, 64, 9), (8, 64, 1)])
def test_places_that_cannot_be_are_refused(probe, place):
    with pytest.raises(native.NativeError):
        probe(*place)


def test_memory_is_further_than_the_first_cache(probe):
    near, far = probe(16 << 10, 64, chase=RANDOM), probe(64 << 20, 64, chase=RANDOM)
    until(lambda: one_load(far, 1 << 16) > 3 * one_load(near, 1 << 16))


def test_loads_in_flight_are_faster_than_a_chain(probe):
    chain, together = probe(64 << 20, 64, chase=RANDOM), probe(64 << 20, 64)
    until(lambda: one_load(together, 1 << 20, 3) < one_load(chain, 1 << 16))


def test_wide_strides_cost_more_than_neighbours(probe):
    count = 1 << 13
    near, far = probe(count * 8, 8), probe(count * 4096, 4096, count)
    until(lambda: one_load(far, count) > 2 * one_load(near, count))


def test_flushed_places_are_in_no_cache(probe):
    warm, cold = (probe(16 << 10, 64, chase=RANDOM, flushed=f) for f in (False, True))
    until(lambda: one_load(cold, 256) > 3 * one_load(warm, 256))


def test_huge_pages(probe):
    try:
        made = probe(8 << 20, 4096, chase=RANDOM, kind="huge")
    except native.NativeError as error:
        if error.args[2] == "no huge pages":
            pytest.skip("the kernel gives no huge pages")
        raise
    made.run(2, 5000)
    assert made.count_mismatches() == 0
