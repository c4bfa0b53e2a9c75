"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lanescope.errors import InputError


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    replace_when_written(path, lambda temporary: temporary.write_bytes(content))


def replace_when_written(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make a file beside `path`, and move it there when it is on the disk."""
    if path.is_dir():  # before '.' or '/' is asked for the name that it has not
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary = path.with_name(f".{path.name}.part")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on the disk, as the files themselves are."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
