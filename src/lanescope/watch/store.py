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
import json
import shutil
from pathlib import Path
from typing import Any

from lanescope.errors import InputError
from lanescope.machine.files import dumps_machine, load_machine
from lanescope.run.atomic import sync_folder, write_atomically, writing_to
from lanescope.run.lock import lock_folder
from lanescope.run.run import SCHEMA_VERSION, State
from lanescope.run.store import MACHINE, MANIFEST
from lanescope.watch.columns import read_columns, write_columns
from lanescope.watch.interrupting import Interrupted
from lanescope.watch.link_error_log import read_link_errors
from lanescope.watch.run import WATCH, SourceRecord, WatchManifest, WatchRun
from lanescope.watch.spool import read_spools
from lanescope.watch.timeline import Timeline
from lanescope.watch.turn_times import read_turns

SPOOL = "spool"
#: What a spool is called while it is removed.
_REMOVED = ".spool"


class WatchFolder:
    """The folder of a watch that goes on.

    Raises
    ------
    InputError
        From any method, if the folder cannot be written.
    """

    def __init__(self, folder: Path, manifest: WatchManifest) -> None:
        with writing_to(folder):
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise InputError(f"{folder} is not empty; name an empty folder with --out")
            self.folder = folder
            try:
                (folder / SPOOL).mkdir(parents=True)
                self._lock = lock_folder(folder)
                write_atomically(folder / MACHINE, dumps_machine(manifest.machine).encode())
                self.update(manifest)
            except Interrupted:  # whoever makes a folder has none to discard yet
                shutil.rmtree(folder, ignore_errors=True)
                raise

    @property
    def spool(self) -> Path:
        """Where sources append what they see."""
        return self.folder / SPOOL

    def update(self, manifest: WatchManifest) -> None:
        """Store what is known of the watch by now."""
        content = {"verb": WATCH, **dataclasses.asdict(manifest)}
        content["described"] = manifest.machine.described
        del content["machine"]  # has a file of its own
        with writing_to(self.folder):
            write_atomically(self.folder / MANIFEST, json.dumps(content, indent=2).encode())

    def discard(self) -> None:
        """Remove the folder: nothing was watched."""
        self._lock.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    def finish(self, manifest: WatchManifest) -> WatchRun:
        """Make columns of the spools, remove these, and return the whole watch.

        A spool goes only when its columns can be read, and all of them at once: what is left
        of them when that is interrupted is no watch any more.
        """
        self.update(manifest)
        with writing_to(self.folder):
            timeline = read_spools(self.spool, manifest.machine, manifest.start_ns, manifest.end_ns)
            write_columns(self.folder, timeline)
            sync_folder(self.folder)
            timeline = _read_back(self.folder, timeline)
            self.spool.rename(self.folder / _REMOVED)
            shutil.rmtree(self.folder / _REMOVED)
        self._lock.release()
        return WatchRun(manifest, timeline, self.folder, read_link_errors(self.folder))


def _read_back(folder: Path, written: Timeline) -> Timeline:
    """Return what was written, from the disk.

    Raises
    ------
    OSError, InputError
        If it cannot be read, or is not all there.
    """
    try:
        timeline = read_columns(folder, written.start_ns, written.end_ns)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the columns in {folder} cannot be read back: {error}") from error
    if _lengths(timeline) != _lengths(written):
        raise InputError(f"the columns in {folder} lack records that were written")
    return timeline


def _lengths(timeline: Timeline) -> list[int]:
    return [*map(len, timeline.counters), *map(len, timeline.probes), len(timeline.operations)]


def read_watch(folder: Path) -> WatchRun:
    """Read the folder of a watch, finished or not.

    Raises
    ------
    InputError
        If it is no such folder, of another schema version, or damaged.
    """
    content = _content(folder)
    if content.get("verb") != WATCH:
        raise InputError(f"{folder} is a run of {content.get('verb')!r} and no watch; name another")
    try:
        machine = load_machine(folder / MACHINE)
        fields = {f.name for f in dataclasses.fields(WatchManifest)} - {"machine"}
        told = {key: value for key, value in content.items() if key in fields}
        told |= {"program": tuple(told["program"]), "notes": tuple(told["notes"])}
        told["sources"] = tuple(SourceRecord(**source) for source in told["sources"])
        told["state"] = State(told["state"])
        machine = dataclasses.replace(machine, described=content["described"])
        manifest = WatchManifest(machine=machine, **told)
        if (folder / SPOOL).is_dir():
            timeline = read_spools(folder / SPOOL, machine, manifest.start_ns, manifest.end_ns)
        else:
            timeline = read_columns(folder, manifest.start_ns, manifest.end_ns)
        errors, turns = read_link_errors(folder), read_turns(folder)
    except OSError as error:
        raise InputError(f"{folder} is not a readable run folder: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder} is damaged or cut short: {error}; name another run") from error
    return WatchRun(manifest, timeline, folder, errors, turns)


def is_watch(folder: Path) -> bool:
    """Whether a run folder holds a watch."""
    return bool(_content(folder).get("verb") == WATCH)


def _content(folder: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        version = content["schema_version"]
    except OSError as error:
        raise InputError(f"{folder} is not a readable run folder: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder / MANIFEST} is damaged or cut short; name another run"
        ) from error
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{folder} has run schema {version}, this is {SCHEMA_VERSION}; read it with a newer "
            f"lanescope ({content.get('tool_version', 'unknown')} wrote it)"
        )
    return content
