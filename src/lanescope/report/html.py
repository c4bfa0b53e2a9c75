"""What pages are made of: HTML, and colours that people with any kind of colour vision tell apart.

Escaping, lists, data inside a page, and what every page has around its sections. The colours are
after Okabe and Ito, the same in the page, the plots and the picture: a hue means one thing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from math import cos, pi, sin, sqrt
from typing import Any

from lanescope.document.contents import AnyChart, subtitle
from lanescope.results import Status

#: The page may use what is inside it and nothing else, and makes no code of text: Vega's own
#: interpreter reads its expressions. Browsers see to that.
_POLICY = (
    "default-src 'none'; {}style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_SCRIPTS = "script-src 'unsafe-inline'; "
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
#: Verdicts. Each is also told by a word and a sign, never by colour alone.
STATUS_COLOURS = {
    Status.HEALTHY: "#1b9e77",
    Status.SLOW: "#d55e00",
    Status.IMPOSSIBLE: "#b5489a",
    Status.UNJUDGED: "#8a929c",
    Status.UNRESOLVED: "#8a929c",
    Status.PREDICTED: "#4a9ad4",
    Status.NOT_MEASURED: "#8a929c",
    Status.BUSY: "#8a929c",
    Status.NOT_APPLICABLE: "#8a929c",
}
STATUS_SIGNS = {
    Status.HEALTHY: "✓",
    Status.SLOW: "▼",
    Status.IMPOSSIBLE: "✕",
    Status.UNJUDGED: "○",
    Status.UNRESOLVED: "≈",
    Status.PREDICTED: "◇",
    Status.NOT_MEASURED: "–",
    Status.BUSY: "–",
    Status.NOT_APPLICABLE: "–",
}
#: Directions of a transfer.
TO_GPU = "#2a7fbf"
FROM_GPU = "#c97800"
BETWEEN_GPUS = "#7b61b3"
WITHIN_HOST = "#3c8d6b"
_PLUS = (
    *((0.4, -1.1), (0.4, -0.4), (1.1, -0.4), (1.1, 0.4), (0.4, 0.4), (0.4, 1.1)),
    *((-0.4, 1.1), (-0.4, 0.4), (-1.1, 0.4), (-1.1, -0.4), (-0.4, -0.4), (-0.4, -1.1)),
)
#: Curves, in this order: those of Okabe and Ito without the yellow, which vanishes on paper.
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#7b61b3",
    "#5b6672",
)
#: Corners of the marker of each colour, in a square from -1 to 1.
MARKERS: tuple[tuple[tuple[float, float], ...], ...] = (
    tuple((cos(i * pi / 8), sin(i * pi / 8)) for i in range(16)),
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
    ((0, -1.1), (1.15, 0.9), (-1.15, 0.9)),
    _PLUS,
    tuple(((x - y) * sqrt(0.5), (x + y) * sqrt(0.5)) for x, y in _PLUS),
    ((0, 1.1), (1.15, -0.9), (-1.15, -0.9)),
    tuple((r * sin(i * pi / 5), -r * cos(i * pi / 5)) for i, r in enumerate((1.7, 0.7) * 5)),
)
STAR = 7
#: Lengths of dash and gap, in pixels.
DASHES: tuple[tuple[float, ...], ...] = (
    (1, 0),
    (7, 4),
    (2, 3),
    (7, 3, 2, 3),
    (14, 4),
    (14, 4, 2, 4),
)
LIMIT_DASH = (12, 5)


def text(value: object) -> str:
    """Return a value escaped for use as text or inside a quoted attribute.

    Control characters, which neither HTML nor XML has, are shown as U+FFFD.
    """
    return escape(plain(str(value)), quote=True)


def plain(value: str) -> str:
    """Return text with U+FFFD for each control character, which neither HTML nor XML has."""
    return _CONTROL.sub("\ufffd", value)


@dataclass(frozen=True, slots=True)
class Markup:
    """A string that is HTML already."""

    html: str


HtmlCell = str | Markup


def definitions(pairs: Iterable[tuple[str, HtmlCell]]) -> str:
    """Return a list of terms with their descriptions."""
    rows = "".join(f"<dt>{text(term)}</dt><dd>{_inner(value)}</dd>" for term, value in pairs)
    return f"<dl>{rows}</dl>"


def items(values: Iterable[HtmlCell]) -> str:
    """Return a bulleted list."""
    return "<ul>" + "".join(f"<li>{_inner(value)}</li>" for value in values) + "</ul>"


def section(identifier: str, title: str, *parts: str) -> str:
    """Return a section with its heading, or nothing when all parts are empty."""
    body = "".join(parts)
    if not body:
        return ""
    return (
        f'<section id="{text(identifier)}" aria-labelledby="{text(identifier)}-title">'
        f'<h2 id="{text(identifier)}-title">{text(title)}</h2>{body}</section>'
    )


def json_data(identifier: str, value: Any) -> str:
    """Return a script element that holds data.

    ``<``, ``>`` and ``&`` are written as JSON escapes, so that no name inside
    the data can end the element.
    """
    data = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{text(identifier)}">{data}</script>'


def script(source: str) -> str:
    """Return a script element with code.

    In JavaScript these character sequences stand only inside strings and
    regular expressions, where the backslash changes nothing.
    """
    for ending in ("</script", "</SCRIPT"):
        source = source.replace(ending, f"<\\/{ending[2:]}")
    return f"<script>{source.replace('<!--', '<' + chr(92) + '!--')}</script>"


def _inner(cell: HtmlCell) -> str:
    return cell.html if isinstance(cell, Markup) else text(cell)


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


def figure(chart: AnyChart, plot: str) -> str:
    """Return a chart's plot, HTML already, below its title."""
    return (
        f'<figure class="chart"><figcaption>{text(chart.title)}<br><span class="quiet">'
        f"{text(subtitle(chart))}</span></figcaption>{plot}</figure>"
    )


def direction_colour(path: str) -> str:
    """Return the hue of a path such as ``h0 → g1``."""
    source, _, destination = path.partition(" → ")
    return {
        ("h", "g"): TO_GPU,
        ("g", "h"): FROM_GPU,
        ("g", "g"): BETWEEN_GPUS,
    }.get((source[:1], destination[:1]), WITHIN_HOST)


def colour(number: int) -> str:
    """Return a curve's colour as ``#rrggbb``."""
    return COLOURS[number % len(COLOURS)]
