"""Draws any document as one HTML page that holds everything and asks for nothing from outside."""

from __future__ import annotations

import functools
import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lanescope.codec.atomic import write_atomically
from lanescope.codec.files import open_file
from lanescope.document.blocks import (
    Banner,
    Block,
    Details,
    Document,
    Download,
    Headline,
    Section,
    Style,
    Text,
    Timeline,
    Tone,
)
from lanescope.document.contents import AnyChart
from lanescope.errors import InputError
from lanescope.report.blocks_html import DrawChart, blocks_html
from lanescope.report.chart_files import chart_picture
from lanescope.report.html import (
    figure,
    json_data,
    page_file,
    page_footer,
    page_frame,
    script,
    text,
    time_element,
)
from lanescope.report.vega import height, specification, theme

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
    timed = any(isinstance(block, Timeline) for one in document.sections for block in one.blocks)
    styles = ("style.css", "timeline.css") if timed else ("style.css",)
    return page_frame(document.title, body + plots.script(), styles)


def _small(document: Document) -> Document:
    """Return a document for pages without scripts: no timelines, nothing long that is folded."""
    sections = [
        replace(one, blocks=[_unless_long(b) for b in one.blocks if not isinstance(b, Timeline)])
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
