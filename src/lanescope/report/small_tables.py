"""Maps of small copies for a terminal, as rich renderables."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lanescope.measurement.result import Result
from lanescope.model.small import SmallMap, small_maps
from lanescope.report.format import MISSING, bytes_text, count_text
from lanescope.report.small_text import EXPLANATION, cell_lines, map_sentences


def small_tables(results: Sequence[Result]) -> list[RenderableType]:
    """Return a grid for each path, and below it what it tells."""
    parts: list[RenderableType] = []
    maps = small_maps(results)
    for small in maps:
        parts.append(map_table(small))
        parts += [Text(sentence) for sentence in map_sentences(small)]
        parts.append("")
    if maps:
        parts.append(Text(EXPLANATION, "dim"))
    return parts


def map_table(small: SmallMap) -> Table:
    """Return a row for each size and a column for each count: the fastest method, and GB/s."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.title = f"{small.path}: fastest method, GB/s"
    table.title_justify = "left"
    table.add_column("size of a piece", justify="right", no_wrap=True)
    for count in small.counts:
        table.add_column(count_text(count, "piece"), no_wrap=True)
    for size in small.sizes:
        cells = (cell_lines(small.cells.get((count, size))) for count in small.counts)
        table.add_row(bytes_text(size), *(_text(lines) for lines in cells))
    return table


def _text(lines: Sequence[str]) -> Text:
    if not lines:
        return Text(MISSING, "dim")
    text = Text(lines[0])
    for line in lines[1:]:
        text.append(f"\n{line}", "dim")
    return text
