import json
import subprocess
import sys

import pytest

from lanescope._core import native
from tests.native.test_gpu import GPUS

with_gpu = pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")


def example(*arguments):
    command = [sys.executable, "-m", "lanescope.examples", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [(("vector-add", "--size", "3q"), "'3q' is not a size"), (("vector-add", "--gpu", "99"), "")],
)
def test_what_cannot_be_done_is_one_sentence(arguments, part):
    done = example(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert part in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("call", [native.vector_add, lambda size: native.matmul(size, 1, 1, 1)])
def test_nothing_to_do_is_an_error(call):
    with pytest.raises(native.NativeError):
        call(0)


@pytest.mark.gpu
@with_gpu
@pytest.mark.parametrize("pinned", [False, True])
def test_vectors_are_copied_added_and_copied_back(pinned):
    report = native.vector_add(1_000_003, pinned=pinned)
    assert report.wrong == 0
    assert [s.bytes for s in report.steps if s.bytes] == [1_000_000] * 4
    assert all(a.end_ns <= b.begin_ns for a, b in zip(report.steps, report.steps[1:], strict=False))


@pytest.mark.gpu
@with_gpu
@pytest.mark.parametrize("shape", [(64, 96, 32), (33, 31, 65), (1, 1, 1)])
def test_matrices_are_multiplied(shape):
    rows, inner, columns = shape
    report = native.matmul(rows, inner, columns, launches=3)
    assert report.wrong == 0
    moved = [s.bytes for s in report.steps if s.bytes]
    assert moved == [4 * rows * inner, 4 * inner * columns, 4 * rows * columns]


@pytest.mark.gpu
@with_gpu
def test_the_command_tells_every_step():
    done = example("vector-add", "--size", "1MB", "--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["wrong"] == 0
    assert {"add", "check"} <= {step["name"] for step in told["steps"]}
