"""Ranks of a real MPI: what they report arrives, and one that does not holds nobody up."""

import json
import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from lanescope.fleet.check import report_of_folder
from tests.patience import PATIENCE_S

MPIRUN = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
pytest.importorskip("mpi4py")
pytestmark = pytest.mark.skipif(MPIRUN is None, reason="no MPI")


def launched(ranks, folder, *fates):
    """Run ranks; return what the first one said, and the launcher's exit code."""
    arguments = [sys.executable, "-m", "tests.fleet.program", str(folder), *map(str, fates)]
    done = subprocess.run(
        [MPIRUN, "-n", str(ranks), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == 1, done.stderr
    return json.loads(lines[0]), done.returncode


def test_all_report(tmp_path):
    said, code = launched(6, tmp_path / "fleet", "slow", 4)
    assert said["hosts"] == [f"n{rank}" for rank in range(6)]
    assert (said["absent"], said["suspects"], code) == ([], ["n4"], 1)
    assert report_of_folder(tmp_path / "fleet").exit_code(strict=True) == 1


@pytest.mark.parametrize("fate", ["stop", "late"])
def test_a_rank_that_hangs_is_not_measured_and_holds_nobody_up(tmp_path, fate):
    said, code = launched(4, tmp_path / "fleet", fate, 2)
    assert said["hosts"] == ["n0", "n1", "n3"]
    assert (said["absent"], code) == (["rank 2: no report in time"], 3)
    assert said["seconds"] < 15  # 2.2 s, on a machine that is busy with other things
    found = report_of_folder(tmp_path / "fleet")
    assert found.absent == ("1 of 4 ranks left no report",)


def test_what_is_no_report_is_said_by_rank():
    said, code = launched(4, "-", "garbage", 1, "newer", 3)
    assert (said["hosts"], code) == (["n0", "n2"], 3)
    assert [one.partition(":")[0] for one in said["absent"]] == ["rank 1", "rank 3"]
    assert "version 99" in said["absent"][1]


def test_a_job_that_was_ended_has_the_report_of_its_files(tmp_path):
    """MPI ends all ranks where one dies; what they wrote before is there."""
    arguments = [sys.executable, "-m", "tests.fleet.program", str(tmp_path / "fleet"), "kill", "2"]
    subprocess.run([MPIRUN, "-n", "4", *arguments], capture_output=True, timeout=PATIENCE_S)
    found = report_of_folder(tmp_path / "fleet")
    assert "n2" not in [one.host for one in found.nodes]
    assert found.exit_code(strict=True) == 3


def test_every_pair_exchanges(tmp_path, monkeypatch):
    monkeypatch.setenv("PAIRS", "all")
    said, _ = launched(4, tmp_path / "fleet")
    assert {tuple(sorted(one[:2])) for one in said["pairs"]} == set(
        combinations([f"n{rank}" for rank in range(4)], 2)
    )
    assert all(gbs > 0 for *_, gbs in said["pairs"])
    stored = json.loads((tmp_path / "fleet" / "report.json").read_text())
    assert [(p["first"], p["second"], p["gbs"]) for p in stored["pairs"]] == [
        tuple(one) for one in said["pairs"]
    ]
    assert all(len(one["seconds"]) == 5 for one in stored["pairs"])


def test_a_rank_that_does_not_exchange_is_left_out_of_later_rounds(monkeypatch):
    monkeypatch.setenv("PAIRS", "all")
    said, _ = launched(4, "-", "leave", 3)
    lost = [one for one in said["pairs"] if one[2] is None]
    assert len(lost) == 1
    assert "n3" in lost[0]
    known = {tuple(sorted(one[:2])) for one in said["pairs"] if one[2] is not None}
    assert known <= {("n0", "n1"), ("n0", "n2"), ("n1", "n2")}
    assert len(known) >= 2
    assert said["seconds"] < 20
