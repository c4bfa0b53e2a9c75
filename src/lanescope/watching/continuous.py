"""The folder of a watch without an end, and its sessions one after the other."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from lanescope._core import native
from lanescope._version import __version__
from lanescope.codec.atomic import writing_to
from lanescope.errors import InputError
from lanescope.interruption import Interrupted
from lanescope.machine import Machine
from lanescope.machine.files import dumps_machine
from lanescope.store.folder import MACHINE, RunFolder
from lanescope.store.folders import default_runs_folder, require_new
from lanescope.trace.segments import SEGMENTS, SESSION, is_continuous, stored_bytes
from lanescope.trace.watch_folder import WATCH, WatchManifest
from lanescope.watching.segment_writer import ContinuousWait, SegmentWriter
from lanescope.watching.session import Watch, watch
from lanescope.watching.signals import interruptible
from lanescope.watching.sources.base import Source

#: Its run if no folder is named.
NAME = "continuous"
#: Spools are given back to the disk as they grow, so that their lengths say nothing.
_NO_LIMIT = 1 << 60
#: Before sources that said nothing are begun anew.
_PAUSE_SECONDS = 5.0
_SHARE_OF_FREE = 4

Sources = Callable[[Machine, Path], Sequence[Source]]


@dataclasses.dataclass(frozen=True, slots=True)
class ContinuousWatch:
    """What to keep, and how much of it.

    Attributes
    ----------
    folder
        New, or one of an earlier watch of this kind, which goes on.
    keep_ns, most_bytes
        The last so long, in no more than so many bytes; None: a quarter of what is free.
    machine, sources
        Looks at the machine, and makes its sources, given the folder that they append to.
    command
        Command line of lanescope, for the record.
    """

    folder: Path
    keep_ns: int
    most_bytes: int | None
    machine: Callable[[], Machine]
    sources: Sources
    command: str

    def writer(self) -> SegmentWriter:
        """Return what makes the segments.

        Raises
        ------
        InputError
            If the folder is something else.
        """
        if self.folder.exists() and not is_continuous(self.folder):
            require_new(self.folder)
        with writing_to(self.folder):
            (self.folder / SEGMENTS).mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.folder).free
        most = (
            (free + stored_bytes(self.folder)) // _SHARE_OF_FREE
            if self.most_bytes is None
            else self.most_bytes
        )
        return SegmentWriter(self.folder, self.keep_ns, most)

    def run(self, writer: SegmentWriter, restarted: Callable[[], None]) -> int:
        """Watch until Ctrl-C or SIGTERM, and return its number.

        Sources that say nothing for long are begun anew: `restarted` is called then.

        Raises
        ------
        InputError
            If another process has the folder, or it cannot be written.
        """
        with RunFolder(self.folder, WATCH) as own:
            try:
                with interruptible():
                    return self._sessions(own, writer, restarted)
            except Interrupted as error:  # between two sessions, or before the first
                return error.number

    def _sessions(
        self, own: RunFolder, writer: SegmentWriter, restarted: Callable[[], None]
    ) -> int:
        writer.recover()
        while True:
            machine = self.machine()
            self._describe(own, machine)
            ending = ContinuousWait(writer)
            self._session(machine, writer, ending)
            if ending.signal is not None:
                return ending.signal
            restarted()
            time.sleep(_PAUSE_SECONDS)

    def _describe(self, own: RunFolder, machine: Machine) -> None:
        own.write(MACHINE, dumps_machine(machine).encode())
        own.update(
            WatchManifest(
                command=self.command,
                program=(),
                started=datetime.now().astimezone().isoformat(timespec="seconds"),
                tool_version=__version__,
                machine=machine,
                start_ns=native.watch_time_ns(),
                notes=("The whole machine was watched; no program was traced.",),
            )
        )

    def _session(self, machine: Machine, writer: SegmentWriter, ending: ContinuousWait) -> None:
        place = self.folder / SESSION
        shutil.rmtree(place, ignore_errors=True)  # of one that was killed
        request = Watch(
            machine,
            ending,
            self.command,
            lambda spool: self.sources(machine, spool),
            place,
            lambda spool: writer.writing(spool, machine),
            _NO_LIMIT,
        )
        try:
            watch(request)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def default_folder() -> Path:
    """Return where a watch without an end keeps what it counts if nobody says so."""
    return default_runs_folder() / NAME


def require_continuous(folder: Path) -> None:
    """Refuse a folder that is not of a watch without an end; raises InputError."""
    if not is_continuous(folder):
        raise InputError(f"{folder} is no watch that keeps the last of it; leave --last out")
