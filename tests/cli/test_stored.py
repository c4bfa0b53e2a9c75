"""Verbs for stored runs: runs, show, open, compare, rm."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from lanescope.cli.stored import ListedRun, stored_runs
from lanescope.store.folder import lock_folder
from lanescope.trace.watch_folder import RING_PREFIX, RINGS, SHARED_MEMORY, claim
from tests.cli.command_lines import run

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of checks, the later one called b, and a folder that is no run."""
    folder = tmp_path / "runs"
    for name, machine in (("a", "h200-x2"), ("b", "h100-x2")):
        shutil.copytree(RESULTS / machine / "check", folder / name)
    (folder / "notes").mkdir()
    monkeypatch.setenv("LANESCOPE_RUNS", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def test_runs_are_listed_the_latest_first(store: Path):
    (store / "damaged").mkdir()
    (store / "damaged" / "manifest.json").write_text("{")
    listed = json.loads(run(["runs", "--json"]).stdout)
    assert [one["name"] for one in listed] == ["b", "a", "damaged"]
    assert listed[-1]["state"] == "damaged"
    assert listed[0]["verb"] == "check"
    text = run(["runs"]).stdout
    assert text.index(" b ") < text.index(" a ")


def test_without_runs_the_first_step_is_named(store: Path):
    shutil.rmtree(store)
    assert "'lanescope check' makes one" in run(["runs"]).stdout


def test_a_run_is_shown_again(store: Path):
    done = run(["show", "a"])
    assert done.code == 0
    assert "All 12 judged paths reach what their links can carry" in done.stdout
    assert json.loads(run(["show", "a", "--json"]).stdout)["verb"] == "check"
    assert run(["show", "nothing"]).code == 2
    both = run(["show", "a", "--json", "--csv"])
    assert (both.code, both.stdout) == (2, "")


def _ended(folder: Path, state: str) -> None:
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"complete"', f'"{state}"'))


def test_showing_an_interrupted_run_is_not_interrupted(store: Path):
    _ended(store / "a", "interrupted")
    done = run(["show", "a"])
    assert (done.code, done.stderr) == (130, "")


@pytest.mark.parametrize(("arguments", "code"), [((), 0), (("--strict",), 3)])
def test_a_run_that_was_killed_proves_nothing(store: Path, arguments: tuple[str, ...], code: int):
    _ended(store / "a", "running")
    assert run(["show", "a", *arguments]).code == code


def test_a_page_is_made_and_opened(store: Path, monkeypatch: pytest.MonkeyPatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda uri: opened.append(uri) or True)
    assert run(["open", "a"]).code == 0
    assert opened == [(store / "a" / "report.html").as_uri()]
    assert (store / "a" / "report.html").is_file()
    monkeypatch.setattr("webbrowser.open", lambda uri: False)
    assert "there is no browser here" in run(["open", "a"]).stderr


def test_runs_are_compared(store: Path):
    assert run(["compare", "a", "a"]).code == 0
    slower = run(["compare", "a", "b", "--json"])
    told = json.loads(slower.stdout)
    assert slower.code == 1
    assert "3 paths slower" in told["summary"]
    assert sum(c["certain"] and c["effect"] < 0 for c in told["changes"]) == 3
    assert run(["compare", "a", "b", "--threshold", "50%"]).code == 0
    shutil.copytree(RESULTS / "h200-x2" / "sms", store / "sms")
    other = run(["compare", "a", "sms"])
    assert other.code == 3
    assert "no measured path in common" in other.stdout


def test_removing_takes_names_or_keeps_the_latest(store: Path):
    assert "would remove" in run(["rm", "a", "--dry-run"]).stdout
    assert (store / "a").is_dir()
    assert run(["rm", "--keep", "1"]).code == 0
    assert sorted(p.name for p in store.iterdir()) == ["b", "notes"]
    assert run(["rm", "b"]).code == 0
    assert sorted(p.name for p in store.iterdir()) == ["notes"]
    assert run(["rm", "--older-than", "1d"]).stdout == "nothing to remove\n"


def test_the_rings_of_a_killed_watch_are_removed_with_it(store: Path, tmp_path: Path):
    """They take memory until the machine is started again else."""
    shared = Path(tempfile.mkdtemp(prefix=RING_PREFIX, dir=SHARED_MEMORY))
    spools = store / "a" / "spool"
    spools.mkdir()
    try:
        claim(shared, spools)
        (shared / "calls.1.ring").touch()
        (spools / RINGS).symlink_to(shared)
        assert run(["rm", "a", "--dry-run"]).code == 0
        assert shared.is_dir()
        assert run(["rm", "a"]).code == 0
        assert not shared.exists()
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def test_the_latest_run_is_removed_by_its_name_alone(store: Path):
    (store / "b" / "manifest.json").touch()
    done = run(["rm", "latest"])
    assert done.code == 2
    assert done.stderr == "lanescope: rm takes a run by its name, and the latest is b\n"
    assert (store / "b").is_dir()


def test_only_old_runs_are_removed(store: Path):
    for name, year in (("a", 2020), ("b", 2999)):
        manifest = store / name / "manifest.json"
        content = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(content | {"started": f"{year}-01-01T00:00:00+00:00"}))
    assert run(["rm", "--older-than", "30d"]).code == 0
    assert not (store / "a").exists()
    assert (store / "b").exists()


