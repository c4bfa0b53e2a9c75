"""What a watch begins with that takes its time, while the program starts.

To look at the machine and to get the GPUs' counters ready takes about a second, and most programs
take longer until they use CUDA. The libraries that are loaded into a program make its first use of
CUDA wait for a file, `READY`, so that no byte crosses a link uncounted.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope.machine import Machine
from lanescope.trace.watch_folder import SourceRecord
from lanescope.watching.sources.base import Source, start_all

if TYPE_CHECKING:
    from lanescope.trace.link_error_log import LinkErrorLog

#: Among the spools; is there when counters count, or when it is known that they do not.
READY = "ready"
#: Names the file to the program; as in native/src/inject/ready.hpp.
VARIABLE = "LANESCOPE_READY"
#: Of the thread, which a process that is in a hurry leaves behind.
THREAD = "lanescope-startup"
_LOADING = "lanescope-loading"


@dataclass(frozen=True, slots=True)
class Startup:
    """What is found out and begun.

    Attributes
    ----------
    machine
        Looks at the machine.
    sources
        Makes the sources that count there, which append to files in a folder.
    needed_later
        Modules that are loaded when all that is done, so that the end need not.
    """

    machine: Callable[[], Machine]
    sources: Callable[[Machine, Path], Sequence[Source]]
    needed_later: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Begun:
    """What came of it.

    Attributes
    ----------
    refused
        By a source's name why it does not watch; None where it does.
    """

    machine: Machine
    errors: LinkErrorLog
    sources: tuple[Source, ...]
    refused: dict[str, SourceRecord | None]


class Starting:
    """A startup that goes on in a thread of its own.

    Parameters
    ----------
    folder, spool
        The run's, and where sources append to.
    """

    def __init__(self, startup: Startup, folder: Path, spool: Path) -> None:
        self._startup, self._folder, self._spool = startup, folder, spool
        self._begun: Begun | None = None
        self._failure: Exception | None = None
        self._running: list[Source] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a program knows what to wait for."""
        return {VARIABLE: str((self._spool / READY).absolute())}

    @property
    def is_done(self) -> bool:
        """Whether it has come to its end."""
        return self._done.is_set()

    def result(self) -> Begun:
        """Wait for what came of it; raises what stood in the way."""
        self._done.wait()
        if self._failure is not None:
            raise self._failure
        assert self._begun is not None, "it ends with one of both"
        return self._begun

    def stop(self) -> None:
        """End what it began, and nothing else: the watch is given up."""
        self._done.wait()
        for source in self._running:
            source.stop()

    def _run(self) -> None:
        self._begin()
        self._thread.name = _LOADING
        for name in self._startup.needed_later:
            with contextlib.suppress(ImportError, MemoryError):  # whoever needs it says so
                importlib.import_module(name)

    def _begin(self) -> None:
        try:
            from lanescope.trace.link_error_log import LinkErrorLog

            machine = self._startup.machine()
            errors = LinkErrorLog(self._folder, machine)
            sources = tuple(self._startup.sources(machine, self._spool))
            refused = start_all(sources, self._running)
            self._begun = Begun(machine, errors, sources, refused)
        except Exception as error:
            self._failure = error
            while self._running:
                self._running.pop().stop()
        finally:
            with contextlib.suppress(OSError):
                (self._spool / READY).touch()
            self._done.set()
