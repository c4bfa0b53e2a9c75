"""A watch from its start to its end: sources, what is waited for, and what is stored.

To look at the machine and to get the GPUs' counters ready takes about a second, and most programs
take longer until they use CUDA. So a program may start meanwhile. The libraries that are loaded
into it make its first use of CUDA wait for a file, `_READY`, so that no byte crosses a link
uncounted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope._core import native
from lanescope._version import __version__
from lanescope.codec.fields import from_attributes
from lanescope.errors import ExitCode, InputError, LanescopeError, expected
from lanescope.interruption import Interrupted
from lanescope.machine import Machine
from lanescope.store.folder import MANIFEST, State, is_there, new_or_temporary_folder
from lanescope.trace.watch_folder import (
    MOST_RESERVED_BYTES,
    WATCH,
    SourceRecord,
    WatchFolder,
    WatchManifest,
)
from lanescope.watching.launcher import ProgramExit, Waited, program_environment
from lanescope.watching.signals import deferred
from lanescope.watching.sources import WatchSource, start_all

if TYPE_CHECKING:
    from lanescope.trace.link_error_log import LinkErrorLog
    from lanescope.trace.run import WatchRun

#: Counters go on for so long after the program's end, so that its last burst is whole.
_AFTERWARDS_SECONDS = 0.02
#: Among the spools; is there when counters count, or when it is known that they do not.
_READY = "ready"
#: Names the file to the program; as in native/src/inject/ready.hpp.
_VARIABLE = "LANESCOPE_READY"
#: Of the thread, which a process that is in a hurry leaves behind.
_THREAD = "lanescope-startup"
_LOADING_THREAD = "lanescope-loading"


class NotStoredError(InputError):
    """What was watched could not be put together; it lies in the spools.

    Attributes
    ----------
    exit_code
        The program's own. Where there is none: 2, 70 for a fault, or after an interruption what
        a shell tells of the signal.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class EndedEarlyError(Exception):
    """The program ended before what watches was ready: it had not used CUDA.

    Attributes
    ----------
    manifest, folder
        What is stored, and where; `lanescope report` reads it.
    """

    def __init__(self, manifest: WatchManifest, folder: Path) -> None:
        super().__init__()
        self.manifest, self.folder = manifest, folder


def no_progress(_: Path) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What to watch, and by what.

    Attributes
    ----------
    waited
        What ends the watch: a program that is run, a process that runs, or somebody's wish.
    command
        Command line of lanescope, for the record.
    sources
        Makes the sources, given the folder that they append to.
    out
        The run's folder; None is a new one among the runs.
    beside
        What goes on while it is waited, given the folder that sources append to: a live view.
    max_spool_bytes
        That sources may write; None: a share of what is free on the disk.
    most_reserved_bytes
        That they leave free for the program, or half of what is free if that is less.
    finishing
        Is called with the run's folder when all sources have ended, before what they counted is
        stored.
    startup
        More that watches, and the machine, where they are to be found out while the program starts;
        `machine` stands for it until then. None: all is known.
    in_hurry
        Whether the end of `startup` is not waited for where the program ends before it: `watch`
        raises `EndedEarlyError` then. Its thread is left behind: the process has to end by
        `os._exit`.
    """

    machine: Machine
    waited: Waited
    command: str
    sources: Callable[[Path], Sequence[WatchSource]]
    out: Path | None = None
    beside: Callable[[Path], AbstractContextManager[object]] = nullcontext
    max_spool_bytes: int | None = None
    most_reserved_bytes: int = MOST_RESERVED_BYTES
    finishing: Callable[[Path], object] = no_progress
    startup: Startup | None = None
    in_hurry: bool = False


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
    sources: Callable[[Machine, Path], Sequence[WatchSource]]
    needed_later: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Begun:
    """What came of it.

    Attributes
    ----------
    refused
        By a source's name why it does not watch; None where it does.
    """

    machine: Machine
    errors: LinkErrorLog
    sources: tuple[WatchSource, ...]
    refused: dict[str, SourceRecord | None]


class _Starting:
    """A startup that goes on in a thread of its own.

    Parameters
    ----------
    folder, spool
        The run's, and where sources append to.
    """

    def __init__(self, startup: Startup, folder: Path, spool: Path) -> None:
        self._startup, self._folder, self._spool = startup, folder, spool
        self._begun: _Begun | None = None
        self._failure: Exception | None = None
        self._running: list[WatchSource] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=_THREAD, daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a program knows what to wait for."""
        return {_VARIABLE: str((self._spool / _READY).absolute())}

    @property
    def is_done(self) -> bool:
        """Whether it has come to its end."""
        return self._done.is_set()

    def result(self) -> _Begun:
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
        self._thread.name = _LOADING_THREAD
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
            self._begun = _Begun(machine, errors, sources, refused)
        except Exception as error:
            self._failure = error
            while self._running:
                self._running.pop().stop()
        finally:
            with contextlib.suppress(OSError):
                (self._spool / _READY).touch()
            self._done.set()


