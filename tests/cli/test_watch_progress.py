"""The line on the terminal while the summary of a watch is made."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lanescope.trace.store import read_watch
from tests.patience import PATIENCE_S
from tests.terminals import drawn_on

# A watch whose summary takes a second more, and whose line comes at once; INTERRUPTED: Ctrl-C comes
# when it is drawn.
WATCH = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import lanescope.cli.watch_progress as progress
import lanescope.findings.trace as findings
progress._FIRST_SECONDS, progress._PERIOD_SECONDS = 0.0, 0.1
whole = findings.evaluate_watch
def slow(run):
    time.sleep(1.1)
    if "INTERRUPTED" in os.environ:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
    return whole(run)
findings.evaluate_watch = slow
sys.argv = ["lanescope", "watch", *sys.argv[1:]]
from lanescope.cli import main
main()
"""


def drawn_by(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """Watch a program that exits with 7, at a terminal; return the exit code and what it drew."""
    ours, its = pty.openpty()
    told = ("--out", str(folder / "run"), "--json", str(folder / "told.json"))
    program = ("--", "sh", "-c", "exit 7")
    with subprocess.Popen(
        [sys.executable, "-c", WATCH, *arguments, *told, *program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=its,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200"} | variables,
    ) as watching:
        os.close(its)
        drawn = drawn_on(ours)
        code = watching.wait(PATIENCE_S)
    os.close(ours)
    return code, drawn


def test_a_line_says_what_is_done_and_is_gone_before_the_summary(tmp_path: Path) -> None:
    code, drawn = drawn_by(tmp_path)
    assert code == 7, drawn
    assert re.search(r"\rsumming it up, \d s so far; Ctrl-C leaves it to 'lanescope report ", drawn)
    before, _, summary = drawn.partition("Watched ")
    assert before.endswith("\r\x1b[K")
    assert "so far" not in summary


@pytest.mark.parametrize(
    ("arguments", "variables"), [(("--quiet",), {}), ((), {"TERM": "dumb"})], ids=["quiet", "dumb"]
)
def test_nothing_is_drawn_where_it_is_not_wanted(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str]
) -> None:
    code, drawn = drawn_by(tmp_path, *arguments, **variables)
    assert code == 7, drawn
    assert "so far" not in drawn


def test_ctrl_c_loses_nothing(tmp_path: Path) -> None:
    code, drawn = drawn_by(tmp_path, INTERRUPTED="1")
    assert code == 7, drawn
    line, said = drawn.rstrip().rsplit("\r\x1b[K", 1)
    assert "so far" in line
    assert said.startswith("lanescope: interrupted while the summary was made")
    assert read_watch(tmp_path / "run").manifest.exit_code == 7
