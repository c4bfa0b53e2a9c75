"""Whatever happened to a stored file, lanescope reads it or says in one sentence what is wrong."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from lanescope.cli import app as command_line
from lanescope.cli.output import print_run
from lanescope.errors import InputError
from lanescope.machine.discovery import machine_from_snapshot
from lanescope.machine.files import dumps_machine
from lanescope.machine.snapshot import Snapshot
from lanescope.store.store import read_run
from tests.patience import PATIENCE_S
from tests.torture.damage import damage, places_of, put
from tests.torture.stored import ROOT, Original, originals

#: 0: harmless, 1: an output or a path is worse than it should be, 2: one sentence.
_CODES = (0, 1, 2)
#: Of a trial, whatever else the machine does.
_MOST_CPU_S = 2.0
#: Of a trial, beyond what its process has before.
_MOST_BYTES = 500 << 20
#: What a harmless change can make impossible; such sentences need not name the file.
_OF_WHAT_IS_ASKED = (
    "--export is for watches",
    "does not fit",
    "give smaller sizes",
    "has no GPU to measure",
    "no copies between the host and a GPU",
    "no fit of this machine",
    "cannot be drawn",
    "nor another GPU",
    "can be moved to another",
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> list[Original]:
    return originals(tmp_path_factory.mktemp("stored"))


@pytest.fixture(autouse=True)
def _commands_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # making them takes as long as reading a file
    monkeypatch.setattr(command_line, "app", typer.main.get_command(command_line.app))


@pytest.fixture(autouse=True)
def _no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path / "runs"))


@pytest.mark.native  # seven seconds
def test_what_is_whole_is_read(stored: list[Original], tmp_path: Path) -> None:
    for number, one in enumerate(stored):
        for place, command in enumerate(one.commands):
            folder = tmp_path / f"{number}-{place}"
            folder.mkdir()
            code, _, error = invoked(command(one.path, folder))
            assert code in (0, 1), f"{one.name}: {command(one.path, folder)}: {error}"


def test_damaged_files_are_read_or_refused_in_one_sentence(
    stored: list[Original],
    tmp_path: Path,
    rng: random.Random,
    trials: Callable[[int, int], int],
) -> None:
    pool = [path for one in stored for path in files_of(one.path)]
    failures = []
    for number in range(trials(75, 5000)):
        seed = rng.getrandbits(32)
        chance = random.Random(seed)
        one = chance.choice(stored)
        inner = chance.choice(files_of(one.path)).relative_to(one.path)
        problem = trial(
            one,
            inner if one.path.is_dir() else None,
            lambda path, chance=chance: damage(path, chance, pool),
            tmp_path / "trial",
            chance,
        )
        if problem:
            failures.append(f"trial {number}, seed {seed}: {problem}")
    assert not failures, f"{len(failures)}:\n" + "\n\n".join(failures[:20])


def test_every_field_is_read_or_refused_whatever_it_holds(
    stored: list[Original],
    tmp_path: Path,
    rng: random.Random,
    trials: Callable[[int, int], int],
) -> None:
    changes = [
        (one, file, place, value)
        for one in stored
        for file in files_of(one.path)
        for place, values in places_of(file)
        for value in values
    ]
    failures = []
    for one, file, place, value in rng.sample(changes, min(len(changes), trials(25, 5000))):
        problem = trial(
            one,
            file.relative_to(one.path) if one.path.is_dir() else None,
            lambda copied, place=place, value=value: put(copied, place, value),
            tmp_path / "trial",
            rng,
        )
        if problem:
            failures.append(problem)
    assert not failures, f"{len(failures)} of {len(changes)}:\n" + "\n\n".join(failures[:40])


def test_damaged_recordings_make_a_machine_or_one_sentence(
    tmp_path: Path, rng: random.Random, trials: Callable[[int, int], int]
) -> None:
    recorded = sorted(path.parent for path in (ROOT / "tests/data").glob("*/snapshot.json"))
    for _ in range(trials(50, 2000)):
        folder = tmp_path / "recorded"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(rng.choice(recorded), folder)
        file = rng.choice(("snapshot.json", "snapshot.json", "hwloc.xml"))
        damage(folder / file, rng, files_of(recorded[0]))
        refused = ""
        try:
            assert dumps_machine(machine_from_snapshot(Snapshot.load(folder)))
        except InputError as error:
            refused = str(error)
        assert not refused or (str(folder) in refused and "\n" not in refused), refused


def trial(
    one: Original,
    inner: Path | None,
    change: Callable[[Path], str],
    scratch: Path,
    rng: random.Random,
) -> str | None:
    """Change a file in a copy (of a folder: which), read it, and return what is wrong."""
    shutil.rmtree(scratch, ignore_errors=True)
    out = scratch / "out"
    out.mkdir(parents=True)
    path = scratch / one.path.name
    if one.path.is_dir():
        shutil.copytree(one.path, path)
    else:
        shutil.copy(one.path, path)
    file = path / inner if inner else path
    how = change(file)
    resident = resident_bytes()
    command = rng.choice(one.commands)(path, out)
    told = f"{one.name}, {file.relative_to(scratch)}: {how}: {' '.join(command)}"
    try:
        begun = time.process_time()
        code, _, error = invoked(command)
        if (spent := time.process_time() - begun) > _MOST_CPU_S:
            return f"{told}\nit took {spent:.1f} s of CPU"
        if (taken := peak_bytes() - resident) > _MOST_BYTES:
            return f"{told}\nit took {taken} bytes"
        if code == 0 and "--csv" in command:
            show(path)
    except Exception:
        return f"{told}\n{traceback.format_exc()[-1500:]}"
    if code not in _CODES:
        return f"{told}\nexit code {code}: {error}"
    if code == 2 and any(words in error for words in _OF_WHAT_IS_ASKED):
        return None
    sentences = [line for line in error.splitlines() if line.startswith("lanescope:")]
    if code == 2 and (len(sentences) != 1 or str(path) not in sentences[0] or len(error) > 700):
        return f"{told}\n{error}"
    if "Traceback" in error:
        return f"{told}\n{error}"
    return None


def resident_bytes() -> int:
    """Return the memory that this process has; its peak is counted anew from here."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status_bytes("VmRSS")


def peak_bytes() -> int:
    """Return the most memory that this process has had since `resident_bytes`."""
    return _status_bytes("VmHWM")


def _status_bytes(field: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.partition(f"\n{field}:")[2].split()[0]) << 10


def show(path: Path) -> None:
    """Render what no command does of a stored run: its tables and its view in a notebook."""
    run = read_run(path)
    with contextlib.redirect_stdout(io.StringIO()):
        print_run(run, json=False, csv=False, mean=True, verbose=True)
    run._repr_html_()


def files_of(path: Path) -> list[Path]:
    """Return the files of a stored folder that are read, or the file itself."""
    if path.is_file():
        return [path]
    read = (".json", ".toml", ".parquet", ".bin")
    return sorted(p for p in path.rglob("*") if p.suffix in read and p.name != "chapters.json")


def invoked(command: list[str]) -> tuple[int, str, str]:
    """Run a command line in this process; return its code and what it wrote."""
    out, error = io.StringIO(), io.StringIO()
    arguments, before = sys.argv, signal.getsignal(signal.SIGTERM)
    sys.argv = ["lanescope", *command]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error), in_time():
            command_line.main()
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), error.getvalue()
    finally:
        sys.argv = arguments
        signal.signal(signal.SIGTERM, before)
    raise AssertionError("main() always exits")


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """Fail where a command does not end."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"{sys.argv} did not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
