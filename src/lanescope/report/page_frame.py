"""What every page has around its sections, and the plots that a browser draws."""

from __future__ import annotations

import functools
import hashlib
import os
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from lanescope.codec.atomic import write_atomically
from lanescope.codec.files import open_file
from lanescope.document.chart import AnyChart, subtitle
from lanescope.errors import InputError
from lanescope.report.html import json_data, script, text
from lanescope.report.vega import height, specification, theme

#: The page may use what is inside it and nothing else, and makes no code of text: Vega's own
#: interpreter reads its expressions. Browsers see to that.
_POLICY = (
    "default-src 'none'; {}style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_SCRIPTS = "script-src 'unsafe-inline'; "


def page_frame(
    title: str, body: str, styles: tuple[str, ...] = ("style.css",), *, scripts: bool = True
) -> str:
    """Return a whole page around the HTML of its body.

    Parameters
    ----------
    styles
        Names of style sheets beside this file, which the page takes in.
    scripts
        Whether the page may run what it holds.
    """
    policy = _POLICY.format(_SCRIPTS if scripts else "")
    style = "".join(page_file(name) for name in styles)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{style}</style></head>"
        f"<body>{body}</body></html>\n"
    )


def page_file(name: str) -> str:
    """Return a style sheet or script that lies beside this file."""
    return files("lanescope.report").joinpath(name).read_text(encoding="utf-8")


def page_footer(tool_version: str) -> str:
    """Return the foot of a page."""
    return (
        f"<footer>Made by lanescope {text(tool_version)}; this file holds all of its "
        "data and loads nothing from the network.</footer>"
    )


def time_element(started: str) -> str:
    """Return ISO 8601 as an element that shows it as people read it."""
    return f'<time datetime="{text(started)}">{text(_when(started))}</time>'


def _when(started: str) -> str:
    """ISO 8601 as people read it: a space for the T, no fraction of a second."""
    day, _, clock = started.partition("T")
    time, zone = clock[:8], clock[8:]
    digits = zone.lstrip(".0123456789")
    zone = {"+00:00": "UTC", "Z": "UTC"}.get(digits, digits)
    return f"{day} {time} {zone}".strip()


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


class InteractivePlots:
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


def figure(chart: AnyChart, plot: str) -> str:
    """Return a chart's plot, HTML already, below its title."""
    return (
        f'<figure class="chart"><figcaption>{text(chart.title)}<br><span class="quiet">'
        f"{text(subtitle(chart))}</span></figcaption>{plot}</figure>"
    )


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
