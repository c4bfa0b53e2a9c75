"""Programs that are boosted over a driver for tests, whose GPUs are memory of the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lanescope.boosting.running import (
    FOLDER_VARIABLE,
    OPTIONS_VARIABLE,
    BoostOptions,
    boost_library,
    boost_variables,
    read_folder,
)
from lanescope.boosting.tally import Tally
from tests.native.programs import program
from tests.patience import PATIENCE_S

needs_boost = pytest.mark.skipif(boost_library() is None, reason="needs an installed lanescope")
#: The command line, on a machine that is thought to have a driver.
COMMAND = """
import sys
from pathlib import Path
from lanescope.watching.sources import injection
injection._DRIVERS = (Path("/"),)
from lanescope.cli import main
main()
"""
#: Two threads whatever the machine has, and no copy left to the driver to compare.
ALWAYS = BoostOptions(threads=2, always=True)
#: What streams of the driver for tests lag behind, µs an operation.
LAG = {"MOCK_LAG_US": "20"}


def driver_variables(folder: Path) -> dict[str, str]:
    """Return the environment in which programs find the driver for tests."""
    link = folder / "libcuda.so.1"
    if not link.exists():
        link.symlink_to(program("mock_driver"))
    return {**os.environ, **LAG, "LD_LIBRARY_PATH": str(folder)}


def run(
    command: Sequence[str | Path], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def boosted(
    command: Sequence[str | Path],
    environment: dict[str, str],
    folder: Path,
    options: BoostOptions = ALWAYS,
) -> tuple[subprocess.CompletedProcess[str], Tally]:
    """Run a program with its copies carried, and return what became of them."""
    library = boost_library(batch=options.batch)
    assert library is not None
    tallies = folder / "tallies"
    tallies.mkdir(exist_ok=True)
    variables = boost_variables(library, environment, tallies, options)
    done = run(command, {**environment, **variables})
    return done, read_folder(tallies)


def numbers_of(text: str, words: Sequence[str], folder: Path) -> tuple[dict[str, Any], str]:
    """Boost a Python program that has to say "well" on a machine with a GPU.

    Returns what `--json` has, and what was said at the end.
    """
    numbers = folder / "numbers.json"
    command = [sys.executable, "-c", "from lanescope.cli import main; main()", "boost"]
    command += [*words, "--json", str(numbers), "--", sys.executable, "-c", text]
    done = run(command, dict(os.environ))
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
    found = json.loads(numbers.read_text())
    assert isinstance(found, dict)
    return found, done.stderr


def tally_of(text: str, folder: Path) -> Tally:
    """Run a Python program that boosts copies itself and has to say "well"; return their tally."""
    tallies = folder / "tallies"
    tallies.mkdir()
    variables = {OPTIONS_VARIABLE: "threads=4 always", FOLDER_VARIABLE: str(tallies)}
    done = run([sys.executable, "-c", text], {**os.environ, **variables})
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
    return read_folder(tallies)
