"""Prose at a terminal: lines that end between words, and for files those that they had."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from lanescope.cli.terminal_text import wrapped
from tests.patience import PATIENCE_S
from tests.terminals import drawn_on

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
WATCH = str(RESULTS / "h100-x1/advise/first/watches/search")
PREDICT = ("model", "predict", "--h2d", "64MiB", "--kernel", "10ms", "--parameters", "h200")


def at_terminal(columns, *words):
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "lanescope", *words]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=its, stderr=its, env=environment
    ) as process:
        os.close(its)
        drawn = drawn_on(ours)
        process.wait(PATIENCE_S)
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn).replace("\r", "").splitlines()


@pytest.mark.parametrize(
    "words",
    [
        ("advise", WATCH, "--parameters", "h200"),
        ("advise", WATCH, "--what-if", "defer"),
        PREDICT,
        ("doctor",),
        ("model", "predict", "--h2d", "64MiB", "--parameters", "h200"),  # an error
    ],
    ids=" ".join,
)
def test_no_line_is_longer_than_the_terminal_is_wide(words):
    lines = at_terminal(60, *words)
    assert any(len(line) > 40 for line in lines)
    assert [line for line in lines if len(line) > 60] == []


def test_a_file_has_each_sentence_in_a_line():
    done = subprocess.run(
        [sys.executable, "-m", "lanescope", *PREDICT], capture_output=True, text=True, check=True
    )
    assert any(len(line) > 300 for line in done.stdout.splitlines())


def test_a_text_is_wrapped_for_terminals_alone(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "20")
    text = "calls  does not work: there is /a/path/that/is/longer/than/20 and more"
    assert wrapped(text, sys.stdout) == text
    assert wrapped(text, None) == text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert wrapped(text, sys.stdout, " " * 7).splitlines() == [
        "calls  does not",
        "       work: there",
        "       is",
        "       /a/path/that/is/longer/than/20",
        "       and more",
    ]
