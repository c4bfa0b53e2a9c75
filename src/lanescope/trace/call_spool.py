"""Rings that programs record their copies in, and spools of these, in the layout of traces."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lanescope._core import native
from lanescope.codec.files import open_file, opened_folder, read_bytes
from lanescope.errors import InputError
from lanescope.trace.call_ring import (
    CallRing,
    RingNotReadyError,
    TickClock,
    count_record,
    spool_start,
    spooled,
    text_record,
)
from lanescope.trace.codes import IntArray
from lanescope.trace.spool_records import COUNTS, NO_ROOM, OPERATIONS, Kind, Records
from lanescope.trace.watch_folder import is_held

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


def spool_of(ring: CallRing, spools: Path) -> Path:
    """Return where the copies of a ring go: a process's number is another's later."""
    return spools / f"trace.{ring.process}.{ring.start()[1]}.calls.bin"


class RingSpool:
    """The spool of one process's ring.

    Parameters
    ----------
    path
        Of the spool; what it holds already stays, and is not read from the ring again.
    """

    def __init__(self, ring: CallRing, path: Path, room: native.SpoolRoom) -> None:
        self._ring, self._path, self._room = ring, path, room
        self._clock = TickClock(ring.start())
        self._written = self._left_out = self._lost = 0
        #: Whether a copy was large enough for its line of Python to be wanted.
        self.wanted_lines = False
        if path.exists():
            self._written = self._skip_known(read_bytes(path, inner=2))
        else:
            self._append(spool_start(ring))

    @property
    def is_orphaned(self) -> bool:
        """Whether the process is known to be no longer there."""
        return self._ring.is_orphaned

    def read(self, *, last: bool = False) -> None:
        """Append what was recorded since the last time; at last also the end."""
        self._clock.update()
        taken = self._ring.take(last=last)
        self._lost += taken.lost
        self.wanted_lines |= bool(taken.records["stack"].any())
        stacks = b"".join(
            text_record(Kind.STACK, number, text) for number, text in self._ring.new_stacks()
        )
        start, end = (self._times(taken.records[name]) for name in ("start", "end"))
        content, count = spooled(taken.records, self._written, start, end), len(taken.records)
        if count and not self._room.has(len(content)):
            self._left_out += count
            content, count = b"", 0
        content = stacks + content
        if self._lost:
            content += count_record(Kind.LOSS, native.watch_time_ns(), self._lost)
        if last:
            content += self._end(self._written + count)
        if not content:
            return
        if self._append(content):
            self._written, self._lost = self._written + count, 0
        else:
            self._lost += count

    def _times(self, column: npt.NDArray[np.uint64]) -> IntArray:
        if self._ring.has_ticks:
            return self._clock.ns(column)
        return column.astype(np.int64) + native.watch_clock_ahead_ns()

    def _skip_known(self, content: bytes) -> int:
        """Leave out what a spool holds already; return how many records those are."""
        records = Records.found_in(content, content.find(b"\n") + 1)
        written = len(records.table(Kind.OPERATION, OPERATIONS))
        self._ring.skip(written + int(records.table(Kind.LOSS, COUNTS)["records"].sum()))
        return written

    def _end(self, written: int) -> bytes:
        now, content = native.watch_time_ns(), b""
        if self._left_out:
            content += count_record(Kind.LOSS, now, self._left_out, NO_ROOM)
        if launches := self._ring.graph_launches:
            content += text_record(
                Kind.NOTE,
                0,
                f"{launches} launches of CUDA graphs: copies in graphs are in no call and so not "
                "recorded; --trace always traces them.",
            )
        if self._ring.stack_ns:
            content += count_record(Kind.LINE_COST, now, self._ring.stack_ns)
        return content + count_record(Kind.END, now, written)

    def _append(self, content: bytes) -> bool:
        """Append all of it or nothing; return whether that worked."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with opened_folder(self._path.parent, inner=1) as folder:
                descriptor = os.open(self._path.name, flags, 0o644, dir_fd=folder)
            with open(descriptor, "ab", buffering=0) as file:
                before = os.fstat(descriptor).st_size
                if file.write(content) == len(content):
                    return True
                file.truncate(before)  # no half a record in the middle
        except (OSError, InputError):
            pass
        return False


def recover(spools: Path) -> None:
    """Append what rings still hold to the spools of a watch that was killed, and remove the rings.

    Raises
    ------
    InputError
        If a spool cannot be read.
    """
    if (rings := rings_of(spools)) is None or is_held(spools):
        return
    for path in rings_in(rings):
        with contextlib.suppress(RingNotReadyError, InputError):
            ring = CallRing(path)
            room = native.SpoolRoom(str(spools))
            if ring.is_used:
                RingSpool(ring, spool_of(ring, spools), room).read(last=True)
    remove_rings(spools)


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


def remove_rings(spools: Path) -> None:
    """Remove the rings of a watch; processes that still run go on writing to what is theirs."""
    if (rings := rings_of(spools)) is None:
        return
    with contextlib.suppress(OSError):
        for path in rings.iterdir():
            path.unlink()
        rings.rmdir()
    with contextlib.suppress(OSError):
        (spools / RINGS).unlink()
