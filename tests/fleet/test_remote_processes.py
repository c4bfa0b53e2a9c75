"""Copies between GPUs of several nodes, over a real MPI: made-up GPUs, memory that files share."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fleet.test_mpi import OPEN_MPI
from tests.patience import PATIENCE_S

MPIRUN = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
pytest.importorskip("mpi4py")
pytestmark = pytest.mark.skipif(MPIRUN is None, reason="no MPI")


@pytest.fixture
def started(tmp_path):
    """Run lanescope on so many made-up nodes; return exit code, output and errors."""

    def run(ranks, *arguments, fate="", worker="fabric", **environment):
        settings = {"FATE": fate, "MADE_UP_FATE": worker}
        done = subprocess.run(
            [
                *(MPIRUN, "-n", str(ranks), sys.executable, "-m", "tests.fleet.copy_program"),
                *(*arguments, "--out", str(tmp_path / "run"), "--json", "--strict"),
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=os.environ | OPEN_MPI | settings | environment,
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_each_gpu_copies_on_its_node(started):
    _, output, _ = started(3, "copy", "n0.g0 -> n2.g1, n1.g0 -> n0.g1, n2.h0 -> n2.g0 @sm")
    found = json.loads(output)
    assert found["machine"]["name"] == "3 nodes: host0, host1, host2"
    assert [copy["gbs"] > 0 for copy in found["results"]] == [True] * 3
    method = found["results"][0]["method"]
    assert "memory shared by a fabric handle" in method
    assert "clocks of other nodes known to" in method


def test_clocks_of_nodes_may_differ(started):
    """Windows in which both copies ran are found by one clock."""
    _, output, _ = started(2, "copy", "n0.g0 -> n1.g0, n1.g0 -> n0.g0 ", fate="1 clock")
    assert [copy["gbs"] > 0 for copy in json.loads(output)["results"]] == [True] * 2


def test_only_a_fabric_handle_leaves_a_node(started):
    code, output, _ = started(2, "copy", "n0.g0 -> n1.g0", worker="")
    (result,) = json.loads(output)["results"]
    assert code == 3
    why = "n1.g0 cannot be shared between processes: a fabric handle: cuMemCreate: not permitted; "
    assert result["reason"].startswith(why + "nothing else leaves a node")


def test_one_node_may_be_named_too(started):
    _, output, _ = started(1, "copy", "n0.g0 -> n0.g1", worker="")
    (result,) = json.loads(output)["results"]
    assert "memory shared by a POSIX file descriptor" in result["method"]


def test_cases_of_several_processes_take_all_nodes(started):
    _, output, _ = started(2, "bench", "-t", "multinode_device_to_device_memcpy_write_ce")
    found = json.loads(output)
    (case,) = found["cases"]
    assert (case["matrices"][0]["rows"], case["matrices"][0]["columns"]) == (4, 4)
    pairs = {(one["source"], one["destination"]) for one in found["results"] if one["gbs"]}
    assert len(pairs) == 12
    assert ("n0.g1", "n1.g0") in pairs


def test_nccl_takes_all_nodes(started):
    _, output, _ = started(2, "bench", "nccl", "--sizes", "1MiB")
    results = json.loads(output)["results"]
    assert {one["source"] for one in results} == {"n0.g0", "n0.g1", "n1.g0", "n1.g1"}
    assert all(one["gbs"] for one in results)


@pytest.mark.parametrize(
    ("fate", "code", "words"),
    [
        ("1 stop", 4, "rank 1 has not said in 3 s what its node is"),
        ("1 version", 4, "host1 has lanescope 0.0, this node"),
        ("1 broken", 4, "host1: the kernel shows no CPU"),
    ],
)
def test_a_node_that_cannot_take_part_is_named(started, fate, code, words):
    ended, output, errors = started(2, "copy", "n0.g0 -> n1.g0", fate=fate, READY_SECONDS="3")
    assert words in errors
    assert (ended, output) == (code, "")


def test_a_busy_gpu_of_another_node_is_not_measured(started):
    code, output, _ = started(2, "copy", "n0.g0 -> n1.g0", fate="1 busy")
    (result,) = json.loads(output)["results"]
    assert (code, result["reason"]) == (5, "n1: g0 is busy.")


def test_a_process_that_dies_on_another_node_is_not_measured(started):
    code, output, _ = started(2, "copy", "n1.g0 -> n0.g0", worker="fabric die")
    (result,) = json.loads(output)["results"]
    assert (code, result["reason"]) == (3, "the process of n1.g0 has ended.")


@pytest.mark.native  # nine seconds
def test_a_node_that_freezes_while_copies_run_is_waited_for_once(started):
    began = time.monotonic()
    code, output, _ = started(
        *(2, "copy", "n0.g0 -> n1.g0, n1.g0 -> n0.g1"), fate="1 freeze", ANSWER_SECONDS="5"
    )
    reasons = {one["reason"] for one in json.loads(output)["results"]}
    assert (code, reasons) == (3, {"the process of n1.g0 did not answer in 5 s."})
    assert time.monotonic() - began < 20  # 8 s, on a machine that is busy with other things


def test_a_node_that_is_not_there_is_an_error(started):
    code, output, errors = started(2, "copy", "n0.g0 -> n5.g0")
    assert (code, output) == (4, "")
    assert "this machine has no n5.g0; it has n0.h0" in errors
