"""Draws blocks as HTML, and any document as one page that asks for nothing from outside."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from lanescope.codec.files import open_file, write_atomically
from lanescope.document.blocks import (
    CHARTS,
    Badge,
    Banner,
    Block,
    Bullets,
    Code,
    CodeListing,
    Column,
    Details,
    Document,
    Download,
    Drawing,
    Facts,
    Findings,
    Group,
    Headline,
    Judgement,
    Kind,
    Section,
    SectionLink,
    Style,
    Subsection,
    Table,
    TableCell,
    Text,
    TimelineBlock,
    TintedTable,
    Tone,
    Value,
    Words,
)
from lanescope.document.contents import AnyChart, Finding
from lanescope.errors import InputError
from lanescope.report import html
from lanescope.report.charts import chart_picture, height, specification, theme
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
from lanescope.report.html import (
    Markup,
    figure,
    json_data,
    page_file,
    page_footer,
    page_frame,
    script,
    text,
    time_element,
)
from lanescope.report.timeline_html import timeline_html

#: Classes of headlines and banners; others are open.
_KINDS = {Tone.GOOD: "good", Tone.BAD: "bad", Tone.PREDICTED: "guess"}
#: What a page to be mailed holds of pictures, and of each part that begins folded.
_MOST_PICTURE_BYTES, _MOST_FOLDED_BYTES = 180_000, 10_000
_OTHERS = (
    "The other plots are left out of this small page; 'lanescope report RUN' has all of them, and "
    "with --plots DIR writes them as files."
)
#: Pages of more sections have their contents at the side.
_MOST_WITHOUT_CONTENTS = 4
MISSING_VEGA = (
    "Plots are left out because vl-convert-python is not installed (pip install vl-convert-python)."
)
_NO_SCRIPT = "Plots need JavaScript; the tables hold the same numbers."
_PACKAGE = "vl-convert-python"
#: For the two backgrounds of a page.
_THEMES = {
    "light": theme("#1f2933", "#57606a", "#dde2e8"),
    "dark": theme("#e3e8ee", "#a3aeb9", "#3a444f"),
}
#: Blocks that stand beside each other where there is room.
_SIDE_BY_SIDE = {Subsection: "parts", TintedTable: "matrices"}
#: More of a file that a page holds than this is compressed.
_MOST_PLAIN_BYTES = 256 * 1024
_MOST_EVIDENCE = 6
#: In longer tables cells do not say the name of their column: nobody reads so many as cards.
_MOST_NAMED_ROWS = 500
_CLASSES = {Style.PLAIN: "", Style.QUIET: ' class="quiet"', Style.WARNING: ' class="banner"'}
#: Draws a chart as HTML.
DrawChart: TypeAlias = Callable[[AnyChart], str]


def document_page(document: Document, *, static: bool = False) -> str:
    """Return a document as a page.

    Works offline. Without vl-convert it has everything but the plots.

    Parameters
    ----------
    static
        Whether plots are pictures and the page has no script, so that it is small and can be
        mailed.
    """
    if static:
        body = _body(_small(document), _FewPictures().draw)
        return page_frame(document.title, body, scripts=False)
    plots = _InteractivePlots()
    body = _body(document, plots.draw)
    timed = any(
        isinstance(block, TimelineBlock) for one in document.sections for block in one.blocks
    )
    styles = ("style.css", "timeline.css") if timed else ("style.css",)
    return page_frame(document.title, body + plots.script(), styles)


def _small(document: Document) -> Document:
    """Return a document for pages without scripts: no timelines, nothing long that is folded."""
    sections = [
        replace(
            one, blocks=[_unless_long(b) for b in one.blocks if not isinstance(b, TimelineBlock)]
        )
        for one in document.sections
    ]
    return replace(document, sections=sections)


def _unless_long(block: Block) -> Block:
    if isinstance(block, Download) and len(block.content) > _MOST_FOLDED_BYTES:
        return Text(f"{block.name}, {block.about}: left out of this small page.", Style.QUIET)
    if not isinstance(block, Details) or not block.summary or block.opened:
        return block
    if len(blocks_html(block.blocks, lambda chart: "")) <= _MOST_FOLDED_BYTES:
        return block
    return Text(f"{block.summary}: left out of this small page.", Style.QUIET)


class _FewPictures:
    """Draws charts as pictures, until they would make a page too large to be mailed."""

    def __init__(self) -> None:
        self._left = _MOST_PICTURE_BYTES
        self._explained = False

    def draw(self, chart: AnyChart) -> str:
        """Return a chart's picture, or once the sentence that says where the others are."""
        picture = "" if self._explained else chart_picture(chart)
        self._left -= len(picture)
        if picture and self._left >= 0:
            return picture
        explained, self._explained = self._explained, True
        return "" if explained else f"<p>{text(_OTHERS)}</p>"


def _body(document: Document, draw: DrawChart) -> str:
    headline = "" if document.headline is None else _headline(document.headline, draw)
    drawn = [(one, blocks_html([one], draw)) for one in document.sections]
    shown = [(one, html) for one, html in drawn if html]
    sections = "".join(html for _, html in shown)
    contents = _contents([one for one, _ in shown])
    return (
        f"{_header(document)}{contents}<main>{headline}{sections}</main>"
        f"{page_footer(document.tool_version)}"
    )


def _header(document: Document) -> str:
    facts = [time_element(document.started), *map(text, document.facts)]
    line = "".join(f"<span>{fact}</span> " for fact in facts)
    commands = "".join(f"<br><code>{text(one)}</code>" for one in document.commands)
    banners = "".join(map(_banner, document.banners))
    return (
        f'<header><h1>{text(document.heading)}</h1><p class="facts">{line}{commands}</p>'
        f"{banners}</header>"
    )


