"""Runs a program of ``lanescope.examples``, and keeps what it prints for the steps in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from lanescope.watch.chapters.plan import Program
from lanescope.watch.interrupting import ENDING
from lanescope.watch.launcher import Outcome
from lanescope.watch.signals import handling

_KILLED = 128
_LOOK_SECONDS = 0.05


def command_of(program: Program, gpu: int) -> tuple[str, ...]:
    """Return the command line of a program on a GPU."""
    return (
        *(_python(), "-m", "lanescope.examples"),
        *program.arguments,
        *("--gpu", str(gpu), "--json"),
    )


def _python() -> str:
    """Return this interpreter: by its short name where the shell finds the same."""
    found = shutil.which("python3")
    same = found is not None and Path(found).parent == Path(sys.executable).parent
    return "python3" if same else sys.executable


class Stopped:
    """Whether somebody has asked for the end, and what is to be ended then."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.running: subprocess.Popen[bytes] | None = None

    def listening(self) -> AbstractContextManager[None]:
        """Have Ctrl-C and SIGTERM ask for the end; a watch takes them for itself otherwise."""
        return handling(ENDING, self.ask)

    def ask(self, number: int, _: FrameType | None) -> None:
        """Take a signal: the program that runs ends, and no other one begins."""
        self.signal = number
        if self.running is not None:
            self.running.terminate()


@dataclass
class Captured:
    """A program that a watch waits for, with what it printed.

    Attributes
    ----------
    output, errors
        What it printed, after its end.
    """

    program: tuple[str, ...]
    stopped: Stopped
    output: str = ""
    errors: str = ""
    exit_code: int | None = None
    traceable: bool = field(default=True, init=False)
    notes: tuple[str, ...] = field(default=(), init=False)

    def wait(self, environment: Mapping[str, str] | None = None) -> Outcome:
        """Run it until it ends; at once, when the end has been asked for already."""
        files = tempfile.TemporaryFile
        with self.stopped.listening(), files() as output, files() as errors:
            start_ns = time.time_ns()
            running = subprocess.Popen(
                self.program,
                env=dict(os.environ if environment is None else environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
            self.stopped.running = running
            if self.stopped.signal is not None:
                running.terminate()
            code = running.wait()
            self.stopped.running = None
            end_ns = time.time_ns()
            for file, name in ((output, "output"), (errors, "errors")):
                file.seek(0)
                setattr(self, name, file.read().decode(errors="replace"))
        signal = -code if code < 0 else None
        self.exit_code = code if signal is None else _KILLED + signal
        return Outcome(self.exit_code, start_ns, end_ns, running.pid, signal)


@dataclass
class Idle:
    """Some time in which no program runs, or until the end is asked for."""

    seconds: float
    stopped: Stopped
    program: tuple[str, ...] = field(default=(), init=False)
    traceable: bool = field(default=False, init=False)
    notes: tuple[str, ...] = field(default=("No program ran: the link was idle.",), init=False)

    def wait(self, environment: Mapping[str, str] | None = None) -> None:
        """Wait for the end of the time."""
        end = time.monotonic() + self.seconds
        with self.stopped.listening():
            while self.stopped.signal is None and (left := end - time.monotonic()) > 0:
                time.sleep(min(_LOOK_SECONDS, left))
