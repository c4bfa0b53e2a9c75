"""Stored files: opened only where they are files, read as text, JSON and TOML, written whole.

Whatever is wrong is one sentence that names the file. A run folder may come from somebody else: its
symbolic links could lead out of it, and a FIFO or a device in place of a file would hold whoever
reads it.

What is written is there whole or not at all. A user may name ``/dev/stdout``, a FIFO or a symbolic
link as the place of an output. None of them is replaced: a link is followed, and what is no regular
file is opened and written to.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

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
#: A FIFO that takes the place of a file in this moment holds nobody.
_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
#: How a file is called until it is whole: the end of its name, which begins with a dot.
PART = ".part"
#: As many links as Linux follows.
_MOST_LINKS = 40
_DESCRIPTOR = re.compile(r"/(?:dev|proc/(self|[0-9]+))/fd/([0-9]{1,9})")
_REFUSED = (
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a block device"),
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
    from lanescope._version import __version__  # loads a parser of mail, for an error alone

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
        temporary = f".{secrets.token_hex(8)}{PART}"
        try:  # from before it is there: Ctrl-C may come while it is made
            with _new_file(temporary, folder) as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def _new_file(name: str, folder: int) -> BinaryIO:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(name, flags, 0o666, dir_fd=folder), "w+b")


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
