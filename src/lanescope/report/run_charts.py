"""The charts of the paths of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lanescope.document.chart import AnyChart
from lanescope.model.sweep import Series
from lanescope.report.check_chart import check_charts
from lanescope.report.path_rows import PathRow
from lanescope.report.sweep_chart import bandwidth_chart, time_chart


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
