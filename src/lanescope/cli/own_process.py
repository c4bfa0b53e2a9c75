"""This process while a verb runs: threads behind it, and how it ends.

It ends with the code of a program that it ran, or with a sentence on an error of our own.
"""

from __future__ import annotations

import contextlib
import importlib
import platform
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

#: What storing and printing a run takes.
SHOWS_A_RUN = ("pyarrow.parquet", "rich.table", "lanescope.cli.run_text")


def start_driver() -> threading.Thread | None:
    """Have CUDA begin while modules are loaded: its first call in a process takes longest."""
    return _started(_call_cuda, "lanescope-driver")


def load_what_shows_a_run() -> threading.Thread | None:
    """Load what storing and printing a run takes, while this thread waits for the driver or a GPU.

    pyarrow's first array imports pandas where there is one, for 0.2 s.
    """

    def load() -> None:
        for name in SHOWS_A_RUN:
            importlib.import_module(name)
        importlib.import_module("pyarrow").array([0])

    return _started(load, "lanescope-loading")


def _call_cuda() -> None:
    from lanescope._core import native

    native.cuda_devices()


def _started(work: Callable[[], None], name: str) -> threading.Thread | None:
    """Start a thread; None where no more are allowed, which costs nothing but time."""

    def run() -> None:
        with contextlib.suppress(Exception):  # whoever needs it says what is wrong
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


class ProgramEnded(Exception):  # noqa: N818 - no error: how its program ended
    """Ends lanescope with the exit code of a program that it ran."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def report_fault(error: BaseException) -> str:
    """Write where an unexpected error came from, and return one sentence about it."""
    from lanescope._version import version_text

    lines = [
        version_text(),
        f"Python {platform.python_version()}, {platform.platform()}",
        f"command: {sys.argv}",
        "",
        *traceback.format_exception(error),
    ]
    kind = type(error).__name__
    what = " ".join(str(error).split())[:200]
    path = _write("\n".join(lines))
    where = f"what it was doing is in {path}" if path else "and its report cannot be written"
    return f"a fault of lanescope's own ({kind}: {what}); {where}; please send that to its makers"


def _write(text: str) -> Path | None:
    from lanescope.store.folder import default_runs_folder

    name = f"fault-{datetime.now():%Y%m%d-%H%M%S-%f}.txt"
    for folder in (default_runs_folder().parent / "faults", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / name).open("x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return folder / name
    return None
