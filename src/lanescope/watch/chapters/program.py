"""Runs a program of ``lanescope.examples``, and keeps what it prints for the steps in it."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lanescope.watch.captured import Stopped
from lanescope.watch.chapters.plan import Program

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
