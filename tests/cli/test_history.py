"""``lanescope history``, ``compare history`` and ``--baseline`` by their output and exit codes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from lanescope.fleet.folder import FleetManifest, begin, write_node
from lanescope.fleet.report import SCHEMA_VERSION
from tests.cli.command_lines import run
from tests.history.made_up import report

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def check_of_fleet(folder: Path, day: int, **slow: float) -> Path:
    """Store the check of a fleet of one node."""
    made = report(day, **slow)
    begin(folder, FleetManifest(SCHEMA_VERSION, "0.3.0", made.began, 1, 60.0))
    write_node(folder, made)
    return folder


@pytest.fixture
def checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten days of a node whose g3 is slow from the seventh on, and where its history goes."""
    for day in range(10):
        slow = {"g3": 0.9} if day >= 6 else {}
        check_of_fleet(tmp_path / "checks" / f"day-{day}", day, **slow)
    monkeypatch.setenv("LANESCOPE_HISTORY", str(tmp_path / "history.sqlite"))
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "checks"


def test_a_slow_part_is_found_since_its_day(checks: Path):
    added = run(["history", "add", str(checks)])
    assert added.stdout.startswith("10 new, 0 known, 10 in ")
    assert run(["history", "add", str(checks)]).stdout.startswith("0 new, 10 known, 10 in ")
    done = run(["history", "changes"])
    assert done.code == 1
    assert "slower than before" in done.stdout
    assert "since 2026-09-07" in done.stdout
    found = json.loads(run(["history", "changes", "--json"]).stdout)
    assert found
    assert all("g3" in one["devices"] and one["runs"] == [6, 4] for one in found)
    assert run(["history", "changes", "g3"]).code == 1
    others = run(["history", "changes", "h0 → h0"])
    assert others.code == 0
    assert "none is slower now" in others.stdout


def test_every_path_is_shown_over_its_runs(checks: Path):
    run(["history", "add", str(checks)])
    assert "10     2026-09-01   2026-09-10" in run(["history", "show"]).stdout
    shown = json.loads(run(["history", "show", "GPU-3", "--json"]).stdout)
    assert {len(one["runs"]) for one in shown} == {10}
    nothing = run(["history", "show", "GPU-99"])
    assert nothing.code == 2
    assert "no path with 'GPU-99'" in nothing.stderr


def test_a_run_is_compared_with_its_history(checks: Path, tmp_path: Path):
    run(["history", "add", *(str(checks / f"day-{day}") for day in range(6))])
    slow = run(["compare", "history", str(checks / "day-9")])
    assert slow.code == 1
    assert "slower than their own history" in slow.stdout
    sound = check_of_fleet(tmp_path / "sound", 30)
    again = run(["compare", "history", str(sound), "--json"])
    assert again.code == 0
    assert json.loads(again.stdout)["summary"].endswith("on their own history.")


def test_too_few_runs_and_no_history_have_codes(checks: Path):
    missing = run(["history", "changes"])
    assert (missing.code, "'lanescope history add' begins one" in missing.stderr) == (2, True)
    run(["history", "add", str(checks / "day-0"), str(checks / "day-1")])
    few = run(["history", "changes"])
    assert (few.code, "none can be judged, as it takes 4 runs" in few.stdout) == (3, True)
    assert "slower" not in few.stdout
    assert run(["compare", "history", str(checks / "day-9")]).code == 3
    index = checks.parent / "history.sqlite"
    index.unlink()
    assert run(["history", "add"]).code == 2  # there is no runs folder
    assert not index.exists()


def test_a_fleet_is_judged_by_its_own_history(checks: Path, monkeypatch: pytest.MonkeyPatch):
    run(["history", "add", *(str(checks / f"day-{day}") for day in range(6))])
    slow = report(20, g3=0.9)
    monkeypatch.setattr("lanescope.cli.fleet.DEFAULT_WITHIN_NS", 10**10)
    monkeypatch.setattr(
        "lanescope.fleet.check.check_fleet.__defaults__", (lambda request, out: slow,)
    )
    index = checks.parent / "history.sqlite"
    done = run(["fleet", "check", "--no-store", "--history", str(index), "--json"])
    assert done.code == 1
    suspects = [one for one in json.loads(done.stdout)["suspects"] if one["judged_by"] == "history"]
    assert [one["kind"] for one in suspects] == ["slower-than-before"]
    assert "GPU-3" in suspects[0]["part"]
    assert run(["history", "add", str(checks / "day-0")]).stdout.startswith("0 new, 1 known, 7")


def test_runs_that_are_removed_meanwhile_are_left_out(
    stored: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(RESULTS / "h100-x2" / "check", stored / "runs" / "b")
    scandir = os.scandir

    def without_a(folder: str | Path) -> Any:
        if str(folder).endswith("runs/a"):
            raise FileNotFoundError(2, "No such file or directory", str(folder))
        return scandir(folder)

    monkeypatch.setattr("os.scandir", without_a)
    done = run(["history", "add"])
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith("1 new, 0 known, 1 in ")


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs folder with a check, and a faster and a slower one of another name."""
    shutil.copytree(RESULTS / "h200-x2" / "check", tmp_path / "runs" / "a")
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("LANESCOPE_HISTORY", str(tmp_path / "history.sqlite"))
    return tmp_path


def test_a_baseline_is_compared_after_the_report(stored: Path):
    arguments = ["check", "--machine", "h200-x2", "--no-store", "--baseline"]
    done = run([*arguments, "a"])
    assert "PREDICTED, not measured: B." in done.stdout
    assert "Each path in both runs" in done.stdout
    as_json = run([*arguments, "a", "--json"])
    content = json.loads(as_json.stdout)
    assert content["verb"] == "check"
    assert content["exit_code"] == as_json.code == done.code
    assert content["baseline"] in done.stdout.partition("\n")[0]
    assert "Each path in both runs" in as_json.stderr


def test_a_baseline_that_is_not_there_is_said_before_anything_is_measured(stored: Path):
    for name, words in (("nosuch", "no run 'nosuch'"), ("history", "begins one")):
        done = run(["check", "--no-store", "--baseline", name])
        assert done.code == 2
        assert words in done.stderr
        assert not done.stdout


def test_the_cases_of_nvbandwidth_have_a_baseline_too(stored: Path):
    shutil.copytree(RESULTS / "h200-x2" / "bench", stored / "runs" / "b")
    arguments = ["bench", "-t", "0", "--machine", "h200-x2", "--out", str(stored / "new")]
    done = run([*arguments, "--baseline", "b"])
    assert done.code == 3  # a prediction has no interval
    assert "No path can be judged: 2 paths without an interval." in done.stdout.splitlines()[0]
    assert "h0 → g0" in done.stdout.partition("Each path in both runs")[2]


def test_a_history_that_only_others_write_is_read(checks: Path, monkeypatch: pytest.MonkeyPatch):
    def not_written(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    index = str(checks.parent / "of-others.sqlite")
    run(["history", "add", str(checks), "--index", index])
    monkeypatch.setattr(tempfile, "TemporaryFile", not_written)
    assert run(["history", "changes", "--index", index]).code == 1
    assert run(["history", "show", "--index", index]).code == 0
    last = str(checks / "day-9")
    assert run(["compare", "history", last, "--index", index]).code == 0
    added = run(["history", "add", str(checks), "--index", index])
    assert (added.code, "--index cannot write" in added.stderr) == (2, True)
