"""Opens files that others may have laid there: regular files only, and links only where asked.

A run folder may come from somebody else. Its symbolic links could lead out of it, and a FIFO or
a device in place of a file would hold whoever reads it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lanescope.errors import InputError

_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@contextmanager
def opened_folder(path: Path, inner: int = 0) -> Iterator[int]:
    """Open a folder, and give its descriptor.

    Parameters
    ----------
    inner
        How many of its last names lie in a run folder, where no symbolic link is followed.

    Raises
    ------
    InputError
        If one of those is a symbolic link.
    OSError
        If it cannot be opened.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    outer, names = (Path(os.path.abspath(path)) if inner else path), []
    for _ in range(inner):
        names.append(outer.name)
        outer = outer.parent
    folder = os.open(outer, flags)
    try:
        for name in reversed(names):
            _require_no_link(name, folder, path)
            below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def open_file(path: Path, inner: int = 0) -> BinaryIO:
    """Open a regular file to read.

    Parameters
    ----------
    inner
        As of `opened_folder`; the first of these names is the file's own.

    Raises
    ------
    InputError
        If it is a FIFO, a socket or a device, or a symbolic link that is not followed.
    OSError
        If it cannot be opened.
    """
    if inner == 0:
        _require_regular(os.stat(path), path)  # before it is opened: devices act on that
        return _regular(os.open(path, _READING), path)
    with opened_folder(path.parent, inner - 1) as folder:
        _require_no_link(path.name, folder, path)
        _require_regular(os.stat(path.name, dir_fd=folder, follow_symlinks=False), path)
        return _regular(os.open(path.name, _READING | os.O_NOFOLLOW, dir_fd=folder), path)


#: A FIFO that takes the place of a file in this moment holds nobody.
_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def _regular(descriptor: int, path: Path) -> BinaryIO:
    try:
        _require_regular(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _require_regular(found: os.stat_result, path: Path) -> None:
    if stat.S_ISREG(found.st_mode):
        return
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kind = next((words for test, words in _KINDS if test(found.st_mode)), "something else")
    raise InputError(f"{path} is {kind} and no regular file; name another file")


def _require_no_link(name: str, folder: int, path: Path) -> None:
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise InputError(
            f"{path}: {name} is a symbolic link, and none is followed in the folder of a run; put "
            "what it leads to in its place, or name another"
        )
