"""Draws the blocks of a report as HTML, for the page and for notebooks."""

from __future__ import annotations

from collections.abc import Iterable

from lanescope.document.blocks import (
    Badge,
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Facts,
    Folded,
    Judgement,
    Kind,
    Section,
    Style,
    Table,
    Text,
    Words,
)
from lanescope.document.chart import Chart
from lanescope.report import html
from lanescope.report.html import Markup, text
from lanescope.report.values import cell_of, is_number, pieces, value_text

_CLASSES = {Style.PLAIN: "", Style.QUIET: ' class="quiet"', Style.WARNING: ' class="banner"'}


def blocks_html(blocks: Iterable[Block]) -> str:
    """Return blocks as HTML; charts are left to the page, which numbers them."""
    return "".join(map(_block, blocks))


def charts_of(blocks: Iterable[Block]) -> list[Chart]:
    """Return the charts among some blocks, in order."""
    found: list[Chart] = []
    for block in blocks:
        if isinstance(block, Chart):
            found.append(block)
        elif isinstance(block, Folded | Section):
            found += charts_of(block.blocks)
    return found


def _block(block: Block) -> str:
    if isinstance(block, Text):
        if block.style is Style.STRONG:
            return f"<p><strong>{_words(block.words)}</strong></p>"
        return f"<p{_CLASSES[block.style]}>{_words(block.words)}</p>"
    if isinstance(block, Bullets):
        return html.items(Markup(_words(words)) for words in block.items) if block.items else ""
    if isinstance(block, Facts):
        return html.definitions((term, Markup(_words(words))) for term, words in block.pairs)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Folded):
        inner = blocks_html(block.blocks)
        return f"<details><summary>{text(block.summary)}</summary>{inner}</details>"
    if isinstance(block, Section):
        return html.section(block.key, block.title, blocks_html(block.blocks))
    return ""


def _table(block: Table) -> str:
    drawn = [at for at, column in enumerate(block.columns) if column.kind is not Kind.BAR]
    columns = [
        html.Column(_capital(column.title), is_number(column), column.hint)
        for column in (block.columns[at] for at in drawn)
    ]
    groups = (
        html.Group(
            [[_cell(block.columns[at], cell_of(row[at])) for at in drawn] for row in group.rows],
            group.heading,
        )
        for group in block.groups
    )
    notes = html.items(block.notes) if block.notes else ""
    quiet = f'<div class="quiet">{notes}</div>' if notes else ""
    return html.table(columns, groups, block.title) + quiet


def _cell(column: Column, cell: Cell) -> Markup:
    value = cell.value
    if isinstance(value, Badge):
        shown = badge(value)
    elif isinstance(value, Judgement):
        remedy = f'<span class="remedy">{text(value.remedy)}</span>' if value.remedy else ""
        shown = f"{badge(value.badge)} {text(value.reason)}{remedy}"
    elif isinstance(value, Code):
        shown = f"<code>{text(value.words)}</code>"
    else:
        shown = text(value_text(column, value))
    shown += text(cell.mark)
    if cell.strong:
        shown = f"<strong>{shown}</strong>"
    if cell.tone is not None:
        shown = f'<span class="{cell.tone}">{shown}</span>'
    if cell.hint is not None:
        shown = f'<span title="{text(cell.hint)}">{shown}</span>'
    return Markup(shown + "".join(f'<br><span class="quiet">{text(b)}</span>' for b in cell.below))


def badge(value: Badge) -> str:
    """Return a word that judges as HTML."""
    sign = f'<span aria-hidden="true">{value.sign}</span> ' if value.sign else ""
    return f'<span class="badge {value.tone}">{sign}{text(value.word)}</span>'


def _words(words: Words) -> str:
    shown = ""
    for piece in pieces(words):
        if isinstance(piece, Code):
            shown += f"<code>{text(piece.words)}</code>"
        elif isinstance(piece, Badge):
            shown += badge(piece)
        else:
            shown += text(piece)
    return shown


def _capital(title: str) -> str:
    return title[:1].upper() + title[1:]
