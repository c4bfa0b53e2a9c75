"""Standard output and standard error that take any text and, for messages, any fate."""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from lanescope.units.plain import plain_text

_HANDLER = "lanescope-plain"
#: Removes what a terminal shows from the cursor to the end of the line.
CLEAR_LINE_END = "\x1b[K"
#: Of ``TERM``: terminals that act on none.
_NO_DRAWING = ("", "dumb", "unknown")
#: Of a terminal that does not say how wide it is.
_USUAL_COLUMNS = 80
#: What a terminal acts on instead of showing it, but for the end of a line and the tabulator.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: The same, but for colours, which typer's help has.
_UNCOLOURED = re.compile(r"\x1b(?!\[[0-9;]{0,20}m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    r"""Return a text in which control characters are shown and not acted on.

    >>> visible("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return _CONTROL.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody looks at a stream, which may have been closed by our caller."""
    return stream is not None and stream.isatty()


def can_be_drawn_on(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that acts on control sequences."""
    return is_terminal(stream) and os.environ.get("TERM", "") not in _NO_DRAWING


def wrapped(text: str, stream: TextIO | None, indent: str = "") -> str:
    """Return a text in lines that a terminal does not cut within words; for files as it is.

    `indent` stands before each line but the first.
    """
    if stream is None or not is_terminal(stream):
        return text
    columns = _columns(stream)
    if not str(stream.encoding).lower().startswith("utf"):
        text = plain_text(text)
    return "\n".join(
        textwrap.fill(
            line,
            columns,
            subsequent_indent=indent if columns > 2 * len(indent) else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )


def _columns(stream: TextIO) -> int:
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named):
        return int(named)
    with suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS
    return _USUAL_COLUMNS


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return plain_text(error.object[error.start : error.end]), error.end


codecs.register_error(_HANDLER, _replace)


class _Output:
    """Standard output, in which control characters of files and arguments are shown.

    Attributes
    ----------
    acting
        The stream below, for who writes control sequences of our own.
    """

    def __init__(self, stream: Any) -> None:
        self.acting = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.acting, name)

    def write(self, text: str) -> int:
        """Write a text, its control characters shown."""
        self.acting.write(_UNCOLOURED.sub(_shown, text))
        return len(text)


class _Closed(io.TextIOBase):
    """A standard stream that whoever started us has closed: what is printed there is an error."""

    encoding = "utf-8"

    def writable(self) -> bool:
        """Nobody knows better before it is tried."""
        return True

    def write(self, text: str) -> int:
        """Fail as a file does that is closed."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class _Piped:
    """Standard output whose reader may leave: what it did not read is dropped.

    A command goes on, and ends with the exit code that it would have had.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, if there is a reader."""
        try:
            self._stream.write(text)
        except BrokenPipeError:
            drop_output()
        return len(text)

    def flush(self) -> None:
        """Hand on what was written, if there is a reader."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            drop_output()


class _Unfailing:
    """A stream of messages; that nobody can read it is no reason to end otherwise."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write what can be written."""
        with suppress(OSError, ValueError):  # full, or closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        with suppress(OSError, ValueError):
            self._stream.flush()


def drop_output() -> None:
    """Drop what standard output still holds, and all that is written to it from now on.

    The interpreter would try at its end to write it once more.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    if nowhere != 1:
        os.close(nowhere)


@contextmanager
def tolerant_streams() -> Iterator[None]:
    """Let both streams take any character, and standard error never fail.

    Where standard output is closed, a verb that prints there fails, as it does on a full disk. A
    reader who leaves early changes nothing.
    """
    before = sys.stdout, sys.stderr
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_HANDLER)
    output = _Closed() if sys.stdout is None else _Piped(sys.stdout)
    sys.stdout = cast(TextIO, _Output(output))
    # None would have 'print' write messages to standard output
    errors = _Closed() if sys.stderr is None else sys.stderr
    sys.stderr = cast(TextIO, _Output(_Unfailing(errors)))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def acting(stream: TextIO | None) -> TextIO | None:
    """Return a standard stream that control sequences pass, for what lanescope itself draws."""
    below: TextIO | None = getattr(stream, "acting", stream)
    return below
