"""Finds the line of a TOML text that a wrong field stands in: its reader tells none."""

from __future__ import annotations

import re

from lanescope.codec.fields import FieldError


def line_of(text: str, error: FieldError) -> int:
    """Return the line of the field that is wrong, or of its table where it is missing; from 1."""
    lines = [_without_comment(line) for line in text.splitlines()]
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


def _without_comment(line: str) -> str:
    return "" if line.lstrip().startswith("#") else line


def _assigns(line: str, name: str | None) -> bool:
    return re.search(rf"""(^|[\s{{,."']){re.escape(name or " ")}["']?\s*=""", line) is not None


def _names_table(line: str, name: str) -> bool:
    return re.match(rf"""\s*\[+\s*["']?{re.escape(name)}["']?\s*\]""", line) is not None
