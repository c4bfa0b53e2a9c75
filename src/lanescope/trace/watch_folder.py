"""The run folder of a watch while it goes on, and what it says about itself in its manifest.

How much of the disk its spools may take is limited, too. What lies in it is described in store.py.
The rings that programs write to lie in it, or in shared memory with a link to them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope.codec.fields import Moment
from lanescope.codec.files import open_file, opened_folder, writing_to
from lanescope.errors import InputError
from lanescope.interruption import Interrupted
from lanescope.machine import Machine
from lanescope.machine.files import dumps_machine
from lanescope.store.folder import (
    MACHINE,
    SCHEMA_VERSION,
    FolderLock,
    RunFolder,
    State,
    lock_opened,
)

if TYPE_CHECKING:
    from lanescope.trace.run import WatchRun


SPOOL = "spool"
#: As in native/src/watch/spool_room.hpp.
LIMITS = "limits"
#: Spools take no more than this share of what is free, and leave at least that half of it.
_SHARE, _RESERVED_SHARE = 4, 2
#: So much is enough for what a program writes while it is watched.
MOST_RESERVED_BYTES = 4 << 30
#: The verb of such runs.
WATCH = "watch"
#: Among the spools, the folder of the rings or a link to it.
RINGS = "rings"
#: Where rings are no files of a disk, and how their folders' names begin there.
SHARED_MEMORY = Path("/dev/shm")
#: Names of the spools of calls, among those of traces.
CALL_SPOOLS = "trace.*.calls.bin"
RING_PREFIX = "lanescope-"
#: In the folder of the rings: the folder of the spools that they belong to.
_OWNER = "owner"
_LONGEST_PATH = 1 << 16


class WatchFolder:
    """The folder of a watch that goes on.

    Parameters
    ----------
    max_spool_bytes
        That spools may take on the disk; None: a share of what is free.
    most_reserved_bytes
        That spools leave free on the disk, or half of what is free if that is less.

    Raises
    ------
    InputError
        From any method, if the folder cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        manifest: WatchManifest,
        max_spool_bytes: int | None = None,
        most_reserved_bytes: int = MOST_RESERVED_BYTES,
    ) -> None:
        self.folder = folder
        try:
            self._opened = RunFolder.begin(folder, WATCH, manifest)
            with writing_to(folder):
                (folder / SPOOL).mkdir()
                self._limits = write_limits(folder / SPOOL, max_spool_bytes, most_reserved_bytes)
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


