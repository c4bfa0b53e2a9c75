"""Every version of every kernel on a real GPU against NumPy."""

import numpy as np
import pytest

from lanescope.machine import discover
from lanescope.prediction.predictor import STREAMED, Method
from lanescope.studies.ocean.case import ocean
from lanescope.studies.ocean.running import GridMemory, kernel_seconds, run_case
from tests.native.test_gpu import GPUS
from tests.studies.ocean.test_kernels import every_case

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]

DIRECTIONS = [
    (method, n) for method in Method for n in ((1, 3, 10) if method in STREAMED else (1,))
]


@pytest.fixture(scope="module")
def memories():
    machine, sea = discover(), ocean(64, 48, 10)
    return {
        pageable: GridMemory.made(machine, 0, sea, pageable=pageable) for pageable in (False, True)
    }


@every_case
@pytest.mark.parametrize(("method", "streams"), DIRECTIONS, ids=lambda value: str(value))
def test_every_version_agrees_with_numpy(memories, case, method, streams):
    memory = memories[method is Method.PAGEABLE]
    times = run_case(memory, case, method, streams, 0.001)
    differences = case.compare(memory.grid, memory.outputs(case.output_arrays))
    assert all(d.within for d in differences), differences
    assert times.seconds.size >= 5
    assert (times.seconds > 0).all()


@every_case
def test_the_kernel_alone_is_shorter_than_with_its_copies(memories, case):
    alone = kernel_seconds(memories[0], case, Method.EXPLICIT, 0.001)
    whole = run_case(memories[0], case, Method.EXPLICIT, 1, 0.001).seconds
    assert 0 < np.median(alone) < np.median(whole)


def test_what_earlier_runs_left_is_kept_where_it_is_asked_for(memories):
    from lanescope.studies.ocean.case import GridCase, Kernel

    case, memory = GridCase(Kernel.AXPY), memories[0]
    memory.spoil()
    run_case(memory, case, Method.STREAMS, 3, 0.001, spoil=False)
    assert all(d.within for d in case.compare(memory.grid, memory.outputs(1)))
    assert np.isnan(memory.outputs(3)[2]).all()
