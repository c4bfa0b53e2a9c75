"""Texts in ASCII, for terminals that show nothing else."""

from __future__ import annotations

import unicodedata

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
    "▲": "^",
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
