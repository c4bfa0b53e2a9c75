"""A few lines of a terminal that are drawn again and again.

rich does that as well, and lays its lines out anew each time: that took half of what a live view
may take.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from types import TracebackType

    from rich.text import Text

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_CLEAR_LINE_END, _CLEAR_BELOW = "\x1b[K", "\x1b[J"
#: What ECMA-48 calls the few styles that are used.
_STYLES = {"bold": "1", "dim": "2", "cyan": "36", "green": "32", "yellow": "33"}
#: What a terminal acts on, a character in its place: columns are counted.
_CONTROL = dict.fromkeys((*range(10), *range(11, 32), *range(127, 160)), "?")


class Redrawn:
    """Draws texts over each other; what was drawn is gone at the end.

    Raises
    ------
    OSError
        From any method, if the terminal has gone.
    """

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._drawn = 0

    @property
    def columns(self) -> int:
        """How wide the terminal is."""
        return self._size().columns

    def draw(self, told: Text) -> None:
        """Draw lines in place of those before, as many as the terminal has room for."""
        size = self._size()
        lines = _lines(told, size.columns)[: max(size.lines - 1, 1)]
        content = "".join(f"{line}{_CLEAR_LINE_END}\n" for line in lines)
        self._write(f"{self._up()}{content}{_CLEAR_BELOW}")
        self._drawn = len(lines)

    def __enter__(self) -> Redrawn:
        self._write(_HIDE_CURSOR)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write(f"{self._up()}{_CLEAR_BELOW}{_SHOW_CURSOR}")

    def _up(self) -> str:
        return f"\r\x1b[{self._drawn}A" if self._drawn else "\r"

    def _size(self) -> os.terminal_size:
        found = os.get_terminal_size(self._terminal.fileno())
        return found if found.columns and found.lines else os.terminal_size((80, 24))

    def _write(self, content: str) -> None:
        self._terminal.write(content)
        self._terminal.flush()


def _lines(told: Text, columns: int) -> list[str]:
    """Return the lines of a text with the codes of its styles, each cut to the width."""
    styles = {} if os.environ.get("NO_COLOR") else _STYLES
    plain, lines, begin = told.plain.translate(_CONTROL), [], 0
    for line in plain.split("\n"):
        end = begin + len(line)
        cut = line if len(line) <= columns else line[: columns - 1] + "…"
        parts, at = [], begin
        for span in told.spans:  # in order, and none within another
            first, last = max(span.start, begin), min(span.end, begin + len(cut))
            if first < last and (code := styles.get(str(span.style))):
                parts += [cut[at - begin : first - begin], f"\x1b[{code}m"]
                parts += [cut[first - begin : last - begin], "\x1b[0m"]
                at = last
        lines.append("".join((*parts, cut[at - begin :])))
        begin = end + 1
    return lines
