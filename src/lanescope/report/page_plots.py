"""The figures of a page and the script that draws them."""

from __future__ import annotations

import functools
import importlib.util
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from lanescope.model.sweep import Series
from lanescope.report.html import json_data, script, text
from lanescope.report.page_frame import page_file
from lanescope.report.path_rows import PathRow
from lanescope.report.plot_parts import Figure
from lanescope.report.plots import bandwidth_figure, check_figure, time_figure

MISSING_PLOTLY = "Plots are left out because plotly is not installed (pip install plotly)."
_NO_SCRIPT = "Plots need JavaScript; the tables hold the same numbers."


def run_figures(rows: Sequence[PathRow], series: Sequence[Series]) -> list[Figure]:
    """Return the figures of a run: curves where sizes were swept, bars otherwise.

    Curves get a pair of figures for each pair of parts, such as a node and a GPU.
    """
    pairs: dict[tuple[str, ...], list[Series]] = defaultdict(list)
    for curve in series:
        pairs[tuple(sorted(curve.path.split(" → ")))].append(curve)
    figures = [f(curves) for curves in pairs.values() for f in (bandwidth_figure, time_figure)]
    swept = {s.path for s in series}
    bars = [r for r in rows if r.measured is not None and r.copy.path not in swept]
    bars = [r for r in bars if not r.is_latency]
    if bars:
        figures.insert(0, check_figure(list({id(r.result): r.result for r in bars}.values())))
    return figures


def plots_html(figures: Sequence[Figure], first: int = 0) -> str:
    """Return the places of the figures, or the sentence that says why there are none.

    Parameters
    ----------
    first
        Number of the first of them among all figures of the page.
    """
    if not figures:
        return ""
    if plotly_script() is None:
        return f"<p>{text(MISSING_PLOTLY)}</p>"
    places = "".join(
        f'<div class="plot" id="plot-{i}" role="img" aria-label="{text(_title(figure))}" '
        f'style="min-height:{figure["layout"]["height"]}px"></div>'
        for i, figure in enumerate(figures, first)
    )
    return f"<noscript><p>{text(_NO_SCRIPT)}</p></noscript>{places}"


def plots_script(figures: Sequence[Figure]) -> str:
    """Return the scripts that draw the figures; empty when there is nothing to draw."""
    source = plotly_script()
    if not figures or source is None:
        return ""
    return json_data("figures", list(figures)) + source + script(page_file("page.js"))


@functools.cache
def plotly_script() -> str | None:
    """Return the script element with Plotly.js, or None when plotly is not installed.

    The file is found without importing plotly, which would take a second.
    """
    found = importlib.util.find_spec("plotly")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return script(path.read_text(encoding="utf-8"))
    return None


def _title(figure: Figure) -> str:
    return str(figure["layout"]["title"]["text"])
