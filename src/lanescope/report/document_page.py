"""Draws any document as one HTML page that holds everything and asks for nothing from outside."""

from __future__ import annotations

from dataclasses import replace

from lanescope.document.blocks import Banner, Block, Document, Headline, Section, Timeline, Tone
from lanescope.report.blocks_html import DrawChart, blocks_html
from lanescope.report.chart_files import chart_picture
from lanescope.report.html import text
from lanescope.report.page_frame import InteractivePlots, page_footer, page_frame, time_element

#: Classes of headlines and banners; others are open.
_KINDS = {Tone.GOOD: "good", Tone.BAD: "bad", Tone.PREDICTED: "guess"}
#: Pages of more sections have their contents at the side.
_MOST_WITHOUT_CONTENTS = 4


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
        body = _body(_without_timelines(document), chart_picture)
        return page_frame(document.title, body, scripts=False)
    plots = InteractivePlots()
    body = _body(document, plots.draw)
    timed = any(isinstance(block, Timeline) for one in document.sections for block in one.blocks)
    styles = ("style.css", "timeline.css") if timed else ("style.css",)
    return page_frame(document.title, body + plots.script(), styles)


def _without_timelines(document: Document) -> Document:
    """Return a document for pages without scripts, which draw timelines."""
    sections = [
        replace(one, blocks=[b for b in one.blocks if not isinstance(b, Timeline)])
        for one in document.sections
    ]
    return replace(document, sections=sections)


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
