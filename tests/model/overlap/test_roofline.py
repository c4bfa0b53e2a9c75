"""The bounds of section III."""

import pytest

from lanescope.errors import InputError
from lanescope.model.overlap.roofline import bounds_of, paper_bounds
from lanescope.model.overlap.workload import Workload
from lanescope.model.transfer.stored import named_parameters
from tests.model.link_parameters import fitted


def test_the_papers_three_bounds_by_hand():
    # 4 GFLOP, 2 GB of device memory, 1 GB over the link
    bounds = paper_bounds(4e9, 2e9, 1e9, 1e12, 200e9, 10e9)
    assert bounds.full_overlap == pytest.approx(0.1)  # the link
    assert bounds.zero_overlap == pytest.approx(0.1 + 0.01)  # the link, then the memory
    assert bounds.mapped == pytest.approx(0.2)  # all of the memory's bytes over the link
    assert bounds.rate(bounds.full_overlap) == pytest.approx(10e9 * 4)
    assert bounds.rate(bounds.mapped) == pytest.approx(10e9 * 2)


@pytest.mark.parametrize(
    ("flops", "device_bytes", "full"), [(1e12, 1e6, 1.0), (1e6, 400e9, 2.0), (1e6, 1e6, 0.1)]
)
def test_the_slowest_of_compute_memory_and_link_bounds(flops, device_bytes, full):
    assert paper_bounds(flops, device_bytes, 1e9, 1e12, 200e9, 10e9).full_overlap == (
        pytest.approx(full)
    )


def test_directions_that_overlap_are_bounded_by_the_longer():
    titan = named_parameters("gtx-titan")
    bounds = bounds_of(Workload(10**9, 5 * 10**8, 0.01), titan)
    assert bounds.full_overlap == pytest.approx(8.318392e-2)
    assert bounds.zero_overlap == pytest.approx(8.318392e-2 + 0.01 + 3.962367e-2)
    assert bounds.mapped == pytest.approx(8.318392e-2)
    assert bounds.rate(1.0) is None


def test_peaks_take_the_place_of_the_kernels_time():
    work = Workload(10**6, 10**6, 0.5, flops=1e9, device_bytes=4e9)
    bounds = bounds_of(work, fitted(), 1e12, 1e12)
    assert bounds.full_overlap == pytest.approx(4e-3)
    assert bounds.mapped == pytest.approx(1e-3)
    assert bounds.rate(bounds.mapped) == pytest.approx(1e12)
    for missing in ({"flops": None}, {"device_bytes": None}):
        from dataclasses import replace

        with pytest.raises(InputError, match="takes all of --flops"):
            bounds_of(replace(work, **missing), fitted(), 1e12, 1e12)
    with pytest.raises(InputError, match="takes all of --flops"):
        bounds_of(work, fitted(), 1e12, None)
