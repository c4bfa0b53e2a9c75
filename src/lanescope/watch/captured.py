"""Runs a program and keeps what it prints, until it ends or somebody asks for the end."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FrameType

from lanescope._core import native
from lanescope.errors import InputError
from lanescope.interruption import ENDING
from lanescope.watch.interrupting import handling
from lanescope.watch.launcher import Outcome

_KILLED = 128


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
    exit_code, seconds
        How it ended, and how long it ran.
    """

    program: tuple[str, ...]
    stopped: Stopped
    output: str = ""
    errors: str = ""
    exit_code: int | None = None
    seconds: float | None = None
    traceable: bool = field(default=True, init=False)
    notes: tuple[str, ...] = field(default=(), init=False)

    def wait(self, environment: Mapping[str, str] | None = None) -> Outcome:
        """Run it until it ends; at once, when the end has been asked for already.

        Raises
        ------
        InputError
            If it cannot be run, or there is no place for what it prints.
        """
        try:
            return self._run(environment)
        except OSError as error:
            raise InputError(
                f"{self.program[0]} cannot be run, or its output not be kept in temporary files: "
                f"{error.strerror}; look at it, and at TMPDIR"
            ) from error

    def _run(self, environment: Mapping[str, str] | None) -> Outcome:
        files = tempfile.TemporaryFile
        with self.stopped.listening(), files() as output, files() as errors:
            start_ns = native.watch_time_ns()
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
            end_ns = native.watch_time_ns()
            for file, name in ((output, "output"), (errors, "errors")):
                file.seek(0)
                setattr(self, name, file.read().decode(errors="replace"))
        signal = -code if code < 0 else None
        self.seconds = (end_ns - start_ns) * 1e-9
        self.exit_code = code if signal is None else _KILLED + signal
        return Outcome(self.exit_code, start_ns, end_ns, running.pid, signal)
