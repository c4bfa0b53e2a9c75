"""How much of the disk the spools of a watch may take."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

from lanescope.codec.opening import opened_folder
from lanescope.store.folder import FolderLock, lock_opened

#: As in native/src/watch/spool_room.hpp.
LIMITS = "limits"
#: Spools take no more than this share of what is free, and leave at least that half of it.
_SHARE, _RESERVED_SHARE = 4, 2
#: So much is enough for what a program writes while it is watched.
_MOST_RESERVED_BYTES = 4 << 30


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
