"""The bounds of section III."""

from dataclasses import replace

import pytest

from lanescope.errors import InputError
from lanescope.prediction.equations import Equations
from lanescope.prediction.explanation import Peaks, bounds_as_printed, bounds_of, paper_bounds
from lanescope.prediction.predictor import Method, Workload
from lanescope.prediction.stored_parameters import named_parameters
from tests.studies.link_parameters import fitted

PEAKS = Peaks(1e12, 200e9)


def test_the_papers_three_bounds_by_hand():
    # 4 GFLOP, 2 GB of device memory, 1 GB over a link of 10 GB/s
    full, zero, mapped = paper_bounds(4e9, 2e9, 1e9, PEAKS, 10e9)
    assert full == pytest.approx(4e9 / 0.1)  # the link
    assert zero == pytest.approx(4e9 / (0.1 + 0.01))  # the link, then the memory
    assert mapped == pytest.approx(4e9 / 0.2)  # all of the memory's bytes over the link


@pytest.mark.parametrize(
    ("flops", "device_bytes", "seconds"), [(1e12, 1e6, 1.0), (1e6, 400e9, 2.0), (1e6, 1e6, 0.1)]
)
def test_the_slowest_of_compute_memory_and_link_bounds(flops, device_bytes, seconds):
    full, _, _ = paper_bounds(flops, device_bytes, 1e9, PEAKS, 10e9)
    assert full == pytest.approx(flops / seconds)


def test_as_printed_both_directions_share_one_bandwidth():
    titan = named_parameters("gtx-titan")
    work = Workload(10**9, 10**9, 0.5, flops=1e9, device_bytes=4e9)
    printed, ours = (f(work, titan, PEAKS) for f in (bounds_as_printed, bounds_of))
    link = 8.318392e-2 + 7.924734e-2
    assert printed.full_overlap.value == pytest.approx(link)
    assert printed.zero_overlap.value == pytest.approx(link + 0.02)
    assert printed.mapped.value == pytest.approx(2 * link)
    assert printed.zero_overlap == ours.zero_overlap
    assert ours.full_overlap.value == pytest.approx(8.318392e-2)
    # the paper's own model of mapped memory is faster than the paper's bound
    mapped = Equations().predict(work, Method.IMPLICIT, 1, titan)
    light = Equations().predict(replace(work, kernel_seconds=0.01), Method.IMPLICIT, 1, titan)
    assert mapped.seconds.value > printed.full_overlap.value > light.seconds.value


def test_directions_that_overlap_are_bounded_by_the_longer():
    titan = named_parameters("gtx-titan")
    bounds = bounds_of(Workload(10**9, 5 * 10**8, 0.01), titan)
    assert bounds.full_overlap.value == pytest.approx(8.318392e-2)
    assert bounds.zero_overlap.value == pytest.approx(8.318392e-2 + 0.01 + 3.962367e-2)
    assert bounds.mapped.value == pytest.approx(8.318392e-2)
    assert bounds.rate(bounds.mapped) is None


def test_bounds_have_the_interval_of_the_parameters():
    full = bounds_of(Workload(10**9, 10**8, 0.0), fitted()).full_overlap
    assert full.low == pytest.approx(0.995 * full.value)
    assert full.high == pytest.approx(1.005 * full.value)


def test_peaks_take_the_place_of_the_kernels_time():
    work = Workload(10**6, 10**6, 0.5, flops=1e9, device_bytes=4e9)
    bounds = bounds_of(work, fitted(), Peaks(1e12, 1e12))
    assert bounds.full_overlap.value == pytest.approx(4e-3)
    assert bounds.mapped.value == pytest.approx(1e-3)
    assert bounds.rate(bounds.mapped) == pytest.approx(1e12)
    for missing in ({"flops": None}, {"device_bytes": None}):
        with pytest.raises(InputError, match="takes all of flops"):
            bounds_of(replace(work, **missing), fitted(), PEAKS)
