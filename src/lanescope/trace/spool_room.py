"""How much of the disk the spools of a watch may take."""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import time
from pathlib import Path

from lanescope.codec.opening import opened_folder
from lanescope.store.folder import FolderLock, lock_opened

#: As in native/src/watch/spool_room.hpp.
LIMITS = "limits"
#: Spools take no more than this share of what is free, and leave at least that half of it.
_SHARE, _RESERVED_SHARE = 4, 2
#: So much is enough for what a program writes while it is watched.
_MOST_RESERVED_BYTES = 4 << 30
#: From count to count of what spools take.
_RECOUNT_SECONDS = 1.0


def write_limits(folder: Path, most_bytes: int | None = None) -> FolderLock:
    """Write the limits of the spools in a folder, and hold them until they are released.

    Parameters
    ----------
    most_bytes
        That spools may take together; None: a quarter of what is free now.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    free = shutil.disk_usage(folder).free
    most = free // _SHARE if most_bytes is None else most_bytes
    reserve = min(free // _RESERVED_SHARE, _MOST_RESERVED_BYTES)
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


class SpoolRoom:
    """How much room the spools of a watch have left, for writers in this process.

    Parameters
    ----------
    folder
        The spools', with the file of `write_limits`; without it there is no limit.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counted_at = -math.inf
        self._used = 0
        try:
            most, reserve = (folder / LIMITS).read_text().split()[:2]
            self._limits = int(most), int(reserve)
        except (OSError, ValueError):
            self._limits = (-1, 0)

    def has(self, count: int) -> bool:
        """Say whether so many more bytes may be written; it is taken that they are then."""
        most, reserve = self._limits
        if most < 0:
            return True
        try:
            if time.monotonic() - self._counted_at > _RECOUNT_SECONDS:
                with os.scandir(self._folder) as entries:
                    self._used = sum(e.stat().st_size for e in entries if e.is_file())
                self._counted_at = time.monotonic()
            free = shutil.disk_usage(self._folder).free
        except OSError:
            return False
        if self._used + count > most or free - count < reserve:
            return False
        self._used += count
        return True
