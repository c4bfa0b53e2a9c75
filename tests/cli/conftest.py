"""The command line in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from lanescope.machine import discover
from lanescope.store.folder import State
from tests.cli.command_lines import run
from tests.patience import PATIENCE_S, until

#: How a run can be cut off, with the exit code and the state that its folder then has.
directions_to_end = pytest.mark.parametrize(
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
        self._started = []

    def __call__(self, *arguments, **options):
        return subprocess.run(
            self._command(arguments),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            **({"env": self.environment} | options),
        )

    def start(self, *arguments, stderr=subprocess.PIPE):
        process = subprocess.Popen(
            self._command(arguments),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=self.environment,
            # a shell that started the tests in the background has Ctrl-C ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self._started.append(process)
        return process

    def end(self):
        """End what a test that failed has left running: it would trouble one that comes later."""
        for process in self._started:
            process.kill()
            with process:  # closes its pipes, too
                pass

    def _command(self, arguments):
        return [sys.executable, "-m", "lanescope", *map(str, arguments)]


class CommandLineHere(CommandLine):
    """Runs lanescope in this process where a test asks for no settings of a process of its own."""

    def __call__(self, *arguments, cwd=None, **options):
        if options:
            return super().__call__(*arguments, cwd=cwd, **options)
        with pytest.MonkeyPatch.context() as patch:
            if cwd is not None:
                patch.chdir(cwd)
            for name in ("LANESCOPE_RUNS", "COLUMNS"):
                patch.setenv(name, self.environment[name])
            return run([str(one) for one in arguments])


@pytest.fixture
def lanescope(tmp_path):
    command_line = CommandLine(tmp_path / "runs")
    yield command_line
    command_line.end()


@pytest.fixture
def lanescope_here(tmp_path):
    """The same without the start of an interpreter for each command, which takes half a second."""
    command_line = CommandLineHere(tmp_path / "runs")
    yield command_line
    command_line.end()


def wait_for_a_result(folder):
    """Return in the middle of the experiment after the first stored one."""
    until(lambda: list((folder / "results").glob("*.parquet")))
    time.sleep(0.3)


@pytest.fixture
def no_gpus():
    """Only where there is no GPU."""
    if discover().gpus:
        pytest.skip("there are GPUs here")
