"""Draws the blocks of a report on a terminal, as rich renderables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text as RichText

from lanescope.document.blocks import (
    Badge,
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Details,
    Facts,
    Findings,
    Judgement,
    Kind,
    Listing,
    Matrix,
    Part,
    Section,
    Style,
    Table,
    Text,
    Tone,
    Words,
)
from lanescope.report.format import (
    cell_of,
    finding_blocks,
    finding_text,
    is_number,
    listing_head,
    listing_lines,
    pieces,
    value_text,
)

_STYLES = {
    Style.PLAIN: "",
    Style.STRONG: "bold",
    Style.QUIET: "dim",
    Style.WARNING: "bold yellow",
}
_TONES = {
    Tone.GOOD: "green",
    Tone.BAD: "bold red",
    Tone.WRONG: "bold red",
    Tone.OPEN: "yellow",
    Tone.QUIET: "dim",
    Tone.PREDICTED: "cyan",
}
_BAR_COLUMNS = 31
#: Narrower texts, of a few words a line, make tables that nobody reads.
_NARROWEST_TEXT = 24
#: Of rich: blanks between two columns, and at both edges.
_BETWEEN_COLUMNS, _EDGES = 3, 2


def renderables(blocks: Sequence[Block]) -> Iterator[RenderableType]:
    """Yield what a terminal shows of blocks; it has no charts, and what is folded stays so."""
    for block in blocks:
        if isinstance(block, Text):
            yield _words(block.words, _STYLES[block.style])
        elif isinstance(block, Bullets):
            yield from map(_words, block.items)
        elif isinstance(block, Facts):
            yield from (_words((f"{term}: ", *pieces(words))) for term, words in block.pairs)
        elif isinstance(block, Matrix):
            yield _rich_table(block.table)
        elif isinstance(block, Table):
            yield TableOrLines(block)
            yield from (RichText(note, "dim italic") for note in block.notes)
        elif isinstance(block, Listing):
            yield from _listing(block)
        elif isinstance(block, Findings):
            if block.brief:
                yield from (RichText(f"- {finding_text(found)}") for found in block.found)
            else:
                yield from renderables(finding_blocks(block.found))
        elif isinstance(block, Details):
            yield from renderables(block.blocks) if block.on_terminal else ()
        elif isinstance(block, Part):
            yield RichText.assemble((block.title, "bold"), f"  {block.about}")
            yield from renderables(block.blocks)
            yield ""
        elif isinstance(block, Section):
            shown = list(renderables(block.blocks))
            yield from [*shown, ""] if shown else []


@dataclass(frozen=True)
class TableOrLines:
    """A table; where a terminal is too narrow for it, a line for each row says the same."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one of the two."""
        if _least_width(self.table) <= options.max_width:
            yield _rich_table(self.table)
        else:
            yield RichText(self.table.title)
            yield from _lines(self.table)


def _least_width(table: Table) -> int:
    """How many columns a table takes whose texts wrap, and whose numbers do not."""
    rows = [row for group in table.groups for row in group.rows]
    width = _EDGES - _BETWEEN_COLUMNS
    for at, column in enumerate(table.columns):
        cells = (cell_of(row[at]) for row in rows)
        texts = [line for cell in cells for line in _cell(column, cell).plain.split("\n")]
        texts += [group.heading or "" for group in table.groups] if at == 0 else []
        longest = max(map(len, texts), default=0)
        if column.kind is Kind.BAR:
            longest = _BAR_COLUMNS
        elif column.kind is Kind.TEXT:
            longest = min(longest, _NARROWEST_TEXT)
        width += max(longest, len(column.title)) + _BETWEEN_COLUMNS
    return width


def _rich_table(table: Table) -> RichTable:
    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title=table.title, title_justify="left")
    for column in table.columns:
        wraps = column.kind is Kind.TEXT
        made.add_column(
            "" if column.kind is Kind.BAR else column.title,
            justify="right" if is_number(column) else "left",
            no_wrap=not wraps,
            overflow="fold",
        )
    for group in table.groups:
        if group.heading:
            made.add_row(RichText(group.heading, "bold"))
        for row in group.rows:
            cells = [cell_of(value) for value in row]
            shown = (_cell(c, cell) for c, cell in zip(table.columns, cells, strict=True))
            made.add_row(*shown, style="bold" if cells[0].strong else "")
    return made


def _lines(table: Table) -> Iterator[RichText]:
    """Each row as text that wraps at any width: each value behind its title."""
    for group in table.groups:
        if group.heading:
            yield RichText(group.heading, "bold")
        for row in group.rows:
            shown = zip(table.columns, map(cell_of, row), strict=True)
            values = [
                RichText.assemble(f"{column.title} ".lstrip(), _in_line(column, cell))
                for column, cell in shown
                if column.kind is not Kind.BAR and cell.value not in (None, "")
            ]
            yield RichText("; ").join(values)


def _in_line(column: Column, cell: Cell) -> RichText:
    """Return a cell in one line: what stands below its value follows in brackets."""
    first, *below = _cell(column, cell).split("\n")
    return RichText.assemble(first, *(part for line in below for part in (" (", line, ")")))


def _cell(column: Column, cell: Cell) -> RichText:
    if column.kind is Kind.BAR:
        share = cell.value if isinstance(cell.value, float) else 0.0
        return RichText("█" * round(min(share, 1.0) * _BAR_COLUMNS))
    if isinstance(cell.value, Judgement):
        return _judgement(cell.value)
    text = RichText(value_text(column, cell.value) + cell.mark)
    if isinstance(cell.value, Badge):
        text.stylize(_TONES[cell.value.tone])
    elif cell.badge is not None:
        text.stylize(_TONES[cell.badge.tone])
    elif cell.value is None:
        text.stylize("dim")
    elif cell.tone is not None:
        text.stylize(_TONES[cell.tone])
    elif cell.strong:
        text.stylize("bold")
    for line in cell.below:
        text.append(f"\n{line}", "dim")
    return text


def _listing(block: Listing) -> Iterator[RichText]:
    yield RichText(listing_head(block))
    tones = {"-": Tone.QUIET, "+": Tone.GOOD}
    for sign, line in listing_lines(block.snippet):
        yield RichText(f"  {sign} {line}".rstrip(), _TONES[tones[sign]])


def _judgement(value: Judgement) -> RichText:
    text = RichText.assemble((f"{value.badge.word}: ", _TONES[value.badge.tone]), value.reason)
    if value.remedy:
        text.append(f" → {value.remedy}")
    return text


def _words(words: Words, style: str = "") -> RichText:
    text = RichText(style=style)
    for piece in pieces(words):
        if isinstance(piece, Code):
            text.append(piece.words, "cyan")
        elif isinstance(piece, Badge):
            text.append(piece.word, _TONES[piece.tone])
        else:
            text.append(piece)
    return text
