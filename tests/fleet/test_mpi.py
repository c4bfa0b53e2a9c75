"""Ranks of a real MPI: what they report arrives, and one that does not holds nobody up."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from lanescope.fleet.check import report_of_folder
from tests.fleet.made_up import sound
from tests.patience import PATIENCE_S

MPIRUN = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
pytest.importorskip("mpi4py")
pytestmark = pytest.mark.skipif(MPIRUN is None, reason="no MPI")
#: Open MPI refuses root, and more ranks than cores, unless these are set.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@pytest.fixture
def launched(tmp_path):
    """Run ranks; return what the first one said, and the launcher's exit code."""
    made_up = tmp_path / "node.json"
    made_up.write_text(json.dumps(dataclasses.asdict(sound())))

    def run(ranks, folder, *fates):
        arguments = [sys.executable, "-m", "tests.fleet.program", str(folder), str(made_up)]
        done = subprocess.run(
            [MPIRUN, "-n", str(ranks), *arguments, *map(str, fates)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=os.environ | OPEN_MPI,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        return json.loads(lines[0]) if lines else {"said": done.stderr}, done.returncode

    return run


def test_all_report(launched, tmp_path):
    said, code = launched(5, tmp_path / "fleet", "slow", 4)
    assert said["hosts"] == [f"n{rank}" for rank in range(5)]
    assert (said["absent"], said["suspects"], code) == ([], ["n4"], 1)
    assert report_of_folder(tmp_path / "fleet").exit_code(strict=True) == 1


def test_a_rank_that_hangs_is_not_measured_and_holds_nobody_up(launched, tmp_path):
    said, code = launched(3, tmp_path / "fleet", "stop", 2)
    assert said["hosts"] == ["n0", "n1"]
    assert (said["absent"], code) == (["rank 2: no report in time"], 3)
    assert said["seconds"] < 20  # 3.2 s, on a machine that is busy with other things
    assert report_of_folder(tmp_path / "fleet").absent == ("1 of 3 ranks left no report",)


def test_what_is_no_report_is_said_by_rank(launched):
    said, code = launched(3, "-", "garbage", 1, "newer", 2)
    assert (said["hosts"], code) == (["n0"], 3)
    assert [one.partition(":")[0] for one in sorted(said["absent"])] == ["rank 1", "rank 2"]
    assert any("version 99" in one for one in said["absent"])


def test_a_job_that_was_ended_has_the_report_of_its_files(launched, tmp_path):
    """MPI ends all ranks where one dies; what they wrote before is there."""
    launched(3, tmp_path / "fleet", "kill", 2)
    found = report_of_folder(tmp_path / "fleet")
    assert "n2" not in [one.host for one in found.nodes]
    assert found.exit_code(strict=True) == 3


@pytest.mark.usefixtures("small_arrays")
def test_the_launcher_ends_with_the_exit_code_of_the_first_rank(tmp_path):
    """Of a rank whose MPI has not ended with it the launcher of MPICH 5 kills all others."""
    folder = tmp_path / "fleet"
    check = [sys.executable, "-m", "lanescope", "fleet", "check", "--within", "20s", "--strict"]
    done = subprocess.run(
        [MPIRUN, "-n", "8", *check, "--out", folder],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=os.environ | OPEN_MPI,
    )
    assert done.returncode == report_of_folder(folder).exit_code(strict=True), done.stdout
    assert "BAD TERMINATION" not in done.stdout


def test_every_pair_exchanges(launched, tmp_path, monkeypatch):
    monkeypatch.setenv("PAIRS", "all")
    said, _ = launched(3, tmp_path / "fleet")
    assert {tuple(sorted(one[:2])) for one in said["pairs"]} == set(
        combinations(("n0", "n1", "n2"), 2)
    )
    assert all(gbs > 0 for *_, gbs in said["pairs"])
    stored = json.loads((tmp_path / "fleet" / "report.json").read_text())
    assert [(p["first"], p["second"], p["gbs"]) for p in stored["pairs"]] == [
        tuple(one) for one in said["pairs"]
    ]
    assert all(len(one["seconds"]) == 5 for one in stored["pairs"])
    again = report_of_folder(tmp_path / "fleet")
    assert json.loads(again.as_json())["pairs"] == stored["pairs"]


def test_a_rank_that_does_not_exchange_is_left_out_of_later_rounds(launched, monkeypatch):
    monkeypatch.setenv("PAIRS", "all")
    said, _ = launched(3, "-", "leave", 2)
    lost = [one for one in said["pairs"] if one[2] is None]
    assert len(lost) == 1
    assert "n2" in lost[0]
    assert [one[:2] for one in said["pairs"] if one[2] is not None] in ([["n0", "n1"]], [])
    assert said["seconds"] < 20
