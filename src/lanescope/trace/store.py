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
    python_lines.parquet a row for each copy whose line of Python was requested
    link-errors.json     error counters of links, at the start and at the end
    turns.json           how long the program took, watched and unwatched, where asked for
    boost.json           what became of copies that were to be carried, where asked for
    probe.parquet        a row for each record of each probe, where there was one
    report.html          the page, when it was written

Spools are read as they are when lanescope itself was killed; they are removed when the
columns made of them are on the disk.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

from lanescope.codec.atomic import sync_folder, writing_to
from lanescope.codec.fields import shown
from lanescope.codec.files import reading
from lanescope.errors import InputError
from lanescope.store.folder import MANIFEST, State, read_manifest, verb_of
from lanescope.trace.boosted import read_boost
from lanescope.trace.columns import read_columns, write_columns
from lanescope.trace.link_error_log import read_link_errors
from lanescope.trace.run import WATCH, WatchManifest, WatchRun, read_turns
from lanescope.trace.segments import DEFAULT_LAST_NS, is_continuous, read_last
from lanescope.trace.spool import read_spools
from lanescope.trace.time_checks import FAR_NS
from lanescope.trace.timeline import Timeline
from lanescope.trace.watch_folder import SPOOL

#: What a spool is called while it is removed.
_REMOVED = ".spool"


def make_columns(
    folder: Path, manifest: WatchManifest, update: Callable[[WatchManifest], None]
) -> tuple[WatchManifest, Timeline]:
    """Make columns of the spools of a watch, remove these, and return what is known of it then.

    A spool goes only when its columns can be read, and all of them at once: what is left
    of them when that is interrupted is no watch any more.

    Parameters
    ----------
    update
        Stores the manifest.
    """
    spool = folder / SPOOL
    with writing_to(folder):
        timeline = read_spools(spool, manifest.machine, manifest.start_ns, manifest.end_ns)
        write_columns(folder, timeline)
        manifest = dataclasses.replace(manifest, impossible=timeline.impossible)
        update(manifest)
        sync_folder(folder)
        timeline = _read_back(folder, timeline)
        spool.rename(folder / _REMOVED)
        shutil.rmtree(folder / _REMOVED)
    return manifest, timeline


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


def read_watch(folder: Path, last_ns: int | None = None) -> WatchRun:
    """Read the folder of a watch, finished or not.

    Parameters
    ----------
    last_ns
        Of a watch without an end: how much of it; None: the last hour.

    Raises
    ------
    InputError
        If it is no such folder, of another schema version, or damaged.
    """
    if (verb := verb_of(folder)) != WATCH:
        raise InputError(f"{folder} is a run of {shown(verb)} and no watch; name another")
    manifest = read_manifest(WatchManifest, folder)
    if is_continuous(folder):
        timeline = read_last(folder, last_ns or DEFAULT_LAST_NS)
        manifest = dataclasses.replace(
            manifest,
            start_ns=timeline.start_ns,
            end_ns=timeline.end_ns,
            state=State.COMPLETE,
        )
        return WatchRun(manifest, timeline, folder)
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
    return WatchRun(manifest, timeline, folder, errors, turns, read_boost(folder))


def is_watch(folder: Path) -> bool:
    """Whether a run folder holds a watch."""
    return verb_of(folder) == WATCH
