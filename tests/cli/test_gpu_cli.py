"""The command line on a real GPU, and what can go wrong there."""

import json
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from lanescope.store.store import read_run
from tests.cli.conftest import directions_to_end, wait_for_a_result
from tests.native.test_gpu import GPUS
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]

PREPARE = """
import time
from lanescope._core import native
topology = native.Topology()
pool = native.BufferPool(topology)
device = native.PlaceSpec(native.Memory.device, 0)
def copies(size):
    return native.CopySet(topology, pool, [native.CopySpec(device, device, size, 0, [], None)])
"""

# kernels without a pause: the checks run on the GPU's multiprocessors
COMPUTE = """
held = copies(8 << 30)
begin, told = time.monotonic(), False
while time.monotonic() < begin + 60:
    held.count_mismatches()
    if not told and time.monotonic() > begin + 2:
        print("ready", flush=True)
        told = True
"""

HOLD_ALL_MEMORY = """
held, size = [], 64 << 30
while size >= 32 << 20:
    try:
        held.append(copies(size))
    except native.NativeError:
        size //= 2
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def another_process(code):
    command = [sys.executable, "-c", PREPARE + code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def rows(done):
    return json.loads(done.stdout)["results"]


def test_paths_of_a_gpu_are_measured_and_judged(lanescope):
    found = rows(lanescope("check", "*2*/g0", "--json"))
    assert {row["path"] for row in found} == {"h0 → g0", "g0 → h0"}
    for row in found:
        assert row["provenance"] == "measured"
        assert row["verdict"] in ("healthy", "slow")
        assert 0 < row["share_of_limit"] <= 1.02
        assert row["n"] >= 6
        assert "g0 at PCIe" in row["reason"]  # seen by NVML under load


def test_no_size_of_a_sweep_exceeds_the_link(lanescope):
    done = lanescope("bench", "sweep", "--max", "64MiB", "--budget", "0.05", "--json")
    found = rows(done)
    assert len(found) == 6 * 23
    assert all(0 < row["gbs"] <= row["limit_gbs"] for row in found)


def test_a_busy_gpu_is_reported_and_left_alone(lanescope):
    with another_process(COMPUTE):
        (row,) = rows(done := lanescope("check", "h2d/g0", "--json", "--strict"))
        assert row["verdict"] == "busy"
        assert "busy" in row["reason"]
        assert done.returncode == 5
        (row,) = rows(lanescope("check", "h2d/g0", "--json", "--allow-busy"))
        assert row["gbs"] > 0


def test_a_full_gpu_is_reported(lanescope):
    with another_process(HOLD_ALL_MEMORY):
        (row,) = rows(done := lanescope("check", "h2d/g0", "--json"))
        assert row["verdict"] == "not measured"
        reason = row["reason"]  # as the driver lets the process in with a few MiB, or not at all
        assert "not enough free memory" in reason or "no memory left" in reason
        assert done.returncode == 0
    # the driver takes a while to clear what a killed process has left
    for _ in range(20):
        (row,) = rows(lanescope("check", "h2d/g0", "--json"))
        if row["gbs"] is not None:
            break
        time.sleep(0.5)
    assert row["gbs"], row["reason"]


@directions_to_end
def test_a_sweep_that_is_cut_off_reads_back_and_frees_the_gpu(
    lanescope, tmp_path, sent, code, state
):
    process = lanescope.start("bench", "sweep", "--out", tmp_path / "run")
    wait_for_a_result(tmp_path / "run")
    process.send_signal(sent)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    run = read_run(tmp_path / "run")
    assert run.manifest.state is state
    assert run.results[0].copies
    (row,) = rows(lanescope("check", "h2d/g0", "--json"))
    assert row["verdict"] in ("healthy", "slow")


def test_a_hidden_gpu_says_so(lanescope):
    lanescope.environment["CUDA_VISIBLE_DEVICES"] = ""
    (row,) = rows(lanescope("check", "h2d/g0", "--json"))
    assert row["verdict"] == "not measured"
    assert "CUDA_VISIBLE_DEVICES" in row["reason"]
