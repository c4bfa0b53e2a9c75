"""Standard output and standard error that take any text and, for messages, any fate."""

from __future__ import annotations

import codecs
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

#: What has no decomposition that ASCII could show.
_PLAIN = {
    "→": "->",
    "←": "<-",
    "↔": "<->",
    "⇄": "<->",
    "⇆": "<->",
    "↳": "->",
    "×": "x",
    "–": "-",
    "—": "-",
    "−": "-",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "±": "+-",
    "µ": "u",
    "μ": "u",
    "·": "-",
    "•": "*",
    "…": "...",
    "✓": "ok",
    "✕": "x",
    "▼": "v",
    "○": "o",
    "◇": "<>",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "│": "|",
    "┃": "|",
    "├": "|",
    "└": "`",
    "─": "-",
    "━": "-",
    "↓": "down",
    "↑": "up",
    "°": " degrees ",
    "▁": "_",
    "▂": "_",
    "▃": ".",
    "▄": "-",
    "▅": "=",
    "▆": "+",
    "▇": "*",
    "█": "#",
}
_HANDLER = "lanescope-plain"


def plain_text(text: str) -> str:
    """Return a text in ASCII: ``->`` for an arrow, and ``?`` for what has no likeness."""
    return "".join(map(_plain_character, text))


def _plain_character(character: str) -> str:
    if character.isascii():
        return character
    if character in _PLAIN:
        return _PLAIN[character]
    near = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return near or "?"


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return plain_text(error.object[error.start : error.end]), error.end


codecs.register_error(_HANDLER, _replace)


class _Messages:
    """Standard error; that nobody can read it is no reason to end otherwise."""

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


@contextmanager
def tolerant_streams() -> Iterator[None]:
    """Let both streams take any character, and standard error never fail."""
    before = sys.stderr
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=_HANDLER)
    if before is not None:
        sys.stderr = _Messages(before)
    try:
        yield
    finally:
        sys.stderr = before
