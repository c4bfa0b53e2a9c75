"""A line on the terminal while the summary of a long watch is made, which may take minutes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from lanescope.cli.terminal_text import CLEAR_LINE_END, acting, can_be_drawn_on
from lanescope.units.sizes import binary_text

#: What takes no longer has no line.
_FIRST_SECONDS, _PERIOD_SECONDS = 1.0, 0.5


class SummaryProgress:
    """Draws what is done, and for how long, on standard error; nothing where that is no terminal.

    The line is gone when it has ended, so that something else may be printed.

    Parameters
    ----------
    shown
        Whether there is to be one at all.
    """

    def __init__(self, *, shown: bool = True) -> None:
        self._shown = shown and can_be_drawn_on(sys.stderr)
        self._what, self._folder = "", Path()
        self._begun = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, folder: Path) -> None:
        """Begin with storing what lies in a run folder."""
        terminal = acting(sys.stderr)
        if not self._shown or self._thread is not None or terminal is None:
            return
        size = sum(path.stat().st_size for path in folder.glob("spool/*") if path.is_file())
        self._what = f"storing {binary_text(size)} of records"
        self._folder, self._begun = folder, time.monotonic()
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, args=(terminal,), daemon=True)
        self._thread.name = "lanescope-progress"
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def step(self, what: str) -> None:
        """Say what is done now."""
        self._what = what

    def end(self) -> None:
        """Remove the line."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended.set()
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.end()

    def _run(self, terminal: TextIO) -> None:
        if self._ended.wait(_FIRST_SECONDS):
            return
        with suppress(OSError, ValueError):  # the terminal has gone
            while True:
                columns = os.get_terminal_size(terminal.fileno()).columns or 80
                _write(terminal, f"\r{self._line()[: columns - 1]}{CLEAR_LINE_END}")
                if self._ended.wait(_PERIOD_SECONDS):
                    return _write(terminal, f"\r{CLEAR_LINE_END}")

    def _line(self) -> str:
        seconds = time.monotonic() - self._begun
        return (
            f"{self._what}, {seconds:.0f} s so far; Ctrl-C leaves it to "
            f"'lanescope report {self._folder}'"
        )


def _write(terminal: TextIO, content: str) -> None:
    terminal.write(content)
    terminal.flush()
