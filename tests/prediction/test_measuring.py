"""What a fit hands to the GPU: every copy and every kernel lies within its arrays."""

from itertools import pairwise

import numpy as np
import pytest

from lanescope._core import native
from lanescope.prediction.measuring import _TASKS, _fill
from lanescope.prediction.points import LONG_BYTES, MOST_BYTES, PointKind, plan

ROOM = (MOST_BYTES, LONG_BYTES, LONG_BYTES)
IN_PLACE = (PointKind.MAPPED, PointKind.EXPLICIT_MAPPED, PointKind.PACED)


@pytest.mark.parametrize("kind", [kind for kind in PointKind if kind is not PointKind.PIN])
def test_tasks_move_what_the_point_says(kind):
    points = [point for point in plan() if point.kind is kind]
    assert points
    for point in points:
        tasks = list(_TASKS[kind](point))
        copies = [task for task in tasks if task.kind is not native.TaskKind.kernel]
        kernels = [task for task in tasks if task.kind is native.TaskKind.kernel]
        for task in copies:
            assert task.offset + task.bytes <= ROOM[task.array]
        down = sum(task.bytes for task in copies if task.kind is native.TaskKind.h2d)
        up = sum(task.bytes for task in copies if task.kind is native.TaskKind.d2h)
        if kind in IN_PLACE:
            doubles = sum(task.count for task in kernels)
            assert max(task.first + task.count for task in kernels) * 8 <= LONG_BYTES
            assert doubles * 8 * point.writes == point.d2h_bytes
            assert down == (0 if kind is PointKind.MAPPED else point.h2d_bytes)
        else:
            assert (down, up) == (point.h2d_bytes, point.d2h_bytes)


def test_what_goes_to_the_gpu_is_random():
    values = np.zeros(5 * (1 << 19) + 3)
    _fill(values)
    assert np.count_nonzero(np.diff(values) == 0) == 0
    assert values[-1] != 0


def test_parts_of_an_array_do_not_overlap():
    hybrids = [p for p in plan() if p.kind is PointKind.EXPLICIT_MAPPED and p.streams > 1]
    for point in hybrids:
        copies = [t for t in _TASKS[point.kind](point) if t.kind is native.TaskKind.h2d]
        for array in range(point.reads):
            parts = sorted((t.offset, t.bytes) for t in copies if t.array == array)
            assert all(a + size == b for (a, size), (b, _) in pairwise(parts))
            assert len(parts) == point.streams
