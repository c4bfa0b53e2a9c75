"""`lanescope watch --boost`: what it runs, records, tells and stores."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lanescope
from lanescope.errors import InputError
from lanescope.trace.run import BOOST, BoostOutcome, read_boost, store_boost
from lanescope.trace.store import read_watch
from lanescope.watching.sources import injection
from tests.boosting.programs import COMMAND, driver_variables, needs_boost, run
from tests.cli.command_lines import run as command_line
from tests.native.programs import program

#: With two threads, however few cores there are, and no copies left to the driver to compare.
WATCH = COMMAND.replace(
    "from lanescope.cli import main",
    "from lanescope.studies import watched\n"
    "watched.BOOST_OPTIONS = watched.BoostOptions(threads=2, always=True)\n"
    "from lanescope.cli import main",
)

Watch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    def run_command(*words: str | Path, code: str = WATCH) -> subprocess.CompletedProcess[str]:
        out = ("watch", "--boost", "--out", tmp_path / "run")
        return run([sys.executable, "-c", code, *out, *words], driver_variables(tmp_path))

    return run_command


@needs_boost
def test_the_summary_tells_what_was_carried_and_each_copy_is_recorded_once(
    watch: Watch, tmp_path: Path
) -> None:
    told = tmp_path / "told.json"
    done = watch("--json", told, "--source", "calls", "--", program("boosted"), "default")
    alone = run([program("boosted"), "default"], driver_variables(tmp_path))
    assert (done.returncode, done.stdout) == (3, alone.stdout), done.stderr
    assert "Boost: Carried 4 copies of 36 MiB in " in done.stderr
    found = json.loads(told.read_text())
    assert found["boost"]["lines"][0].startswith("Carried 4 copies of 36 MiB")
    numbers = found["boost"]["numbers"]
    assert [numbers["carried"][name]["copies"] for name in ("h2d", "d2h")] == [2, 2]
    stored = read_watch(tmp_path / "run")
    assert stored.boost == BoostOutcome(tuple(found["boost"]["lines"]), numbers)
    assert stored.timeline.operations.bytes.tolist() == [9 << 20] * 4
    assert "Boost: Carried 4 copies" in (tmp_path / "run/report.html").read_text()


@needs_boost
def test_a_program_that_cannot_be_boosted_runs_and_that_is_reported(
    watch: Watch, tmp_path: Path
) -> None:
    told = tmp_path / "told.json"
    no_driver = WATCH.replace('Path("/")', 'Path("/nowhere")')
    done = watch("--json", told, "--", "sh", "-c", "echo mine; exit 7", code=no_driver)
    assert (done.returncode, done.stdout) == (7, "mine\n")
    assert "Boost: There is no NVIDIA driver, and nothing is carried." in done.stderr
    assert json.loads(told.read_text())["boost"]["numbers"] is None


def test_what_does_not_go_together_is_one_sentence() -> None:
    for words, said in (
        (("--all",), "--boost"),
        (("--pid", "1"), "--boost"),
        (("--turns", "2", "--", "true"), "lanescope boost --turns"),
        (("--all", "--keep", "1h"), "--boost"),
    ):
        done = command_line(["watch", "--boost", *words])
        assert (done.code, done.stdout) == (2, "")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_what_is_stored_is_read_again_or_refused(tmp_path: Path) -> None:
    assert read_boost(tmp_path) is None
    outcome = BoostOutcome(("Carried.",), {"processes": 1, "carried": {"h2d": {"copies": 2}}})
    store_boost(tmp_path, outcome)
    assert read_boost(tmp_path) == outcome
    for damaged in (
        "",
        "[]",
        '{"lines": 3}',
        '{"lines": ["a"], "numbers": 4}',
        '{"numbers": null}',
    ):
        (tmp_path / BOOST).write_text(damaged)
        with pytest.raises(InputError, match="name another"):
            read_boost(tmp_path)


@needs_boost
def test_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path / "none",))
    watched = lanescope.watch(["true"], out=tmp_path / "run", boost=True)
    assert watched.exit_code == 0
    said = {"lines": ("There is no NVIDIA driver, and nothing is carried.",), "numbers": None}
    assert watched.as_dict()["boost"] == said
    assert read_watch(tmp_path / "run").boost == BoostOutcome(**said)
    plain = lanescope.watch(["true"], out=tmp_path / "plain")
    assert plain.as_dict()["boost"] is None
    with pytest.raises(InputError, match="boost is for a program that is run"):
        lanescope.watch(everything=True, seconds=0.1, boost=True)
