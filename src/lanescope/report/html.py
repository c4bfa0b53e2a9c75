"""Small helpers that write HTML: escaping, lists, data inside a page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")


def text(value: object) -> str:
    """Return a value escaped for use as text or inside a quoted attribute.

    Control characters, which neither HTML nor XML has, are shown as U+FFFD.
    """
    return escape(plain(str(value)), quote=True)


def plain(value: str) -> str:
    """Return text with U+FFFD for each control character, which neither HTML nor XML has."""
    return _CONTROL.sub("\ufffd", value)


@dataclass(frozen=True, slots=True)
class Markup:
    """A string that is HTML already."""

    html: str


Cell = str | Markup


def definitions(pairs: Iterable[tuple[str, Cell]]) -> str:
    """Return a list of terms with their descriptions."""
    rows = "".join(f"<dt>{text(term)}</dt><dd>{_inner(value)}</dd>" for term, value in pairs)
    return f"<dl>{rows}</dl>"


def items(values: Iterable[Cell]) -> str:
    """Return a bulleted list."""
    return "<ul>" + "".join(f"<li>{_inner(value)}</li>" for value in values) + "</ul>"


def section(identifier: str, title: str, *parts: str) -> str:
    """Return a section with its heading, or nothing when all parts are empty."""
    body = "".join(parts)
    if not body:
        return ""
    return (
        f'<section id="{text(identifier)}" aria-labelledby="{text(identifier)}-title">'
        f'<h2 id="{text(identifier)}-title">{text(title)}</h2>{body}</section>'
    )


def json_data(identifier: str, value: Any) -> str:
    """Return a script element that holds data.

    ``<``, ``>`` and ``&`` are written as JSON escapes, so that no name inside
    the data can end the element.
    """
    data = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{text(identifier)}">{data}</script>'


def script(source: str) -> str:
    """Return a script element with code.

    In JavaScript these character sequences stand only inside strings and
    regular expressions, where the backslash changes nothing.
    """
    for ending in ("</script", "</SCRIPT"):
        source = source.replace(ending, f"<\\/{ending[2:]}")
    return f"<script>{source.replace('<!--', '<' + chr(92) + '!--')}</script>"


def _inner(cell: Cell) -> str:
    return cell.html if isinstance(cell, Markup) else text(cell)
