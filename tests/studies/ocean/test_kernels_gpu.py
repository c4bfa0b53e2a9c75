"""The kernels on a real GPU against NumPy."""

import numpy as np
import pytest

from lanescope._core import native
from lanescope.studies.ocean.case import ocean
from tests.native.test_gpu import GPUS
from tests.studies.ocean.runs import unset
from tests.studies.ocean.test_kernels import every_case

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]


@pytest.fixture(scope="module")
def sea():
    """Sides that are multiples of no block's."""
    return ocean(197, 61)


def on_gpu(case, sea, **how):
    made = unset(sea, case.output_arrays)
    native.testing.run_grid_kernel_on_gpu(
        *case.named(), list(case.inputs(sea)), made, sea.pressure, sea.deepest, **how
    )
    return made


@every_case
@pytest.mark.parametrize("mapped", [False, True], ids=["device", "mapped"])
@pytest.mark.parametrize("columns", [False, True], ids=["points", "columns"])
def test_a_gpu_agrees_with_numpy(case, sea, columns, mapped):
    differences = case.compare(sea, on_gpu(case, sea, columns=columns, mapped=mapped))
    assert all(d.within for d in differences), differences


@every_case
@pytest.mark.parametrize("columns", [False, True], ids=["points", "columns"])
@pytest.mark.parametrize("parts", [2, 5, 42])
def test_levels_may_be_launched_in_parts(case, sea, columns, parts):
    whole = on_gpu(case, sea, columns=columns)
    for one, other in zip(whole, on_gpu(case, sea, columns=columns, parts=parts), strict=True):
        np.testing.assert_array_equal(one, other)


@every_case
def test_a_gpu_agrees_with_the_host(case, sea):
    """Either rounds for itself, so that twice a tolerance would do; one is enough."""
    made = on_gpu(case, sea)
    for found, host, each in zip(
        made, case.on_host(sea, threads=2), case.compare(sea, made), strict=True
    ):
        assert np.abs(found - host).max() <= each.tolerance


def test_no_such_gpu_is_an_error(sea):
    from lanescope.studies.ocean.case import GridCase, Kernel

    with pytest.raises(native.NativeError):
        on_gpu(GridCase(Kernel.AXPY), sea, device=99)
