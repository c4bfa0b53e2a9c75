"""Threads for work that takes time and needs nothing of what the command does meanwhile.

Each does what would be done later anyway, only sooner: what fails here fails there again, with a
sentence. The process may end while they run (`lanescope.interruption.leave`).
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Sequence

#: What storing and printing a run takes.
SHOWS_A_RUN = ("pyarrow.parquet", "rich.table", "lanescope.cli.run_text")


def start_driver() -> threading.Thread | None:
    """Have CUDA begin while modules are loaded: its first call in a process takes longest."""
    return _started(_call_cuda, "lanescope-driver")


def load_modules(names: Sequence[str]) -> threading.Thread | None:
    """Load modules that are needed later, while this thread waits for the driver or a GPU."""

    def load() -> None:
        for name in names:
            importlib.import_module(name)

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