def _banner(banner: Banner) -> str:
    kind = " guess" if banner.tone is Tone.PREDICTED else ""
    role = "note" if kind else "alert"
    more = f" <span>– {text(banner.more)}</span>" if banner.more else ""
    return f'<p class="banner{kind}" role="{role}">{text(banner.words)}{more}</p>'


def _headline(headline: Headline, draw: DrawChart) -> str:
    kind = _KINDS.get(headline.tone, "open")
    words = f"<p>{text(headline.words)}</p>" if headline.words else ""
    blocks: list[Block] = list(headline.blocks)
    return f'<div class="conclusion {kind}">{words}{blocks_html(blocks, draw)}</div>'


def _contents(sections: list[Section]) -> str:
    if len(sections) <= _MOST_WITHOUT_CONTENTS:
        return ""
    links = "".join(
        f'<li><a href="#{text(one.key)}">{text(one.title)}</a></li>' for one in sections
    )
    return f'<nav class="contents" aria-label="Contents"><ol>{links}</ol></nav>'


class _InteractivePlots:
    """Charts that a browser draws: where each goes, and the scripts that draw them at the end."""

    def __init__(self) -> None:
        self._charts: list[AnyChart] = []
        self._explained = False

    def draw(self, chart: AnyChart) -> str:
        """Return the place of a chart, or once the sentence that says why there is none."""
        if vega_script() is None:
            return self._once(f"<p>{text(MISSING_VEGA)}</p>")
        note = self._once(f"<noscript><p>{text(_NO_SCRIPT)}</p></noscript>")
        title, number = text(chart.title), len(self._charts)
        self._charts.append(chart)
        plot = (
            f'<div class="plot" id="plot-{number}" role="img" aria-label="{title}" '
            f'style="min-height:{height(chart)}px"></div>'
        )
        return note + figure(chart, plot)

    def script(self) -> str:
        """Return the scripts that draw the charts; empty when there is nothing to draw."""
        source = vega_script()
        if not self._charts or source is None:
            return ""
        data = {"themes": _THEMES, "charts": [specification(chart) for chart in self._charts]}
        return json_data("charts", data) + source + script(page_file("page.js"))

    def _once(self, sentence: str) -> str:
        explained, self._explained = self._explained, True
        return "" if explained else sentence


@functools.cache
def vega_script() -> str | None:
    """Return the script element with Vega, or None when vl-convert is not installed.

    Making it takes seconds, so that it stays in a file of the user's cache folder; where none can
    be written it is made each time.
    """
    try:
        place = _cache_folder() / f"vega-{version(_PACKAGE)}.js"
    except PackageNotFoundError:
        return None
    source = _cached(place)
    if source is None:
        try:
            import vl_convert
        except ImportError:
            return None
        source = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
        _cache(place, source)
    return script(f"/*\n{page_file('vega_licences.txt')}*/\n{source}")


def _cache_folder() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named if os.path.isabs(named) else os.path.expanduser("~/.cache")) / "lanescope"


def _cached(place: Path) -> str | None:
    """What `_cache` wrote, if it is whole and nobody else can have written it."""
    with suppress(OSError, InputError, UnicodeDecodeError), open_file(place) as file:
        mode = os.fstat(file.fileno())
        head, _, source = file.read().partition(b"\n")
        own = mode.st_uid == os.geteuid() and not mode.st_mode & 0o002
        if own and head == _digest(source):
            return source.decode()
    return None


def _cache(place: Path, source: str) -> None:
    content = source.encode()
    with suppress(OSError, InputError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(place, _digest(content) + b"\n" + content)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


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
    if isinstance(block, CodeListing):
        return _listing(block)
    if isinstance(block, Drawing):
        return f'<div class="picture{" wide" if block.wide else ""}">{block.svg}</div>'
    if isinstance(block, Download):
        return _download(block)
    if isinstance(block, TimelineBlock):
        return "" if draw is None else timeline_html(block)
    if isinstance(block, Facts):
        return html.definitions((term, Markup(_words(words))) for term, words in block.pairs)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, TintedTable):
        return _table(block.table)
    if isinstance(block, Details):
        inner = blocks_html(block.blocks, draw)
        if not block.summary or not inner:
            return inner
        state = " open" if block.opened else ""
        return f"<details{state}><summary>{text(block.summary)}</summary>{inner}</details>"
    if isinstance(block, Subsection):
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


def _listing(block: CodeListing) -> str:
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
            *map(CodeListing, found.code),
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


def _row(columns: list[Column], row: list[Value | TableCell], *, named: bool) -> str:
    first, *rest = (
        _cell(column, cell_of(value)).html for column, value in zip(columns, row, strict=True)
    )
    cells = [f'<th scope="row"{_number(columns[0])}>{first}</th>']
    for column, shown in zip(columns[1:], rest, strict=True):
        name = f' data-label="{text(column.title)}"' if named else ""
        cells.append(f"<td{_number(column)}{name}>{shown}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _cell(column: Column, cell: TableCell) -> Markup:
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


def _value(column: Column, cell: TableCell) -> str:
    value = cell.value
    if isinstance(value, Badge):
        return badge(value)
    if isinstance(value, Judgement):
        remedy = f'<span class="remedy">{text(value.remedy)}</span>' if value.remedy else ""
        return f"{badge(value.badge)} {text(value.reason)}{remedy}"
    if isinstance(value, Code):
        return f"<code>{text(value.words)}</code>"
    if isinstance(value, SectionLink):
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