def watch(request: Watch) -> WatchRun:
    """Watch until what is waited for has ended.

    A program runs whatever becomes of the sources.

    Raises
    ------
    Interrupted
        If somebody interrupts before it runs; then nothing is left of the watch.
    InputError
        If the program cannot be run, or the run's folder cannot be written; a
        `NotStoredError` if that is so after the program has ended.
    EndedEarlyError
        Where nothing is waited for: see `Watch`.
    """
    out, elsewhere = (request.out, ()) if request.out else new_or_temporary_folder(WATCH)
    begun = WatchManifest(
        command=_readable(request.command),
        program=tuple(map(_readable, request.waited.program)),
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        tool_version=__version__,
        machine=request.machine,
        start_ns=native.watch_time_ns(),
        notes=(*request.waited.notes, *elsewhere),
    )
    folder = WatchFolder(out, begun, request.max_spool_bytes, request.most_reserved_bytes)
    running: list[WatchSource] = []
    ended = outcome = starting = None
    early = False
    try:
        errors = None
        if request.startup is None:
            from lanescope.trace.link_error_log import LinkErrorLog

            errors = LinkErrorLog(folder.folder, request.machine)
        else:
            starting = _Starting(request.startup, folder.folder, folder.spool)
        sources = list(request.sources(folder.spool))
        refused = start_all(sources, running)
        begun = dataclasses.replace(begun, start_ns=native.watch_time_ns())
        folder.update(begun)
        environment = {**_environment(running), **(starting.environment if starting else {})}
        with request.beside(folder.spool), deferred():
            try:
                outcome = request.waited.wait(environment)
                early = starting is not None and request.in_hurry and not starting.is_done
                if not early:
                    time.sleep(_AFTERWARDS_SECONDS)
                end_ns = native.watch_time_ns()  # before sources are stopped, which takes time
            finally:
                records = [_stopped(source, refused[source.name]) for source in sources]
                running.clear()
                # it used CUDA all the same: when counters took longer than it waits for them
                early = early and not any(folder.spool.glob("trace.*.bin"))
                late = _Late(records=_too_short(refused)) if early else _late(starting)
                counted = [_stopped(source, late.refused[source.name]) for source in late.sources]
            ended = _ended(begun, outcome, end_ns, (*late.records, *counted, *records))
            if late.machine is not None:
                ended = dataclasses.replace(ended, machine=late.machine)
                folder.set_machine(late.machine)
            folder.update(ended)
            if early:
                folder.close()
                raise EndedEarlyError(ended, folder.folder)
            if (log := errors or late.errors) is not None:
                log.end()
        request.finishing(folder.folder)
        return folder.finish(ended)
    except EndedEarlyError:
        raise
    except Interrupted as error:
        if ended is None:  # before anything was run
            _give_up(running, starting)
            folder.discard()
            raise
        raise summary_interrupted(ended, folder.folder, error) from error
    except Exception as error:
        if ended is None and outcome is None:
            _give_up(running, starting)  # a full disk, say, between their start and the program's
            raise
        cause = expected(error) or error
        raise _not_stored(cause, outcome, folder.folder) from cause


@dataclass(frozen=True, slots=True)
class _Late:
    """What a startup brought: nothing where there was none, or it was not waited for."""

    machine: Machine | None = None
    errors: LinkErrorLog | None = None
    sources: tuple[WatchSource, ...] = ()
    refused: Mapping[str, SourceRecord | None] = field(default_factory=dict)
    records: tuple[SourceRecord, ...] = ()


def _too_short(refused: Mapping[str, SourceRecord | None]) -> tuple[SourceRecord, ...]:
    """Return why counters did not watch a program that ended before they were ready.

    Parameters
    ----------
    refused
        Of the sources in the program, by name, why one does not watch; None where it does.
    """
    from lanescope.watching.sources.injection import has_driver

    if not has_driver():
        return ()  # that is why, and the sources in the program have said so
    reason = "The program ended before counters were ready"
    if None in refused.values():
        reason += "; its first use of CUDA would have waited for them"
    return (SourceRecord("counters", used=False, reason=f"{reason}."),)


def _late(starting: _Starting | None) -> _Late:
    if starting is None:
        return _Late()
    begun = starting.result()
    return _Late(begun.machine, begun.errors, begun.sources, begun.refused)


def _give_up(running: Sequence[WatchSource], starting: _Starting | None) -> None:
    for source in running:
        source.stop()
    if starting is not None:
        starting.stop()


def _not_stored(error: Exception, outcome: ProgramExit | None, folder: Path) -> NotStoredError:
    """Return what is told of a failure after the program's end, whose exit code stays its own."""
    known = isinstance(error, LanescopeError)
    cause = str(error) if known else f"a fault of lanescope's own ({type(error).__name__})"
    failed = ExitCode.INPUT if known else ExitCode.FAULT
    if is_there(folder / MANIFEST):
        kept = f"what was watched is kept: 'lanescope report {folder}' shows it"
    else:
        kept = f"{folder} was removed or moved meanwhile, with what was watched"
    return NotStoredError(
        f"{cause}; {kept}",
        failed if outcome is None else outcome.exit_code,
    )


def _readable(text: str) -> str:
    """Return words of a command line as text; a byte that is no UTF-8 is written as ``\\xff``."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def summary_interrupted(ended: WatchManifest, folder: Path, error: Interrupted) -> NotStoredError:
    """Return what is told when somebody does not wait for the summary."""
    code = error.exit_code if ended.exit_code is None else ended.exit_code
    return NotStoredError(
        "interrupted while the summary was made; what was watched is kept, and "
        f"'lanescope report {folder}' makes it again",
        code,
    )


def _stopped(source: WatchSource, refused: SourceRecord | None) -> SourceRecord:
    if refused is not None:
        return refused
    return from_attributes(SourceRecord, source.stop(), name=source.name, used=True)


def _environment(sources: Sequence[WatchSource]) -> Mapping[str, str]:
    added = program_environment()
    for source in sources:
        added |= source.environment()
    return added


def _ended(
    begun: WatchManifest, outcome: ProgramExit | None, end_ns: int, records: Sequence[SourceRecord]
) -> WatchManifest:
    return dataclasses.replace(
        begun,
        end_ns=end_ns,
        exit_code=None if outcome is None else outcome.exit_code,
        state=State.COMPLETE,
        sources=tuple(records),
    )
