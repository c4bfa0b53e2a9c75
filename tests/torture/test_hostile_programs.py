"""Programs that are hard to run as if nobody watched them end, print and see what they do alone."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lanescope.trace.store import read_watch
from tests.boosting.programs import COMMAND as BOOST
from tests.boosting.programs import needs_boost
from tests.native.programs import program
from tests.native.test_gpu import GPUS
from tests.patience import PATIENCE_S

_SOURCE = Path(__file__).with_name("programs") / "hostile.cpp"
_WATCH = "import sys; from lanescope.cli import main; main()"
#: What runs a program as `watch` does, for many programs in one interpreter.
_LAUNCH = """
import sys
from lanescope.watching.launcher import launch
from lanescope.watching.launcher import program_environment
sys.exit(launch(sys.argv[1:], program_environment()).exit_code)
"""
#: What differs from run to run in a process with threads that are not the program's.
_OF_ANY_DRIVER = {"main thread"}
Outcome = tuple[int, bytes, bytes]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program; its first argument says which one it is."""
    built = tmp_path_factory.mktemp("programs") / "hostile"
    command = ["g++", "-std=c++20", "-O1", "-w", "-o", str(built), str(_SOURCE), "-lpthread"]
    subprocess.run(command, check=True)
    return built


def names_of(hostile: Path) -> list[str]:
    told = subprocess.run([hostile, "list"], capture_output=True, text=True, check=True)
    return told.stdout.splitlines()


def outcome(command: list[str], folder: Path, **variables: str) -> Outcome:
    """Run a program in a session of its own; a signal's number counts as a shell tells it."""
    done = subprocess.run(
        command,
        input=b"some words\n" * 100,
        capture_output=True,
        cwd=folder,
        start_new_session=True,
        timeout=PATIENCE_S,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "ODD": "\udcff", "BIG": "x" * 90000}
        | variables,
    )
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return code, done.stdout, done.stderr


def same(words: list[str], run: str, options: list[str], folder: Path) -> str:
    """Return how a program differs when it is watched; empty where it does not."""
    alone = outcome(words, folder)
    watched = outcome([sys.executable, "-c", run, *options, *words], folder)
    return "" if alone == watched else f"{words[1:2]}: {alone} alone, {watched} watched"


def odd_programs() -> list[list[str]]:
    """Return programs of a shell, and with odd arguments."""
    return [
        ["sh", "-c", 'printf %s "$1" | od -c; exit 7', "sh", "a\udcff"],
        ["sh", "-c", "echo $#", "sh", *map(str, range(5000))],
        ["sh", "-c", "exec <&-; cat; exit 3"],
        ["sh", "-c", "exec >&-; echo x; exit 3"],
        ["sh", "-c", "sleep 0.05 & kill -STOP $!; kill -CONT $!; wait $!"],
        ["sh", "-c", "kill -TERM $$"],
        ["sh", "-c", "trap 'echo got' TERM; kill -TERM $$; exit 4"],
        ["sh", "-c", "ulimit -n 8; exit 5"],
        ["sh", "-c", "yes | head -1"],
        ["env", "-i", "sh", "-c", "env | sort"],
        ["env", "LD_PRELOAD=libnowhere.so", "true"],
        ["sh", "-c", "(sleep 0.05; echo late) & exit 6"],
    ]


@pytest.mark.native
def test_programs_that_are_launched(
    hostile: Path, tmp_path: Path, rng: random.Random, trials: Callable[[int, int], int]
) -> None:
    programs = [[str(hostile), name] for name in names_of(hostile)] + odd_programs()
    chosen = rng.sample(programs, min(trials(12, len(programs)), len(programs)))
    differing = [same(one, _LAUNCH, [], tmp_path) for one in chosen]
    assert not list(filter(None, differing))


def test_programs_that_are_watched(
    hostile: Path, tmp_path: Path, rng: random.Random, trials: Callable[[int, int], int]
) -> None:
    programs = [[str(hostile), name] for name in names_of(hostile)] + odd_programs()
    chosen = rng.sample(programs, min(trials(2, len(programs)), len(programs)))
    differing = [same(one, _WATCH, ["watch", "-q", "--"], tmp_path) for one in chosen]
    assert not list(filter(None, differing))


@needs_boost
@pytest.mark.parametrize(
    "batch",
    [
        pytest.param([], id="boosted"),
        pytest.param(["--batch"], id="boosted in batches", marks=pytest.mark.native),
    ],
)
def test_programs_that_are_boosted(
    batch: list[str],
    hostile: Path,
    tmp_path: Path,
    rng: random.Random,
    trials: Callable[[int, int], int],
) -> None:
    """Each has carried 400 copies before, over a driver for tests."""
    (tmp_path / "libcuda.so.1").symlink_to(program("mock_driver"))
    variables = {"HOSTILE_CUDA": "1", "LD_LIBRARY_PATH": str(tmp_path)}
    variables |= {"HOSTILE_TINY": "1"} if batch else {}
    names = sorted(set(names_of(hostile)) - {"environment", *_OF_ANY_DRIVER})
    differing = []
    for number, name in enumerate(rng.sample(names, min(trials(2, len(names)), len(names)))):
        numbers = tmp_path / f"{number}.json"
        words = ["boost", "-q", "--threads", "2", "--always", "--from", "64KiB", *batch]
        command = [sys.executable, "-c", BOOST, *words, "--json", str(numbers), "--"]
        alone = outcome([str(hostile), name], tmp_path, **variables)
        boosted = outcome([*command, str(hostile), name], tmp_path, **variables)
        found = json.loads(numbers.read_text())
        copies = sum(count["copies"] for count in found["carried"].values())
        gathered = found["gathered"]["copies"]
        if alone != boosted or copies < 400 or (gathered < 20) == bool(batch):
            differing.append(
                f"{name}: {alone} alone, {boosted} boosted, {copies} carried, {gathered} gathered"
            )
    assert not differing


@pytest.mark.gpu
@pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")
def test_programs_that_have_copied_to_a_gpu(
    hostile: Path, tmp_path: Path, rng: random.Random, trials: Callable[[int, int], int]
) -> None:
    # a traced process has some descriptors and variables more; and CUDA's own threads keep one
    # alive whose main thread has ended, with lanescope and without
    names = sorted(set(names_of(hostile)) - {"descriptors", "environment", "main thread"})
    differing = []
    for number, name in enumerate(rng.sample(names, min(trials(20, len(names)), len(names)))):
        words = [str(hostile), name]
        alone = outcome(words, tmp_path, HOSTILE_CUDA="1")
        run = tmp_path / f"{number}"
        watch = [
            sys.executable,
            "-c",
            _WATCH,
            "watch",
            "-q",
            "--source",
            "trace",
            "--out",
            str(run),
        ]
        watched = outcome([*watch, "--", *words], tmp_path, HOSTILE_CUDA="1")
        copies = len(read_watch(run).timeline.operations)
        if alone != watched or (alone[0] != 121 and copies < 400):
            differing.append(f"{name}: {alone} alone, {watched} watched, {copies} copies")
    assert not differing
