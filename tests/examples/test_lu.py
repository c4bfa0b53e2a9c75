"""Blocked LU: the algorithm against SciPy's, what it sends, and the example that runs it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import lu

from lanescope.examples.lu import Dealt, NumpyLinear, columns_of, dominant_matrix, factor, residual

KINDS = ("smooth", "random")


def dealt(matrix, devices, block):
    columns = [np.r_[tuple(columns_of(one, devices, len(matrix), block))] for one in range(devices)]
    return Dealt(len(matrix), block, [matrix[:, each] for each in columns])


def gathered(matrix):
    whole = np.empty((matrix.rows, matrix.rows))
    for number in range(matrix.blocks):
        device, column = matrix.place(number)
        begin = number * matrix.block
        whole[:, begin : begin + matrix.block] = matrix.parts[device][
            :, column : column + matrix.block
        ]
    return whole


@settings(max_examples=30)
@given(
    st.integers(1, 3), st.integers(1, 9), st.integers(3, 9), st.sampled_from(["smooth", "random"])
)
def test_the_factors_are_those_of_scipy(devices, block, blocks, kind):
    matrix = dominant_matrix(block * blocks, kind)
    matrix = (matrix + matrix.T) / 2  # so that SciPy has no rows to exchange
    parts = dealt(matrix, devices, block)
    sent = []

    def copy(panel, owner, device):
        assert owner != device
        assert panel.flags.c_contiguous
        sent.append((panel.shape, owner, device))
        return panel.copy()

    factor(parts, NumpyLinear(), copy)
    order, lower, upper = lu(matrix)
    assert np.array_equal(order, np.eye(len(matrix)))
    whole = gathered(parts)
    assert np.allclose(np.triu(whole), upper, rtol=1e-12, atol=1e-13 * np.abs(upper).max())
    assert np.allclose(np.tril(whole, -1) + np.eye(len(matrix)), lower, rtol=1e-12, atol=1e-13)
    # each panel goes to every other device that still has columns to the right of it
    expected = sum(min(devices - 1, blocks - 1 - number) for number in range(blocks))
    right = [
        {n % devices for n in range(number + 1, blocks)} - {number % devices}
        for number in range(blocks)
    ]
    assert len(sent) == sum(map(len, right)) <= expected + blocks
    assert residual(whole, matrix, np) < 1e-14


def test_a_panel_that_arrives_changed_is_seen_in_the_residual():
    matrix = dominant_matrix(64, "smooth")
    parts = dealt(matrix, 2, 16)
    factor(parts, NumpyLinear(), lambda panel, owner, device: panel * (1 + 1e-9))
    assert residual(gathered(parts), matrix, np) > 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_the_diagonal_is_larger_than_the_rest_of_its_row(kind):
    matrix = np.abs(dominant_matrix(50, kind))
    assert np.all(2 * np.diag(matrix) > matrix.sum(axis=1))


def example(*arguments):
    command = [sys.executable, "-m", "lanescope.examples", "lu", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_example_runs_on_the_cpu_and_keeps_its_panels(tmp_path):
    done = example(
        *("--cpu", "--size", 96, "--block", 32, "--turns", 2, "--json"),
        *("--save-panels", tmp_path / "panels"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["residual"]["raw"] < 1e-14
    assert [one["transfers"] for one in told["turns"]] == [2, 2]
    panels = sorted((tmp_path / "panels").iterdir())
    shapes = [np.load(panel).shape for panel in panels]
    assert shapes == [(96, 32), (64, 32)]
    assert sum(np.load(panel).nbytes for panel in panels) == told["turns"][0]["bytes"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--cpu", "--size", 100, "--block", 32), "--size 100 is no multiple"),
        (("--cpu", "--size", 32, "--block", 32), "only one block"),
        (("--matrix", "sparse"), "'sparse' is none of smooth, random"),
        (("--compression", "yes"), "'yes' is none of auto, on, off"),
        (("--over", "air"), "'air' is none of peer, host"),
        (("--size", 64, "--block", 32, "--gpus", "0"), "'0' are not two GPUs"),
        (("--size", 64, "--block", 32, "--gpus", "1,1"), "names one GPU twice"),
        (("--size", 64, "--block", 32, "--gpus", "98,99"), "--cpu"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments, part):
    done = example(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert part in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.gpu
@pytest.mark.multigpu
@pytest.mark.parametrize("over", ["peer", "host"])
@pytest.mark.parametrize("compression", ["auto", "on", "off"])
@pytest.mark.parametrize("matrix", KINDS)
def test_two_gpus_find_the_same_factors_however_panels_are_sent(over, compression, matrix):
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("fewer than two GPUs that CUDA can use")
    done = example(
        *("--size", 2048, "--block", 256, "--turns", 1, "--matrix", matrix, "--json"),
        *("--compression", compression, "--over", over),
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["same_bits"]
    assert {one["way"] for one in told["turns"]} == {"raw", "channel"}
    assert max(told["residual"].values()) < 1e-13
