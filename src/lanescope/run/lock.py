"""One writer for each run folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from lanescope.errors import InputError
from lanescope.run.folders import one_for_each_process


class FolderLock:
    """Held until released, or until the process ends, however it does."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def held(self) -> bool:
        """Whether others are kept away: not where a file system has no locks."""
        return self._descriptor is not None

    def release(self) -> None:
        """Let others write."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.release()


def lock_folder(folder: Path) -> FolderLock:
    """Return the right to write a folder.

    Raises
    ------
    InputError
        If another process holds it.
    """
    return lock_opened(os.open(folder, os.O_RDONLY), folder)


def lock_opened(descriptor: int, path: Path) -> FolderLock:
    """Return the right to write what a descriptor is of, which closes it; see `lock_folder`."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(
            f"another lanescope writes to {path}; wait for its end, or name another with --out"
            + one_for_each_process(path)
        ) from None
    except OSError:  # some network file systems have no locks
        os.close(descriptor)
        return FolderLock(None)
    return FolderLock(descriptor)
