"""A watch from its start to its end: sources, what is waited for, and what is stored."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lanescope._core import native
from lanescope._version import __version__
from lanescope.errors import InputError, LanescopeError, NotMeasuredError
from lanescope.exit_codes import ExitCode
from lanescope.interruption import Interrupted
from lanescope.machine import Machine
from lanescope.store.folder import State
from lanescope.store.folders import new_run_folder
from lanescope.trace.link_error_log import LinkErrorLog
from lanescope.trace.run import WATCH, SourceRecord, WatchManifest, WatchRun
from lanescope.trace.store import WatchFolder
from lanescope.watching.interrupting import deferred
from lanescope.watching.launcher import Outcome, program_environment
from lanescope.watching.sources.base import Source, prepare_all
from lanescope.watching.waiting import Waited

#: Counters go on for so long after the program's end, so that its last burst is whole.
_AFTERWARDS_SECONDS = 0.02


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
    """

    machine: Machine
    waited: Waited
    command: str
    sources: Callable[[Path], Sequence[Source]]
    out: Path | None = None
    beside: Callable[[Path], AbstractContextManager[object]] = nullcontext
    max_spool_bytes: int | None = None


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
    """
    begun = WatchManifest(
        command=_readable(request.command),
        program=tuple(map(_readable, request.waited.program)),
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        tool_version=__version__,
        machine=request.machine,
        start_ns=native.watch_time_ns(),
        notes=request.waited.notes,
    )
    folder = WatchFolder(request.out or new_run_folder(WATCH), begun, request.max_spool_bytes)
    running: list[Source] = []
    ended = outcome = None
    try:
        errors = LinkErrorLog(folder.folder, request.machine)
        sources = list(request.sources(folder.spool))
        refused = _started(sources, running)
        begun = dataclasses.replace(begun, start_ns=native.watch_time_ns())
        folder.update(begun)
        environment = _environment(running)
        with request.beside(folder.spool), deferred():
            try:
                outcome = request.waited.wait(environment)
                time.sleep(_AFTERWARDS_SECONDS)
                end_ns = native.watch_time_ns()  # before sources are stopped, which takes time
            finally:
                records = [_stopped(source, refused[source.name]) for source in sources]
                running.clear()
            ended = _ended(begun, outcome, end_ns, records)
            folder.update(ended)
            errors.end()
        return folder.finish(ended)
    except Interrupted as error:
        if ended is None:  # before anything was run
            for source in running:
                source.stop()
            folder.discard()
            raise
        raise summary_interrupted(ended, folder.folder, error) from error
    except Exception as error:
        if ended is None and outcome is None:
            for source in running:  # a full disk, say, between their start and the program's
                source.stop()
            raise
        raise _not_stored(error, outcome, folder.folder) from error


def _not_stored(error: Exception, outcome: Outcome | None, folder: Path) -> NotStoredError:
    """Return what is told of a failure after the program's end, whose exit code stays its own."""
    expected = isinstance(error, LanescopeError)
    cause = str(error) if expected else f"a fault of lanescope's own ({type(error).__name__})"
    failed = ExitCode.INPUT if expected else ExitCode.FAULT
    return NotStoredError(
        f"{cause}; what was watched is kept: 'lanescope report {folder}' shows it",
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


def _started(sources: Sequence[Source], running: list[Source]) -> dict[str, SourceRecord | None]:
    """Start all sources; what stands in the way of one is told and harms nobody.

    Those that run are added to `running`, also when somebody interrupts.
    """
    found: dict[str, SourceRecord | None] = {}
    for source, refusal in zip(sources, prepare_all(sources), strict=True):
        found[source.name] = None
        try:
            if refusal is not None:
                raise refusal
            source.start()
            running.append(source)
        except NotMeasuredError as error:
            found[source.name] = SourceRecord(source.name, False, error.reason, error.remedy)
    return found


def _stopped(source: Source, refused: SourceRecord | None) -> SourceRecord:
    if refused is not None:
        return refused
    report = source.stop()
    return SourceRecord(
        source.name,
        used=True,
        reason=report.reason,
        remedy=report.remedy,
        samples=report.samples,
        lost_samples=report.lost_samples,
        asked=report.asked,
        cpu_seconds=report.cpu_seconds,
    )


def _environment(sources: Sequence[Source]) -> Mapping[str, str]:
    added = program_environment()
    for source in sources:
        added |= source.environment()
    return added


def _ended(
    begun: WatchManifest, outcome: Outcome | None, end_ns: int, records: Sequence[SourceRecord]
) -> WatchManifest:
    return dataclasses.replace(
        begun,
        end_ns=end_ns,
        exit_code=None if outcome is None else outcome.exit_code,
        state=State.COMPLETE,
        sources=tuple(records),
    )
