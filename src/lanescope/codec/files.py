"""Stored files: opened only where they are files, read as text, JSON and TOML.

Whatever is wrong is one sentence that names the file. A run folder may come from somebody else: its
symbolic links could lead out of it, and a FIFO or a device in place of a file would hold whoever
reads it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from lanescope._version import __version__
from lanescope.codec.fields import FieldError, shown
from lanescope.errors import InputError

T = TypeVar("T")


#: Longer texts are none of ours; they would take more memory and time than anybody waits.
MOST_TEXT_BYTES = 128 << 20
_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_bytes(path: Path, inner: int = 0) -> bytes:
    """Return what a file holds; raises `InputError` if it cannot be read.

    `inner` is how many of the path's last names lie in a run folder: see `open_file`.
    """
    with reading(path), open_file(path, inner) as file:
        return file.read()


def read_text(path: Path, name: str = "", inner: int = 0) -> str:
    """Return the text of a file, without a byte order mark at its beginning.

    Raises `InputError` if it cannot be read or is no UTF-8.

    `name` is for messages where the path alone would not say what it should be, `inner` as for
    `open_file`.
    """
    with reading(name or path), open_file(path, inner) as file:
        content = file.read(MOST_TEXT_BYTES + 1)
    if len(content) > MOST_TEXT_BYTES:
        raise InputError(
            f"{name or path} has more than {MOST_TEXT_BYTES >> 20} MiB, longer than any that "
            "lanescope writes; name another file"
        )
    try:
        return content.decode("utf-8-sig")  # a mark that some editors put at the beginning
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name or path} is not a text file (byte {error.start} is no UTF-8); name another file"
        ) from error


def read_json(path: Path, inner: int = 0) -> Any:
    """Return what a JSON file holds; raises `InputError` as `read_text` and `parse_json` do."""
    return parse_json(read_text(path, inner=inner), str(path))


def parse_json(text: str, name: str) -> Any:
    """Return what a JSON text holds; `name` is the file's for messages.

    Raises
    ------
    InputError
        If it is no JSON, is cut short, has a field twice or a number that is none.
    """
    try:
        return json.loads(text, object_pairs_hook=_table, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(
            f"{name} is not JSON, or is cut short: {place}: {error.msg}; name another file"
        ) from error
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, FieldError) else "it is nested or long beyond reason"
        raise InputError(f"{name} is damaged: {why}; name another file") from error


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Return what a TOML text holds; `name` is the file's for messages; raises `InputError`."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        known = isinstance(error, tomllib.TOMLDecodeError)
        why = str(error) if known else "it is nested or long beyond reason"
        raise InputError(f"{name} is not TOML: {why}") from error


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn the system's errors while a file or folder is read into one sentence."""
    try:
        yield
    except OSError as error:
        why = error.strerror or "it is damaged"
        raise InputError(f"cannot read {path}: {why}; name another file") from error
    except ValueError as error:  # a name with a NUL
        raise InputError(f"cannot read {str(path)!r}: {error}; name another file") from error


@contextmanager
def fields_of(name: str | Path, remedy: str = "name another file") -> Iterator[None]:
    """Turn what is wrong with a field into a sentence that names its file.

    Raises
    ------
    InputError
        For each `FieldError`.
    """
    try:
        yield
    except FieldError as error:
        raise InputError(f"{name}: {error.in_full}; {remedy}") from error


def require_version(
    found: object, newest: int, name: str | Path, *, oldest: int = 1, writer: object = None
) -> int:
    """Return the version of a file's layout if this lanescope reads it.

    Parameters
    ----------
    writer
        The version of lanescope that wrote it, where the file says so.

    Raises
    ------
    FieldError
        If it is no version.
    InputError
        If it is another one; says which lanescope reads it.
    """
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise FieldError(f"the version of its schema is {shown(found)}, not a whole number", "")
    if oldest <= found <= newest:
        return found
    by = "a newer lanescope" if found > newest else "an older lanescope"
    own = writer == __version__  # one of them was built between two releases
    if isinstance(writer, str) and not own and re.fullmatch(r"[\w.+-]{1,40}", writer):
        by += f", such as {writer}, which wrote it"
    reads = f"{oldest} to {newest}" if oldest < newest else f"{newest}"
    raise InputError(
        f"{name} has version {shown(found)} of its schema, this lanescope reads {reads}; read it "
        f"with {by}"
    )


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldError(f"the field {shown(twice)} is there twice", twice)
    return table


def _no_number(text: str) -> Any:
    raise FieldError(f"{text} is no number", "")


def line_of(text: str, error: FieldError) -> int:
    """Return the line of the field that is wrong, or of its table where it is missing; from 1."""
    lines = ["" if line.lstrip().startswith("#") else line for line in text.splitlines()]
    headers = [i for i, line in enumerate(lines) if line.lstrip().startswith("[")]
    begin = 0
    if error.table:
        mine = [i for i in headers if _names_table(lines[i], error.table)]
        number = error.number or 0
        begin = mine[number] if number < len(mine) else 0
    areas = [begin]
    if error.inside and not error.table:  # a table of the top, which may have a header
        areas[:0] = [i for i in headers if _names_table(lines[i], error.inside)]
    for name in (error.field, error.inside):
        for area in areas:
            end = next((i for i in headers if i > area), len(lines))
            found = [i for i in range(area, end) if _assigns(lines[i], name)]
            if found:
                return found[0] + 1
        found = [i for i in headers if not error.table and _names_table(lines[i], name or "")]
        if found:
            return found[0] + 1
    return begin + 1


def _assigns(line: str, name: str | None) -> bool:
    return re.search(rf"""(^|[\s{{,."']){re.escape(name or " ")}["']?\s*=""", line) is not None


def _names_table(line: str, name: str) -> bool:
    return re.match(rf"""\s*\[+\s*["']?{re.escape(name)}["']?\s*\]""", line) is not None


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
