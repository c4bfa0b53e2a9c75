"""Boosted programs that a Python program starts, and that which starts itself again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lanescope.boosting
from lanescope.boosting import running
from lanescope.boosting.running import read_folder
from lanescope.errors import InputError
from tests.boosting.programs import driver_variables, needs_boost, run
from tests.native.programs import program
from tests.patience import PATIENCE_S

pytestmark = needs_boost

#: A program that has itself started again, once, and then copies.
AGAIN = """
import os, subprocess, sys
import lanescope.boosting as boosting
if not boosting.is_boosted():
    print("first", flush=True)
    os.execve(sys.executable, sys.orig_argv, boosting.environment(threads=2, always=True))
print("again", sys.argv[1:], flush=True)
sys.exit(subprocess.run([sys.argv[1], "default"], stdout=subprocess.DEVNULL).returncode)
"""


def test_a_program_starts_itself_again_boosted(tmp_path: Path) -> None:
    tallies = tmp_path / "tallies"
    tallies.mkdir()
    environment = {**driver_variables(tmp_path), "LANESCOPE_BOOST_FOLDER": str(tallies)}
    done = run([sys.executable, "-c", AGAIN, program("boosted")], environment)
    said = f"first\nagain ['{program('boosted')}']\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, said, "")
    assert read_folder(tallies).all_carried().copies == 4


def test_the_environment_has_what_was_there_and_the_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("LD_PRELOAD", "/other.so")
    found = lanescope.boosting.environment(threads=3, ring="64MiB", only="h2d")
    assert found["MINE"] == "1"
    first, ours = found["LD_PRELOAD"].split(":")
    assert first == "/other.so"
    assert ours.endswith("/liblanescope_boost.so")
    assert found["LANESCOPE_BOOST"] == "ring=67108864 from=262144 threads=3 only=h2d"
    assert not lanescope.boosting.is_boosted()
    for name in ("LD_PRELOAD", "LANESCOPE_BOOST"):
        monkeypatch.setenv(name, found[name])
    assert lanescope.boosting.is_boosted()
    assert lanescope.boosting.environment()["LD_PRELOAD"] == found["LD_PRELOAD"]
    assert subprocess.run(
        ["true"], env=found, timeout=PATIENCE_S, check=True, capture_output=True
    ).returncode == 0  # fmt: skip


def test_what_cannot_be_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for given, said in (
        ({"threads": 0}, "threads=0 cannot be"),
        ({"threads": 65}, "give 1 to 64"),
        ({"ring": "1MiB"}, "give 8 MiB or more"),
        ({"ring": "much"}, "ring"),
        ({"only": "both"}, "give 'h2d' or 'd2h'"),
    ):
        with pytest.raises(InputError, match=said):
            lanescope.boosting.environment(**given)
    monkeypatch.setattr(running, "boost_library", lambda **_: tmp_path / "a b.so")
    with pytest.raises(InputError, match="has a blank or a colon in its path"):
        lanescope.boosting.environment()
    monkeypatch.setattr(running, "boost_library", lambda **_: None)
    with pytest.raises(InputError, match="missing from this installation"):
        lanescope.boosting.environment()
