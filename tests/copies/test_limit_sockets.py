"""Limits of host threads' copies between sockets."""

import pytest

from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place, Timing
from lanescope.copies.limit import limits
from lanescope.machine import machine_named

QPI_GBS = 16.0  # each way, in the machine file


@pytest.mark.parametrize(("operation", "arrays"), [(Operation.COPY, 2), (Operation.TRIAD, 3)])
def test_threads_count_all_arrays_and_one_of_them_crosses(operation, arrays):
    near, far = (Place(f"h{node}", Memory.PAGEABLE) for node in (0, 1))
    copy = Copy(near, far, 1 << 30, Engine.CPU, operation, (0,))
    (limit,) = limits(
        machine_named("taruc-2017"), Experiment("x", "x", (copy,), timing=Timing.HOST)
    )
    assert limit.gbs == pytest.approx(arrays * QPI_GBS)
