"""Files that are there whole or not at all, and what the name of one to be written leads to.

A user may name ``/dev/stdout``, a FIFO or a symbolic link as the place of an output. None of them
is replaced: a link is followed, and what is no regular file is opened and written to.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from lanescope.codec.files import opened_folder
from lanescope.errors import InputError

#: How a file is called until it is whole: the end of its name, which begins with a dot.
PART = ".part"
#: As many links as Linux follows.
_MOST_LINKS = 40
_DESCRIPTOR = re.compile(r"/(?:dev|proc/(self|[0-9]+))/fd/([0-9]{1,9})")
_REFUSED = (
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a block device"),
)


def write_atomically(path: Path, content: bytes, inner: int = 1) -> None:
    """Write a file so that it is there whole or not at all; see `replace_when_written`."""
    replace_when_written(path, lambda file: file.write(content), inner)


def write_text(path: Path, text: str, inner: int = 0) -> None:
    """Write a file that a user named, as `write_named` does, or one in a run folder.

    Parameters
    ----------
    inner
        As of `replace_when_written` for a file in a run folder; 0: a user named this one.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    content = text.encode()
    try:
        if inner:
            write_atomically(path, content, inner)
        else:
            write_named(path, lambda file: file.write(content))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; name another place") from error


def write_named(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a file that a user named.

    A symbolic link is followed, and the file that it leads to is there whole or not at all. A FIFO,
    a character device or a descriptor of this process, as ``/dev/stdout`` is, is written to once
    all is known, and stays what it is.

    Raises
    ------
    InputError
        If it is a socket or a block device, or a FIFO that nobody reads.
    OSError
        If it cannot be written.
    """
    if (place := file_of(path)) is not None:
        replace_when_written(place, write)
        return
    import shutil
    import tempfile  # slow to load

    with tempfile.TemporaryFile() as whole:
        write(whole)
        whole.seek(0)
        with open_special(path) as special:
            shutil.copyfileobj(whole, special)


def replace_when_written(path: Path, write: Callable[[BinaryIO], object], inner: int = 1) -> None:
    """Let `write` fill a file beside `path`, and move it there when it is on the disk.

    The file beside it is new and has a name that nobody can foresee, so that nothing that lies in
    the folder already is written to. A symbolic link at `path` is replaced, not followed.

    Parameters
    ----------
    inner
        How many of the last names of `path` lie in a run folder, whose own folders may be no
        symbolic links; 1 is the file alone.

    Raises
    ------
    InputError
        If one of those is a symbolic link.
    OSError
        If it cannot be written.
    """
    if path.is_dir():  # before '.' or '/' is asked for the name that it has not
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with opened_folder(path.parent, inner - 1) as folder:
        temporary, file = _new_file(folder)
        try:
            with file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def _new_file(folder: int) -> tuple[str, BinaryIO]:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    name = f".{secrets.token_hex(8)}{PART}"
    return name, os.fdopen(os.open(name, flags, 0o666, dir_fd=folder), "w+b")


def sync_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on the disk, as the files themselves are."""
    with opened_folder(folder) as descriptor:
        os.fsync(descriptor)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn the system's errors while a folder is written into one sentence.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    try:
        yield
    except OSError as error:
        # pyarrow puts the call into its text; the system's word is enough
        reason = os.strerror(error.errno) if error.errno else re.sub(r"\s+", " ", str(error))
        raise InputError(f"cannot write to {folder}: {reason}; name another folder") from error


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
