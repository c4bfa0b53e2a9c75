"""What the name of a file to be written leads to: a link's target, a descriptor, or a device.

A user may name ``/dev/stdout``, a FIFO or a symbolic link as the place of an output. None of them
is replaced: a link is followed, and what is no regular file is opened and written to.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from lanescope.errors import InputError

#: As many links as Linux follows.
_MOST_LINKS = 40
_DESCRIPTOR = re.compile(r"/(?:dev|proc/(self|[0-9]+))/fd/([0-9]{1,9})")
_REFUSED = (
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a block device"),
)


def is_special(path: Path) -> bool:
    """Whether a path leads to what is written to and not replaced; see `file_of`."""
    return file_of(path) is None


def file_of(path: Path) -> Path | None:
    """Return the file that a path leads to, there or not; None where it is no regular file.

    Raises
    ------
    InputError
        If it is a socket or a block device, to which nothing is written.
    OSError
        If its links go round in a circle, or the kernel follows them for nobody
        (``fs.protected_symlinks``), or it names a descriptor that is closed.
    """
    place = _place(path)
    try:
        mode = os.fstat(place).st_mode if isinstance(place, int) else os.stat(place).st_mode
    except FileNotFoundError:
        mode = 0
    kind = next((words for test, words in _REFUSED if test(mode)), None)
    if kind is not None and not isinstance(place, int):
        raise InputError(f"{path} is {kind}, to which no output is written; name a file")
    if isinstance(place, int) or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return None
    return place


def is_standard_output(path: Path) -> bool:
    """Whether a path is another name of what this process prints to."""
    try:
        return _place(path) == 1
    except OSError:
        return False


def open_special(path: Path) -> BinaryIO:
    """Open what is no regular file, as `is_special` says, to write.

    Raises
    ------
    InputError
        If it is a FIFO that nobody reads.
    OSError
        If it cannot be opened.
    """
    place = _place(path)
    if isinstance(place, int):
        if place == 1 and sys.stdout is not None:
            sys.stdout.flush()  # what was printed comes first
        return os.fdopen(os.dup(place), "wb")
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(place, flags)
    except OSError as error:
        if error.errno == errno.ENXIO and stat.S_ISFIFO(os.stat(place).st_mode):
            raise InputError(
                f"nobody reads the FIFO {path}; start what reads it first, or name a file"
            ) from error
        raise
    os.set_blocking(descriptor, True)  # from now on its reader sets the pace
    return os.fdopen(descriptor, "wb")


def _place(path: Path) -> Path | int:
    """Return where a file lies that a user named, or the number of a descriptor of this process."""
    with suppress(FileNotFoundError):
        os.stat(path)  # the kernel's own rules for links
    place = str(path)
    for _ in range(_MOST_LINKS):
        found = _DESCRIPTOR.fullmatch(os.path.abspath(place))
        if found is not None and found[1] in (None, "self", str(os.getpid())):
            return int(found[2])
        try:
            link = os.readlink(place)
        except OSError:  # no link, or nothing is there
            return Path(place)
        place = os.path.join(os.path.dirname(place), link)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
