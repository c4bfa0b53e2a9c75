"""Draws the blocks of a report as HTML, for the page and for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from lanescope.document.blocks import (
    Badge,
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Details,
    Facts,
    Judgement,
    Kind,
    Link,
    Matrix,
    Part,
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

#: Blocks that stand beside each other where there is room.
_SIDE_BY_SIDE = {Part: "parts", Matrix: "matrices"}
_CLASSES = {Style.PLAIN: "", Style.QUIET: ' class="quiet"', Style.WARNING: ' class="banner"'}


def blocks_html(blocks: Iterable[Block]) -> str:
    """Return blocks as HTML; charts are left to the page, which numbers them."""
    shown = ""
    for kind, several in groupby(blocks, type):
        drawn = "".join(map(_block, several))
        place = _SIDE_BY_SIDE.get(kind)
        shown += f'<div class="{place}">{drawn}</div>' if place else drawn
    return shown


def charts_of(blocks: Iterable[Block]) -> list[Chart]:
    """Return the charts among some blocks, in order."""
    found: list[Chart] = []
    for block in blocks:
        if isinstance(block, Chart):
            found.append(block)
        elif isinstance(block, Details | Part | Section):
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
    if isinstance(block, Matrix):
        return _table(block.table)
    if isinstance(block, Details):
        inner = blocks_html(block.blocks)
        if not block.summary or not inner:
            return inner
        return f"<details><summary>{text(block.summary)}</summary>{inner}</details>"
    if isinstance(block, Part):
        wide = " wide" if block.wide else ""
        return (
            f'<article class="part{wide}" id="{text(block.key)}"><h3>{text(block.title)}</h3>'
            f"<p>{text(block.about)}</p>{blocks_html(block.blocks)}</article>"
        )
    if isinstance(block, Section):
        return html.section(block.key, block.title, blocks_html(block.blocks))
    return ""


def _table(block: Table) -> str:
    drawn = [at for at, column in enumerate(block.columns) if column.kind is not Kind.BAR]
    columns = [
        html.Column(column.title, is_number(column), column.hint)
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
    shown = _value(column, cell) + text(cell.mark)
    if cell.strong:
        shown = f"<strong>{shown}</strong>"
    if cell.badge is not None:
        sign = f'<span aria-hidden="true">{cell.badge.sign}</span>'
        word = f'<span class="unseen">{text(cell.badge.word)}</span>'
        shown = f"{sign}{word} <strong>{shown}</strong>"
    elif cell.tone is not None and column.kind is not Kind.SHARE:
        shown = f'<span class="{cell.tone}">{shown}</span>'
    if cell.tint is not None:
        kind = f"cell {cell.badge.tone}" if cell.badge else "cell"
        style = f' style="--tint:{cell.tint:.2f}"' if cell.tint else ""
        shown = f'<span class="{kind}" title="{text(cell.hint)}"{style}>{shown}</span>'
    elif cell.hint is not None:
        shown = f'<span title="{text(cell.hint)}">{shown}</span>'
    return Markup(shown + "".join(f'<br><span class="quiet">{text(b)}</span>' for b in cell.below))


def _value(column: Column, cell: Cell) -> str:
    value = cell.value
    if isinstance(value, Badge):
        return badge(value)
    if isinstance(value, Judgement):
        remedy = f'<span class="remedy">{text(value.remedy)}</span>' if value.remedy else ""
        return f"{badge(value.badge)} {text(value.reason)}{remedy}"
    if isinstance(value, Code):
        return f"<code>{text(value.words)}</code>"
    if isinstance(value, Link):
        return f'<a href="#{text(value.key)}">{text(value.words)}</a>'
    shown = text(value_text(column, value))
    if column.kind is Kind.SHARE and cell.tone is not None and isinstance(value, float):
        # the same as a small bar, which only eyes need
        shown += (
            f'<span class="meter" aria-hidden="true"><span class="{cell.tone}" '
            f'style="width:{min(value, 1.0) * 100:.1f}%"></span></span>'
        )
    return shown


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