def write_limits(
    folder: Path, most_bytes: int | None = None, most_reserved_bytes: int = MOST_RESERVED_BYTES
) -> FolderLock:
    """Write the limits of the spools in a folder, and hold them until they are released.

    Parameters
    ----------
    most_bytes
        That spools may take together; None: a quarter of what is free now.
    most_reserved_bytes
        As of `WatchFolder`.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    free = shutil.disk_usage(folder).free
    most = free // _SHARE if most_bytes is None else most_bytes
    reserve = min(free // _RESERVED_SHARE, most_reserved_bytes)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with opened_folder(folder, inner=1) as spools:
        descriptor = os.open(LIMITS, flags, 0o644, dir_fd=spools)
    with os.fdopen(descriptor, "w") as file:
        lock = lock_opened(os.dup(descriptor), folder / LIMITS)
        file.write(f"{most} {reserve} {int(lock.held)}\n")
    return lock


def is_held(folder: Path) -> bool:
    """Whether a watch that goes on holds the limits of a folder."""
    try:
        with (folder / LIMITS).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True, slots=True)
class SampleLearning:
    """What ``pm`` learned of how the values of samples follow from their bits.

    Attributes
    ----------
    state
        ``in use``, ``learning``, or why it is not used.
    sample_bytes
        Of a sample as CUPTI has written it; 0 where that is not known.
    rows
        Samples that are no sums of others: so many were learned.
    columns
        Bits of samples that have changed.
    begun_anew
        Times that all was forgotten, as samples after a new beginning contradicted it.
    seconds
        What it took, with CUPTI's evaluation of these samples and of proofs.
    """

    state: str
    sample_bytes: int
    rows: int
    columns: int
    begun_anew: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """What became of one source.

    Attributes
    ----------
    used
        Whether it watched.
    reason, remedy
        Why it did not, or what went wrong on the way, and what to do; None when all is well.
    samples, lost_samples
        Of counters; None for other sources.
    asked
        Samples of ``pm`` whose values CUPTI was asked for; None of older runs.
    learned
        By ``pm``; None of other sources and of older runs.
    cpu_seconds
        Processor time that it took beside the program; None when unknown.
    rate_note
        A sentence where the requested rate could not be held; None where it could.
    """

    name: str
    used: bool
    reason: str | None = None
    remedy: str | None = None
    samples: int | None = None
    lost_samples: int | None = None
    asked: int | None = None
    cpu_seconds: float | None = None
    rate_note: str | None = None
    learned: SampleLearning | None = None

    @property
    def sentence(self) -> str:
        """Whether it watched; if not, or not as wanted, why, and what to do."""
        state = "watched" if self.used else "did not watch"
        why = " ".join(filter(None, (self.reason, self.remedy)))
        return f"{self.name}: {state}" + (f". {why}" if why else "")


@dataclass(frozen=True, slots=True)
class WatchManifest:
    """What a watch's folder says about itself.

    Attributes
    ----------
    command
        Command line of lanescope.
    program
        The watched program with its arguments; empty when the whole machine was watched.
    started
        ISO 8601 with the offset from UTC.
    start_ns, end_ns
        When watching began and ended, nanoseconds since 1970; the end is None while it goes
        on, and for ever when it was killed.
    exit_code
        The program's, as a shell tells it; None while it runs or when there is none.
    impossible
        How many records were left out of what is stored, as their times cannot be.
    damage
        Sentences on what was damaged and is left out of it.
    """

    command: str
    program: tuple[str, ...]
    started: Moment
    tool_version: str
    machine: Machine
    start_ns: int
    end_ns: int | None = None
    exit_code: int | None = None
    state: State = State.RUNNING
    sources: tuple[SourceRecord, ...] = ()
    notes: tuple[str, ...] = ()
    impossible: int = 0
    damage: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION


def rings_in(folder: Path) -> Iterator[Path]:
    """Yield the rings of a folder; none where it is gone."""
    yield from sorted(folder.glob("calls.*.ring"))


def claim(rings: Path, spools: Path) -> None:
    """Write into a folder of rings whose they are; raises OSError."""
    with (rings / _OWNER).open("x") as file:
        file.write(str(spools.absolute()))


def rings_of(spools: Path) -> Path | None:
    """Return the folder of the rings that are a watch's own; None where there is none.

    A run of somebody else may hold a link to the rings of another watch: those name that one.
    """
    link = spools / RINGS
    try:
        target = link.resolve(strict=True) if link.is_symlink() else link
        if target != link and (
            target.parent != SHARED_MEMORY or not target.name.startswith(RING_PREFIX)
        ):
            return None
        with open_file(target / _OWNER, inner=1) as file:
            owner = file.read(_LONGEST_PATH).decode("utf-8", "surrogateescape")
        own = target.stat().st_uid == os.getuid() and owner == str(spools.absolute())
    except (OSError, InputError):
        return None
    return target if own else None


@contextlib.contextmanager
def held_rings(spools: Path) -> Iterator[Path | None]:
    """Yield the folder of a watch's rings when nobody else reads them; None where there is none.

    Two reports that read at the same time would each append all of it to the spools.
    """
    place = None
    with contextlib.suppress(OSError):
        if (rings := rings_of(spools)) is not None:
            place = os.open(rings, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(place, fcntl.LOCK_EX)
    try:
        yield rings_of(spools)  # again: another report may have removed them meanwhile
    finally:
        if place is not None:
            os.close(place)


def remove_rings(spools: Path, but_for: Collection[Path] = ()) -> None:
    """Remove the rings of a watch, but for some, as whose processes still write to them.

    Without exceptions their folder goes, too.
    """
    if (rings := rings_of(spools)) is None:
        return
    with contextlib.suppress(OSError):
        for path in rings_in(rings) if but_for else rings.iterdir():
            if path not in but_for:
                path.unlink()
        if but_for:
            return
        rings.rmdir()
    with contextlib.suppress(OSError):
        (spools / RINGS).unlink()
