"""How much of a disk spools may take, told to whoever writes them by a file beside them.

The file holds three numbers: the bytes that all spools may take together, those that stay free for
the program, and whether the file is locked, which not every file system can. It is locked as long
as this process reads: programs end to write spools when the kernel has let go of the lock
(native/src/inject/spool_file.cpp).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lanescope.codec.opening import opened_folder
from lanescope.run.folder import FolderLock, lock_opened

#: As in native/include/lanescope/watch/spool_room.hpp.
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
