"""`lanescope boost -- PROGRAM`: what it runs, says and ends with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lanescope.boosting import running
from lanescope.boosting.running import (
    FOLDER_VARIABLE,
    OPTIONS_VARIABLE,
    BoostOptions,
    boost_library,
    boost_variables,
    tally_folder,
    why_unable,
)
from lanescope.trace.trace_spool import read_trace_spool
from lanescope.watching.sources import injection
from lanescope.watching.sources.calls import CallsSource
from tests.boosting.programs import COMMAND, boosted, driver_variables, needs_boost, run
from tests.cli.command_lines import run as command_line
from tests.native.programs import program
from tests.patience import PATIENCE_S

pytestmark = needs_boost

Boost = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def boost(tmp_path: Path) -> Boost:
    def run_command(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return run([sys.executable, "-c", COMMAND, "boost", *words], driver_variables(tmp_path))

    return run_command


def test_the_summary_says_what_was_carried_and_what_not(boost: Boost, tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.json"
    words = ("--threads", "2", "--always", "--json", numbers)
    done = boost(*words, "--", program("boosted"), "sizes")
    alone = run([program("boosted"), "sizes"], driver_variables(tmp_path))
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    first, second = done.stderr.splitlines()
    assert first.startswith("lanescope boost: Carried 16 copies of ")
    assert "What the driver takes for such copies is not known: " in first
    assert "8 to GPUs, 8 from them" in first
    assert second.startswith("lanescope boost: By the driver: 12 copies of ")
    assert second.endswith(" smaller than 256 KiB.")
    found = json.loads(numbers.read_text())
    assert found["processes"] == 1
    assert [found["carried"][name]["copies"] for name in ("h2d", "d2h", "either")] == [8, 8, 0]
    assert {one["reason"] for one in found["by_driver"]} == {"small"}
    assert sum(one["copies"] for one in found["by_driver"]) == 12
    assert found["predicted_seconds"] is None


def test_a_dry_run_carries_nothing_and_says_what_it_would(boost: Boost) -> None:
    done = boost("--threads", "2", "--dry-run", "--", program("boosted"), "default")
    assert done.returncode == 3
    first, second = done.stderr.splitlines()
    assert "Dry run, nothing was carried. What would be, by the driver: 4 copies of 36" in first
    assert second.endswith("cannot be predicted: the GPU's link is not known.")


def test_few_cores_are_named_with_what_helps(boost: Boost) -> None:
    if len(os.sched_getaffinity(0)) >= 4:
        pytest.skip("this machine has enough cores")
    told = boost("--", program("boosted"), "default").stderr
    assert "Nothing was carried." in told
    assert "4 copies" in told
    assert "for want of CPU cores" in told
    assert "--threads N takes as many threads as you say" in told


def test_a_program_without_cuda_is_an_error_and_ends_as_it_does(boost: Boost) -> None:
    done = boost("--", "sh", "-c", "echo mine; exit 7")
    assert (done.returncode, done.stdout) == (7, "mine\n")
    assert "No process of the program was reached that uses CUDA" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert boost("-q", "--", "sh", "-c", "kill -TERM $$").returncode == 143
    assert boost("-q", "--", "true").stderr == ""


def test_turns_tell_what_the_program_gains(boost: Boost, tmp_path: Path) -> None:
    numbers, runs = tmp_path / "numbers.json", tmp_path / "runs"
    slow = f"echo x >> {runs}; MOCK_PAGEABLE_US=30000 {program('boosted')} default; exit 0"
    words = ("--threads", "2", "--always", "--turns", "2", "--json", numbers)
    done = boost(*words, "--", "sh", "-c", slow)
    assert done.returncode == 0
    last = done.stderr.splitlines()[-1]
    assert "In 2 turns with and without, the program ended " in last
    assert " boosted: " in last
    found = json.loads(numbers.read_text())["turns"]
    assert len(found["plain_seconds"]) == len(found["boosted_seconds"]) == 2
    assert min(found["plain_seconds"]) > 0.12  # four copies
    assert len(runs.read_text().splitlines()) == 5


def test_a_program_that_cannot_run_again_is_reported(boost: Boost, tmp_path: Path) -> None:
    once = f"mkdir {tmp_path / 'once'} || exit 9; {program('boosted')} default; exit 0"
    done = boost("--threads", "2", "--turns", "3", "--", "sh", "-c", once)
    assert done.returncode == 0  # the program's own
    assert "sh ended with 9 when it was run again for --turns" in done.stderr


def test_what_cannot_be_run_is_one_sentence() -> None:
    for words, code, said in (
        ((), 2, "no program to run; name a program after --"),
        (("--", "no-such-program"), 127, "there is no program no-such-program"),
        (("--threads", "0", "--", "true"), 2, "--threads takes a whole number from 1"),
        (("--ring", "1MiB", "--", "true"), 2, "--ring takes a size from 8 MiB"),
        (("--only", "both", "--", "true"), 2, "--only takes h2d or d2h"),
        (("--dry-run", "--always", "--", "true"), 2, "--dry-run"),
        (("--dry-run", "--turns", "2", "--", "true"), 2, "--dry-run"),
    ):
        done = command_line(["boost", *words])
        assert (done.code, done.stdout) == (code, "")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_no_driver_is_an_error_and_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path / "none",))
    assert why_unable(["true"], os.environ) == (
        "There is no NVIDIA driver, and nothing is carried."
    )


def test_what_cannot_be_boosted_is_in_the_json(tmp_path: Path) -> None:
    found = tmp_path / "boost.json"
    if why_unable(["true"], os.environ) is None:
        pytest.skip("programs can be boosted here")
    done = command_line(["boost", "--json", str(found), "--", "true"])
    assert done.code == 0
    assert json.loads(found.read_text()) == {"unable": why_unable(["true"], os.environ)}


def test_signals_and_numbers_of_a_program_that_is_killed(tmp_path: Path) -> None:
    """What it has carried until then is told."""
    environment = driver_variables(tmp_path)
    command = [sys.executable, "-c", COMMAND, "boost", "--threads", "2", "--", program("boosted")]
    with subprocess.Popen(
        [*command, "endless"], env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as talking:
        assert talking.stdout is not None
        talking.stdout.readline()
        talking.send_signal(signal.SIGTERM)
        _, told = talking.communicate(timeout=PATIENCE_S)
    assert talking.returncode == 143
    assert b"Carried " in told


def test_processes_are_added_up_and_their_files_removed(tmp_path: Path) -> None:
    environment = driver_variables(tmp_path)
    twice = f"{program('boosted')} default & {program('boosted')} default; wait; exit 4"
    done, tally = boosted(["sh", "-c", twice], environment, tmp_path)
    assert done.returncode == 4
    assert (tally.processes, tally.all_carried().copies) == (2, 8)


def test_a_program_may_lock_itself_up_once_cuda_has_begun(tmp_path: Path) -> None:
    """No file is opened later: nothing is changed by an empty environment, or no descriptors."""
    environment = driver_variables(tmp_path)
    alone = run([program("boosted"), "locked"], environment)
    done, tally = boosted([program("boosted"), "locked"], environment, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, alone.stdout, "")
    assert tally.all_carried().copies == 2


@pytest.mark.parametrize("lookup", ["linked", "dlsym", "proc"])
def test_a_watch_records_the_copies_of_a_boosted_program(
    lookup: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, as the program makes it: the pieces are nobody's."""
    library = boost_library()
    assert library is not None
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    source = CallsSource(tmp_path, {})
    source.start()
    environment = {**driver_variables(tmp_path), "LOOKUP": lookup, **source.environment()}
    tallies = tmp_path / "tallies"
    tallies.mkdir()
    options = BoostOptions(threads=2, always=True)
    variables = boost_variables(library, environment, tallies, options)
    done = run([program("boosted"), "default"], {**environment, **variables})
    source.stop()
    assert done.returncode == 3
    (spool,) = tmp_path.glob("trace.*.bin")
    assert read_trace_spool(spool).operations.bytes.tolist() == [9 << 20] * 4
    (tally,) = tallies.glob("boost.*")
    assert tally.stat().st_size > 0


