"""The run folder of a watch while it goes on; what lies in it is described in store.py."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope.codec.atomic import writing_to
from lanescope.interruption import Interrupted
from lanescope.machine import Machine
from lanescope.machine.files import dumps_machine
from lanescope.store.folder import MACHINE, RunFolder
from lanescope.trace.manifest import WATCH, WatchManifest
from lanescope.trace.spool_room import write_limits

if TYPE_CHECKING:
    from lanescope.trace.run import WatchRun

SPOOL = "spool"


class WatchFolder:
    """The folder of a watch that goes on.

    Parameters
    ----------
    max_spool_bytes
        That spools may take on the disk; None: a share of what is free.

    Raises
    ------
    InputError
        From any method, if the folder cannot be written.
    """

    def __init__(
        self, folder: Path, manifest: WatchManifest, max_spool_bytes: int | None = None
    ) -> None:
        self.folder = folder
        try:
            self._opened = RunFolder.begin(folder, WATCH, manifest)
            with writing_to(folder):
                (folder / SPOOL).mkdir()
                self._limits = write_limits(folder / SPOOL, max_spool_bytes)
        except Interrupted:  # whoever makes a folder has none to discard yet
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def spool(self) -> Path:
        """Where sources append what they see."""
        return self.folder / SPOOL

    def update(self, manifest: WatchManifest) -> None:
        """Store what is known of the watch by now."""
        self._opened.update(manifest)

    def set_machine(self, machine: Machine) -> None:
        """Store the machine, which was not known at the beginning."""
        self._opened.write(MACHINE, dumps_machine(machine).encode())

    def discard(self) -> None:
        """Remove the folder: nothing was watched."""
        self._limits.release()
        self._opened.discard()

    def finish(self, manifest: WatchManifest) -> WatchRun:
        """Make columns of the spools, remove these, and return the whole watch."""
        from lanescope.trace.link_error_log import read_link_errors
        from lanescope.trace.run import WatchRun
        from lanescope.trace.store import make_columns

        self.update(manifest)
        manifest, timeline = make_columns(self.folder, manifest, self.update)
        self.close()
        return WatchRun(manifest, timeline, self.folder, read_link_errors(self.folder))

    def close(self) -> None:
        """Leave it to others, as it is."""
        self._limits.release()
        self._opened.close()
