"""The command line in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from lanescope.run.run import State

#: How a run can be cut off, with the exit code and the state that its folder then has.
ways_to_end = pytest.mark.parametrize(
    ("sent", "code", "state"),
    [
        (signal.SIGINT, 130, State.INTERRUPTED),
        (signal.SIGTERM, 143, State.INTERRUPTED),
        (signal.SIGKILL, -9, State.RUNNING),
    ],
)


class CommandLine:
    """Runs lanescope with a runs folder of its own."""

    def __init__(self, runs):
        self.environment = os.environ | {"LANESCOPE_RUNS": str(runs), "COLUMNS": "200"}

    def __call__(self, *arguments, **options):
        return subprocess.run(
            self._command(arguments),
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=120,
            **options,
        )

    def start(self, *arguments, stderr=subprocess.PIPE):
        return subprocess.Popen(
            self._command(arguments),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=self.environment,
            # a shell that started the tests in the background has Ctrl-C ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def _command(self, arguments):
        return [sys.executable, "-m", "lanescope", *map(str, arguments)]


@pytest.fixture
def lanescope(tmp_path):
    return CommandLine(tmp_path / "runs")


def wait_for_a_result(folder):
    """Return in the middle of the experiment after the first stored one."""
    deadline = time.monotonic() + 60
    while not list((folder / "results").glob("*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
