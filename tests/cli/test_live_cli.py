"""The live view: where it is refused, and what a terminal gets to see."""

import os
import pty
import re
import subprocess
import sys

import pytest

from tests.native.test_gpu import GPUS
from tests.patience import PATIENCE_S
from tests.terminals import drawn_on

NO_TERMINAL = "no terminal that can be drawn on"


def at_a_terminal(out, *arguments, stdout=subprocess.PIPE, term="xterm"):
    """Run ``watch --live`` with standard error at a terminal; return its code and what it drew."""
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "lanescope", "watch", "--live", "--out", str(out), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=its if stdout is None else stdout,
        stderr=its,
        env={**os.environ, "TERM": term},
    ) as watching:
        os.close(its)
        drawn = drawn_on(ours)
        code = watching.wait(PATIENCE_S)
        printed = b"" if watching.stdout is None else watching.stdout.read()
    os.close(ours)
    return code, drawn, printed.decode()


def test_without_a_terminal_it_is_refused(lanescope, tmp_path):
    done = lanescope("watch", "--all", "--seconds", 1, "--live", "--out", tmp_path / "run")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert NO_TERMINAL in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("term", "stdout", "words"),
    [("dumb", subprocess.PIPE, NO_TERMINAL), ("xterm", None, "would draw over")],
)
def test_where_it_would_spoil_a_terminal_it_is_refused(tmp_path, term, stdout, words):
    ran = tmp_path / "ran"
    command = ("--", "touch", str(ran))
    code, drawn, _ = at_a_terminal(tmp_path / "run", *command, stdout=stdout, term=term)
    assert (code, drawn.count("lanescope: "), ran.exists()) == (2, 1, False)
    assert words in " ".join(drawn.split())


def test_a_terminal_shows_it_and_the_summary_afterwards(tmp_path):
    code, drawn, _ = at_a_terminal(tmp_path / "run", "--all", "--seconds", "1.5")
    assert code == (0 if GPUS else 4), drawn
    view, _, after = drawn.rpartition("\x1b[?25h")  # the cursor is back
    assert "nothing is counted yet" in view
    assert re.search(r"watching for [1-9]\d* s", view)
    assert "The whole machine was watched" in after


def test_a_programs_redirected_output_is_its_own(tmp_path):
    code, drawn, printed = at_a_terminal(
        tmp_path / "run", "--", "sh", "-c", "sleep .5; echo mine; exit 7"
    )
    assert (code, printed) == (7, "mine\n")
    assert re.search(r"watching for \d+ s", drawn)
