"""The plots of a page: their places, their data, and the scripts that draw them."""

from __future__ import annotations

import functools
import hashlib
import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lanescope.codec.atomic import write_atomically
from lanescope.codec.opening import open_file
from lanescope.document.chart import AnyChart, subtitle
from lanescope.errors import InputError
from lanescope.model.sweep import Series
from lanescope.report.check_chart import check_charts
from lanescope.report.html import json_data, script, text
from lanescope.report.page_frame import page_file
from lanescope.report.path_rows import PathRow
from lanescope.report.sweep_chart import bandwidth_chart, time_chart
from lanescope.report.vega import height, specification, theme

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


def run_charts(rows: Sequence[PathRow], series: Sequence[Series]) -> list[AnyChart]:
    """Return the charts of a run: curves where sizes were swept, bars otherwise.

    Curves get a pair of charts for each pair of parts, such as a node and a GPU.
    """
    pairs: dict[tuple[str, ...], list[Series]] = defaultdict(list)
    for curve in series:
        pairs[tuple(sorted(curve.path.split(" → ")))].append(curve)
    paths = {s.path for s in series}
    bars = [r for r in rows if r.measured is not None and r.copy.path not in paths]
    bars = [r for r in bars if not r.is_latency]
    checked = check_charts(list({id(r.result): r.result for r in bars}.values()))
    return [
        *checked,
        *(f(curves) for curves in pairs.values() for f in (bandwidth_chart, time_chart)),
    ]


def plots_html(charts: Sequence[AnyChart], first: int = 0) -> str:
    """Return the places of charts, or the sentence that says why there are none.

    Parameters
    ----------
    first
        Number of the first of them among all charts of the page.
    """
    if not charts:
        return ""
    if vega_script() is None:
        return f"<p>{text(MISSING_VEGA)}</p>"
    places = "".join(_place(chart, number) for number, chart in enumerate(charts, first))
    return f"<noscript><p>{text(_NO_SCRIPT)}</p></noscript>{places}"


def _place(chart: AnyChart, number: int) -> str:
    title = text(chart.title)
    return (
        f'<figure class="chart"><figcaption>{title}<br><span class="quiet">'
        f'{text(subtitle(chart))}</span></figcaption><div class="plot" id="plot-{number}" '
        f'role="img" aria-label="{title}" '
        f'style="min-height:{height(chart)}px"></div></figure>'
    )


def plots_script(charts: Sequence[AnyChart]) -> str:
    """Return the scripts that draw the charts; empty when there is nothing to draw."""
    source = vega_script()
    if not charts or source is None:
        return ""
    data = {"themes": _THEMES, "charts": [specification(chart) for chart in charts]}
    return json_data("charts", data) + source + script(page_file("page.js"))


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
        _keep(place, source)
    return script(f"/*\n{page_file('vega_licences.txt')}*/\n{source}")


def _cache_folder() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named if os.path.isabs(named) else os.path.expanduser("~/.cache")) / "lanescope"


def _cached(place: Path) -> str | None:
    """What `_keep` wrote, if it is whole and nobody else can have written it."""
    with suppress(OSError, InputError, UnicodeDecodeError), open_file(place) as file:
        mode = os.fstat(file.fileno())
        head, _, source = file.read().partition(b"\n")
        own = mode.st_uid == os.geteuid() and not mode.st_mode & 0o002
        if own and head == _digest(source):
            return source.decode()
    return None


def _keep(place: Path, source: str) -> None:
    content = source.encode()
    with suppress(OSError, InputError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(place, _digest(content) + b"\n" + content)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
