"""``lanescope model validate`` and the examples' versions on a real GPU."""

import json
import subprocess
import sys

import pytest

from lanescope.prediction.predictor import Method
from lanescope.prediction.stored_parameters import save
from tests.native.test_gpu import GPUS
from tests.patience import PATIENCE_S
from tests.studies.link_parameters import fitted

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]


def test_all_cases_of_a_small_grid_are_measured_and_right(lanescope, tmp_path):
    save(fitted(), tmp_path / "fit.json")
    run = tmp_path / "run"
    done = lanescope(
        *("model", "validate", "--grid", "64x48x10", "--out", run),
        *("--parameters", tmp_path / "fit.json", "--json"),
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["measured"]["finished"]
    assert told["wrong_outputs"] == 0
    for each in told["predicted"]:
        assert len(each["cases"]) == 7
        for one in each["cases"]:
            assert {row["method"] for row in one["rows"]} == set(map(str, Method))
    again = lanescope("model", "validate", run, "--json")
    assert json.loads(again.stdout) == told


@pytest.mark.parametrize("version", [method.value.lower() for method in Method])
@pytest.mark.parametrize("kernel", ["state", "buoydiff", "axpy", "convolution"])
def test_an_example_runs_each_version(kernel, version):
    command = [sys.executable, "-m", "lanescope.examples", "grid", kernel]
    done = subprocess.run(
        [*command, "--version", version, "--size", "64x48x10"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert "points by " in done.stdout
    assert "the median of" in done.stdout
    assert "differs from NumPy's by" in done.stdout
