"""Maps of small copies as tables of a page or a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.model.small import SmallMap
from lanescope.report.format import MISSING, bytes_text, count_text
from lanescope.report.html import Cell, Column, Group, Markup, items, table, text
from lanescope.report.small_text import EXPLANATION, cell_lines, map_sentences


def small_section(maps: Sequence[SmallMap]) -> str:
    """Return a grid for each path with what it tells; empty without maps."""
    if not maps:
        return ""
    parts = [map_table(small) + items(map_sentences(small)) for small in maps]
    return "".join(parts) + f'<p class="quiet">{text(EXPLANATION)}</p>'


def map_table(small: SmallMap) -> str:
    """Return a row for each size and a column for each count: the fastest method, and GB/s."""
    columns = [Column("Size of a piece"), *(Column(count_text(n, "piece")) for n in small.counts)]
    rows = [
        [bytes_text(size), *(_cell(small, count, size) for count in small.counts)]
        for size in small.sizes
    ]
    return table(columns, [Group(rows)], f"{small.path}: fastest method and its bandwidth in GB/s")


def _cell(small: SmallMap, count: int, size: int) -> Cell:
    lines = cell_lines(small.cells.get((count, size)))
    if not lines:
        return MISSING
    below = "".join(f'<br><span class="quiet">{text(line)}</span>' for line in lines[1:])
    return Markup(text(lines[0]) + below)
