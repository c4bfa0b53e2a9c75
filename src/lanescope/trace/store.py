"""Run folders of watches: raw spools while it goes on, columns afterwards.

Layout::

    manifest.json        program, command, start, end, state, sources
    machine.toml         the machine, as a machine file
    spool/               what sources append to while they watch
    counters.parquet     a row for each record of each counter
    operations.parquet   a row for each copy, memset and kernel
    processes.json       the processes that were traced
    ranges.parquet       a row for each NVTX range, where there were any
    managed.parquet      a row for each migration and fault of managed memory, where traced
    host_copies.parquet  a row for what each call that copies was passed, where asked for
    link-errors.json     error counters of links, at the start and at the end
    turns.json           how long the program took, watched and unwatched, where asked for
    probe.parquet        a row for each record of each probe, where there was one
    report.html          the page, when it was written

Spools are read as they are when lanescope itself was killed; they are removed when the
columns made of them are on the disk.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from lanescope.codec.atomic import sync_folder, writing_to
from lanescope.codec.fields import shown
from lanescope.codec.files import reading
from lanescope.errors import InputError
from lanescope.interruption import Interrupted
from lanescope.store.folder import MANIFEST, RunFolder, read_manifest, verb_of
from lanescope.trace.columns import read_columns, write_columns
from lanescope.trace.link_error_log import read_link_errors
from lanescope.trace.run import WATCH, WatchManifest, WatchRun, read_turns
from lanescope.trace.spool import read_spools
from lanescope.trace.spool_room import write_limits
from lanescope.trace.time_checks import FAR_NS
from lanescope.trace.timeline import Timeline

SPOOL = "spool"
#: What a spool is called while it is removed.
_REMOVED = ".spool"


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

    def discard(self) -> None:
        """Remove the folder: nothing was watched."""
        self._limits.release()
        self._opened.discard()

    def finish(self, manifest: WatchManifest) -> WatchRun:
        """Make columns of the spools, remove these, and return the whole watch.

        A spool goes only when its columns can be read, and all of them at once: what is left
        of them when that is interrupted is no watch any more.
        """
        self.update(manifest)
        with writing_to(self.folder):
            timeline = read_spools(self.spool, manifest.machine, manifest.start_ns, manifest.end_ns)
            write_columns(self.folder, timeline)
            manifest = dataclasses.replace(manifest, impossible=timeline.impossible)
            self.update(manifest)
            sync_folder(self.folder)
            timeline = _read_back(self.folder, timeline)
            self.spool.rename(self.folder / _REMOVED)
            shutil.rmtree(self.folder / _REMOVED)
        self._limits.release()
        self._opened.close()
        return WatchRun(manifest, timeline, self.folder, read_link_errors(self.folder))


def _read_back(folder: Path, written: Timeline) -> Timeline:
    """Return what was written, from the disk.

    Raises
    ------
    OSError, InputError
        If it cannot be read, or is not all there.
    """
    timeline = read_columns(folder, written.start_ns, written.end_ns)
    if _lengths(timeline) != _lengths(written):
        raise InputError(f"the columns in {folder} lack records that were written")
    return dataclasses.replace(timeline, impossible=written.impossible)


def _lengths(timeline: Timeline) -> list[int]:
    return [*map(len, timeline.counters), *map(len, timeline.probes), len(timeline.operations)]


def read_watch(folder: Path) -> WatchRun:
    """Read the folder of a watch, finished or not.

    Raises
    ------
    InputError
        If it is no such folder, of another schema version, or damaged.
    """
    if (verb := verb_of(folder)) != WATCH:
        raise InputError(f"{folder} is a run of {shown(verb)} and no watch; name another")
    manifest = read_manifest(WatchManifest, folder)
    start_ns, end_ns = manifest.start_ns, manifest.end_ns
    if end_ns is not None and end_ns - start_ns > FAR_NS:
        raise InputError(
            f"{folder / MANIFEST}: field 'end_ns' is years from 'start_ns'; name another run"
        )
    if end_ns is not None and end_ns < start_ns:  # stored when watches still followed the clock
        note = "The clock was set back meanwhile: the end of the watch is that of its last record."
        manifest = dataclasses.replace(manifest, notes=(*manifest.notes, note))
        end_ns = None
    with reading(folder):
        if (folder / SPOOL).is_dir():
            timeline = read_spools(folder / SPOOL, manifest.machine, start_ns, end_ns)
        else:
            timeline = read_columns(folder, start_ns, end_ns)
    before = manifest.impossible
    timeline = dataclasses.replace(timeline, impossible=timeline.impossible + before)
    errors, turns = read_link_errors(folder), read_turns(folder)
    return WatchRun(manifest, timeline, folder, errors, turns)


def is_watch(folder: Path) -> bool:
    """Whether a run folder holds a watch."""
    return verb_of(folder) == WATCH
