"""The view of a watch that goes on, on the terminal of standard error."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope._core import native
from lanescope.errors import InputError

if TYPE_CHECKING:
    from lanescope.machine import Machine
    from lanescope.watch.live import LiveWatch

_PERIOD_SECONDS = 0.1
_NO_DRAWING = ("", "dumb", "unknown")


def check_terminal(*, launches: bool) -> None:
    """Refuse a live view where there is no place for it.

    Parameters
    ----------
    launches
        Whether a program is run, whose output may go to the same terminal.

    Raises
    ------
    InputError
        If standard error cannot be drawn on, or the program's output would be drawn over.
    """
    if not _is_terminal(sys.stderr) or os.environ.get("TERM", "") in _NO_DRAWING:
        raise InputError(
            "--live draws on standard error, which is no terminal that can be drawn on; leave "
            "--live away, or do not redirect standard error"
        )
    if launches and _is_terminal(sys.stdout):
        raise InputError(
            "--live would draw over what the program prints; redirect its output (> FILE), or "
            "run it in another terminal and watch it by --pid"
        )


@contextmanager
def live_view(folder: Path, machine: Machine) -> Iterator[None]:
    """Show what spools in a folder tell, ten times a second, until the block is left.

    Whatever becomes of the terminal, the block goes on.
    """
    from lanescope.watch.evaluation import measured_ceilings
    from lanescope.watch.live import LiveWatch

    watch = LiveWatch(folder, machine, measured_ceilings(machine))
    ended = threading.Event()
    drawing = threading.Thread(target=_draw, args=(watch, ended), daemon=True)
    drawing.start()
    try:
        yield
    finally:
        ended.set()
        drawing.join()


def _draw(watch: LiveWatch, ended: threading.Event) -> None:
    from lanescope.cli.terminal_text import acting
    from lanescope.report.live_text import live_text
    from lanescope.report.terminal import Redrawn

    terminal = acting(sys.stderr)
    assert terminal is not None, "it was looked at before"
    with suppress(OSError, ValueError), Redrawn(terminal) as view:  # the terminal has gone
        while not ended.wait(_PERIOD_SECONDS):
            view.draw(live_text(watch.look(native.watch_time_ns()), view.columns))


def _is_terminal(stream: object) -> bool:
    isatty = getattr(stream, "isatty", None)  # a stream that our caller has closed is None
    return bool(isatty is not None and isatty())