def test_folders_of_who_was_killed_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_SHARED_MEMORY", tmp_path)
    left, new, link = (tmp_path / f"lanescope-boost-{name}" for name in ("left", "new", "link"))
    other = tmp_path / "lanescope-other"
    for folder in (left, new, other):
        folder.mkdir()
        (folder / "boost.1.0").touch()
    link.symlink_to(other)
    for folder in (left, other):
        os.utime(folder, (1, 1))
    with tally_folder() as alive:
        os.utime(alive, (1, 1))
        with tally_folder() as second:
            assert alive.is_dir()
            assert second != alive
        assert not second.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "lanescope-boost-link",
        "lanescope-boost-new",
        "lanescope-other",
    ]
    assert list(other.iterdir())


def test_an_environment_that_is_passed_on(tmp_path: Path) -> None:
    library = boost_library()
    assert library is not None
    around = {"LD_PRELOAD": "/opt/libother.so", "ASAN_OPTIONS": "a=b"}
    variables = boost_variables(library, around, tmp_path, BoostOptions(threads=3, only="h2d"))
    first, ours = variables["LD_PRELOAD"].split(":")
    assert first == "/opt/libother.so"
    assert ours.endswith(f"/..{library}")
    assert variables["ASAN_OPTIONS"] == "a=b:verify_asan_link_order=0"
    assert variables[OPTIONS_VARIABLE] == "ring=268435456 from=262144 threads=3 only=h2d"
    assert variables[FOLDER_VARIABLE] == str(tmp_path)
