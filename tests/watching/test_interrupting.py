"""Signals at every stage of a watch, which a process sends to itself."""

import os
import signal
import subprocess
import sys

import pytest

from lanescope.trace.store import read_watch
from tests.patience import PATIENCE_S

# Watches by a pretended source; `at` is where the signal comes, `then` what follows on it.
WATCH = """
import importlib, os, signal, sys, time
sys.path.insert(0, ".")
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may ignore it
from tests.watching.test_session import Pretended
import lanescope.watching.source_choice
import lanescope.watching.requests
lanescope.watching.source_choice.sources_for = lambda machine, asked, folder: [Pretended(folder)]
lanescope.watching.requests.sources_of_program = lambda asked, folder: [Pretended(folder)]
number, module, name, again = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "again"
place = importlib.import_module(module)
if module == "tests.watching.test_session":
    place = Pretended
whole = getattr(place, name)
def hit(*given, **named):
    try:
        os.kill(os.getpid(), number)
        time.sleep(0.05)  # a thread is not who gets it
    except KeyboardInterrupt:
        if again:
            os.kill(os.getpid(), number)
            time.sleep(30)
        raise
    return whole(*given, **named)
setattr(place, name, hit)
sys.argv = ["lanescope", "watch", *sys.argv[5:]]
from lanescope.cli import main
main()
"""

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
SOURCE = "tests.watching.test_session"
EARLY = [
    ("lanescope.store.folder", "lock_folder"),
    ("lanescope.store.folder", "replace_when_written"),
    (SOURCE, "prepare"),
    (SOURCE, "start"),
    ("lanescope.watching.session", "_environment"),
]
LATE = [
    (SOURCE, "stop"),
    ("lanescope.trace.store", "read_spools"),
    ("lanescope.trace.store", "write_columns"),
    ("lanescope.trace.store", "sync_folder"),
    ("lanescope.trace.store", "read_columns"),
    ("lanescope.findings.trace", "summarise"),
    ("lanescope.findings.trace", "find"),
    ("lanescope.studies.watch_report", "watch_page_html"),
]


def interrupted(folder, number, at, *what, again=False):
    # with --json the summary is wanted, however short the program runs
    told = ["--out", str(folder), "--json", str(folder.parent / "told.json")]
    order = [str(int(number)), *at, "again" if again else "once", *told, *what]
    return subprocess.run(
        [sys.executable, "-c", WATCH, *order],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "XDG_DATA_HOME": str(folder.parent)},
    )


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("at", EARLY, ids=".".join)
def test_before_the_program_nothing_is_started_and_nothing_left(tmp_path, at, number, code):
    done = interrupted(tmp_path / "run", number, at, "--", "touch", str(tmp_path / "ran"))
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == 1
    assert "no program was started" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("at", LATE, ids=".".join)
def test_afterwards_what_was_watched_can_be_read(tmp_path, at):
    run = tmp_path / "run"
    done = interrupted(run, signal.SIGINT, at, "--", "sh", "-c", "exit 7")
    assert done.returncode == 7, done.stderr
    assert done.stderr.count("\n") == 1
    assert f"'lanescope report {run}' makes it again" in done.stderr
    back = read_watch(run)
    assert back.manifest.exit_code == 7
    assert back.timeline.counters[0].known.tolist() == [False, True]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_without_a_program_the_code_is_that_of_the_signal(tmp_path, number, code):
    at = ("lanescope.trace.store", "write_columns")
    done = interrupted(tmp_path / "run", number, at, "--all", "--seconds", "0.1")
    assert done.returncode == code, done.stderr
    assert read_watch(tmp_path / "run").timeline.counters


def test_the_second_one_ends_at_once(tmp_path):
    at = ("lanescope.trace.store", "write_columns")
    done = interrupted(tmp_path / "run", signal.SIGINT, at, "--", "true", again=True)
    assert done.returncode == -signal.SIGINT
    assert read_watch(tmp_path / "run").timeline.counters


def test_columns_of_a_spool_that_is_half_removed_are_read(tmp_path):
    at = ("shutil", "rmtree")
    interrupted(tmp_path / "run", signal.SIGINT, at, "--", "true")
    assert not (tmp_path / "run" / "spool").exists()
    assert read_watch(tmp_path / "run").timeline.counters[0].known.tolist() == [False, True]
