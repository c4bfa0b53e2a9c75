"""Draws the blocks of a report as HTML, for the page and for notebooks."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TypeAlias
from urllib.parse import quote

from lanescope.document.blocks import (
    CHARTS,
    Badge,
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Details,
    Download,
    Drawing,
    Facts,
    Findings,
    Group,
    Judgement,
    Kind,
    Link,
    Listing,
    Matrix,
    Part,
    Section,
    Style,
    Table,
    Text,
    Timeline,
    Value,
    Words,
)
from lanescope.document.contents import AnyChart, Finding
from lanescope.report import html
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
from lanescope.report.html import Markup, text
from lanescope.report.timeline_html import timeline_html

#: Blocks that stand beside each other where there is room.
_SIDE_BY_SIDE = {Part: "parts", Matrix: "matrices"}
#: More of a file that a page holds than this is compressed.
_MOST_PLAIN_BYTES = 256 * 1024
_MOST_EVIDENCE = 6
#: In longer tables cells do not say the name of their column: nobody reads so many as cards.
_MOST_NAMED_ROWS = 500
_CLASSES = {Style.PLAIN: "", Style.QUIET: ' class="quiet"', Style.WARNING: ' class="banner"'}


#: Draws a chart as HTML.
DrawChart: TypeAlias = Callable[[AnyChart], str]


def blocks_html(blocks: Iterable[Block], draw: DrawChart | None = None) -> str:
    """Return blocks as HTML.

    Parameters
    ----------
    draw
        How charts are drawn; None leaves them out.
    """
    shown = ""
    for kind, several in groupby(blocks, type):
        drawn = "".join(_block(block, draw) for block in several)
        place = _SIDE_BY_SIDE.get(kind)
        shown += f'<div class="{place}">{drawn}</div>' if place else drawn
    return shown


def _block(block: Block, draw: DrawChart | None) -> str:
    if isinstance(block, CHARTS):
        return "" if draw is None else draw(block)
    if isinstance(block, Text):
        if block.style is Style.STRONG:
            return f"<p><strong>{_words(block.words)}</strong></p>"
        return f"<p{_CLASSES[block.style]}>{_words(block.words)}</p>"
    if isinstance(block, Bullets):
        return _bullets(block)
    if isinstance(block, Findings):
        return _findings(block)
    if isinstance(block, Listing):
        return _listing(block)
    if isinstance(block, Drawing):
        return f'<div class="picture{" wide" if block.wide else ""}">{block.svg}</div>'
    if isinstance(block, Download):
        return _download(block)
    if isinstance(block, Timeline):
        return "" if draw is None else timeline_html(block)
    if isinstance(block, Facts):
        return html.definitions((term, Markup(_words(words))) for term, words in block.pairs)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Matrix):
        return _table(block.table)
    if isinstance(block, Details):
        inner = blocks_html(block.blocks, draw)
        if not block.summary or not inner:
            return inner
        state = " open" if block.opened else ""
        return f"<details{state}><summary>{text(block.summary)}</summary>{inner}</details>"
    if isinstance(block, Part):
        wide = " wide" if block.wide else ""
        return (
            f'<article class="part{wide}" id="{text(block.key)}"><h3>{text(block.title)}</h3>'
            f"<p>{text(block.about)}</p>{blocks_html(block.blocks, draw)}</article>"
        )
    if isinstance(block, Section):
        return html.section(block.key, block.title, blocks_html(block.blocks, draw))
    return ""


def _bullets(block: Bullets) -> str:
    if not block.items:
        return ""
    listed = html.items(Markup(_words(words)) for words in block.items)
    return f'<div class="quiet">{listed}</div>' if block.style is Style.QUIET else listed


def _listing(block: Listing) -> str:
    lines = "\n".join(f"{sign} {line}".rstrip() for sign, line in listing_lines(block.snippet))
    head = f"<p>{text(listing_head(block))}</p>"
    return f'{head}<pre class="listing">{text(lines)}</pre>' if lines else head


def _findings(block: Findings) -> str:
    if not block.brief:
        return blocks_html(finding_blocks(block.found))
    return html.items(map(_brief, block.found)) if block.found else ""


def _brief(found: Finding) -> Markup:
    if found.conditions:
        return _opportunity(found)
    names = ", ".join(found.evidence[:_MOST_EVIDENCE])
    if len(found.evidence) > _MOST_EVIDENCE:
        names += f" and {len(found.evidence) - _MOST_EVIDENCE} more"
    return Markup(
        f"{text(found.sentence)}<details><summary>Evidence</summary>Seen in "
        f"<code>{text(names)}</code>. To measure it again: <code>{text(found.confirm)}</code>"
        "</details>"
    )


def _opportunity(found: Finding) -> Markup:
    """What a change would gain, and folded, why it is thought so and when it is right."""
    folded = blocks_html(
        [
            Bullets(found.evidence),
            Text(f"Gain: {found.basis}. Only if:"),
            Bullets(found.conditions),
            *map(Listing, found.code),
            Text(("To confirm: ", Code(found.confirm))),
        ]
    )
    return Markup(
        f"{text(finding_text(found))}<details><summary>Only if, and how</summary>{folded}</details>"
    )


def _download(block: Download) -> str:
    """A link to a file in the page; a long one is compressed."""
    words, name = "Download CSV", block.name
    uri = "data:text/csv;charset=utf-8," + quote(block.content)
    if len(uri) > _MOST_PLAIN_BYTES:
        packed = base64.b64encode(gzip.compress(block.content.encode(), mtime=0)).decode()
        words, name = "Download CSV.gz", f"{name}.gz"
        uri = f"data:application/gzip;base64,{packed}"
    link = f'<a download="{text(name)}" href="{uri}">{words}</a>'
    return f'<p class="no-print">{link} <span class="quiet">{text(block.about)}</span></p>'


def _table(block: Table) -> str:
    """The first column names the row; the caption is what screen readers announce first."""
    drawn = [at for at, column in enumerate(block.columns) if column.kind is not Kind.BAR]
    columns = [block.columns[at] for at in drawn]
    named = sum(len(group.rows) for group in block.groups) <= _MOST_NAMED_ROWS
    head = "".join(map(_column_head, columns))
    bodies = "".join(_group(columns, drawn, group, named=named) for group in block.groups)
    caption = text(block.title)
    notes = html.items(block.notes) if block.notes else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}">'
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>{bodies}"
        "</table></div>"
    ) + (f'<div class="quiet">{notes}</div>' if notes else "")


def _column_head(column: Column) -> str:
    hint = f' title="{text(column.hint)}"' if column.hint else ""
    return f'<th scope="col"{_number(column)}{hint}>{text(column.title)}</th>'


def _number(column: Column) -> str:
    return ' class="number"' if is_number(column) else ""


def _group(columns: list[Column], drawn: list[int], group: Group, *, named: bool) -> str:
    heading = ""
    if group.heading:
        heading = (
            f'<tr class="group"><th scope="rowgroup" colspan="{len(columns)}">'
            f"<span>{text(group.heading)}</span></th></tr>"
        )
    rows = "".join(_row(columns, [row[at] for at in drawn], named=named) for row in group.rows)
    return f"<tbody>{heading}{rows}</tbody>"


def _row(columns: list[Column], row: list[Value | Cell], *, named: bool) -> str:
    first, *rest = (
        _cell(column, cell_of(value)).html for column, value in zip(columns, row, strict=True)
    )
    cells = [f'<th scope="row"{_number(columns[0])}>{first}</th>']
    for column, shown in zip(columns[1:], rest, strict=True):
        name = f' data-label="{text(column.title)}"' if named else ""
        cells.append(f"<td{_number(column)}{name}>{shown}</td>")
    return f"<tr>{''.join(cells)}</tr>"


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