@pytest.mark.parametrize("age", ["0d", "2w"])
def test_an_age_that_cannot_be_is_refused_with_ages_that_can(store: Path, age: str):
    done = run(["rm", "--older-than", age, "--dry-run"])
    assert done.code == 2
    assert f"above 0 and up to 10 years, such as 30s, 10min or 24h, not '{age}'" in done.stderr


def _began(folder: Path, moment: str, written: int) -> None:
    manifest = folder / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"started": moment}))
    os.utime(manifest, (written, written))


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("2026-10-25T02:30:00+02:00", "2026-10-25T02:10:00+01:00"),
        ("2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+02:00"),
    ],
    ids=["as summer time ends", "in the same second"],
)
def test_the_run_that_began_last_is_the_latest(store: Path, older: str, newer: str):
    _began(store / "a", older, 1_000)
    _began(store / "b", newer, 2_000)
    assert [one["name"] for one in json.loads(run(["runs", "--json"]).stdout)] == ["b", "a"]
    assert run(["rm", "--keep", "1"]).code == 0
    assert sorted(p.name for p in store.iterdir()) == ["b", "notes"]


@pytest.mark.parametrize(
    "arguments",
    [[], ["notes"], ["nothing"], ["../runs/a"], ["a", "--keep", "1"]],
    ids=["all", "no run", "missing", "path", "both"],
)
def test_nothing_else_is_removed(store: Path, arguments: list[str]):
    done = run(["rm", *arguments])
    assert done.code == 2
    assert done.stderr.count("lanescope:") == 1
    if "--keep" not in arguments:
        assert done.stderr.endswith("; 'lanescope runs' lists them\n")
    assert sorted(p.name for p in store.iterdir()) == ["a", "b", "notes"]


def test_what_stays_keeps_no_other_run(store: Path, tmp_path: Path):
    shutil.copytree(store / "b", tmp_path / "elsewhere")
    (store / "linked").symlink_to(tmp_path / "elsewhere")
    lock = lock_folder(store / "b")
    done = run(["rm", "--keep", "0"])
    lock.release()
    assert done.code == 0
    assert "b stays: another lanescope writes to" in done.stderr
    assert "linked stays: " in done.stderr
    assert done.stdout == f"removed {store / 'a'}\n"
    assert sorted(p.name for p in store.iterdir()) == ["b", "linked", "notes"]


def test_a_run_that_goes_meanwhile_is_no_error(store: Path, monkeypatch: pytest.MonkeyPatch):
    def listed_then_gone() -> Iterator[ListedRun]:
        yield from list(stored_runs())
        shutil.rmtree(store / "b")

    monkeypatch.setattr("lanescope.cli.stored.stored_runs", listed_then_gone)
    done = run(["rm", "--keep", "0"])
    assert (done.code, done.stdout, done.stderr) == (0, f"removed {store / 'a'}\n", "")


def test_files_that_go_meanwhile_are_left_out(store: Path, monkeypatch: pytest.MonkeyPatch):
    def gone(*_: object) -> NoReturn:
        raise FileNotFoundError

    (one,) = (one for one in stored_runs() if one.name == "a")
    assert one.bytes > 0
    monkeypatch.setattr("os.lstat", gone)
    assert one.bytes == 0


def test_a_run_that_is_written_and_a_link_stay(store: Path, tmp_path: Path):
    lock = lock_folder(store / "a")
    done = run(["rm", "a"])
    assert done.code == 2
    assert "another lanescope writes to" in done.stderr
    assert "--out" not in done.stderr
    lock.release()
    (store / "a").rename(tmp_path / "elsewhere")
    (store / "a").symlink_to(tmp_path / "elsewhere")
    assert run(["rm", "a"]).code == 2
    assert (tmp_path / "elsewhere" / "manifest.json").is_file()


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("check h2d/*", "Predicted upper bounds for 2 paths"),
        ("bench -t 0", "host_to_device_memcpy_ce"),
        ("bench -t 0 --format nvbandwidth", "host_to_device_memcpy_ce"),
        ("bench --params short.toml", "predicted (exit code 0)"),
    ],
)
def test_nothing_is_stored_on_request(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, printed: str
):
    monkeypatch.chdir(tmp_path)
    Path("short.toml").write_text('tag = "x"\n[overhead]\nmax_bytes = 100\n')
    before = sorted(store.iterdir())
    done = run([*words.split(), "--machine", "h200-x2", "--no-store"])
    assert done.code == 0, done.stderr
    assert printed in done.stdout
    assert done.stderr == ""
    assert sorted(store.iterdir()) == before
    assert run([words.split()[0], "--no-store", "--out", "x"]).code == 2
    done = run([*words.split(), "--machine", "h200-x2", "--no-page", "--out", "x"])
    assert done.code == 0, done.stderr
    assert "run:  x\n" in done.stderr
    assert not Path("x/report.html").exists()


def test_a_run_without_its_page(tmp_path: Path, store: Path):
    done = run(["check", "h2d/*", "--machine", "h200-x2", "--no-page", "--out", "here"])
    assert done.code == 0
    assert (tmp_path / "here" / "manifest.json").is_file()
    assert not (tmp_path / "here" / "report.html").exists()


def test_a_home_that_cannot_be_written_costs_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path / "file" / "runs"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    done = run(["check", "h2d/*", "--machine", "h200-x2"])
    assert done.code == 0
    assert f"note: The run is stored in {tmp_path}/lanescope-check-" in done.stdout
