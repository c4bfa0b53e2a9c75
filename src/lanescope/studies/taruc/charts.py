"""The charts of a suite: what its views show, as data for every renderer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from lanescope.copies import Operation
from lanescope.document.chart import PERCENTILES, Axis, Chart, Curve
from lanescope.machine import Machine
from lanescope.store.run import Run
from lanescope.studies.taruc.contended import suite_of
from lanescope.studies.taruc.contention_charts import contention_charts
from lanescope.studies.taruc.panels import common_text, lowered, point_notes, slugs, styled
from lanescope.studies.taruc.parameters import TITLES, Benchmark
from lanescope.studies.taruc.points import Point, Series
from lanescope.studies.taruc.views import LOAD, RATE, VIEWS, Panel, View, panels
from lanescope.studies.taruc.words import fields_text

_SIZE = Axis("Size", "B", log=True)
_ACCESSED = Axis("Bytes accessed", "B", log=True)
_TIMED = {
    Operation.ALLOCATE: "Time of one allocation",
    Operation.TOUCH: "Time of the first touch",
    Operation.RELEASE: "Time of one release",
}


def taruc_charts(run: Run) -> tuple[Chart, ...]:
    """Return every chart of a run's micro-benchmarks.

    The first of each view is among those to be seen first, if the view is.
    """
    suite = suite_of(run.manifest.machine, run.results)
    charts: list[Chart] = []
    drawn: set[Hashable] = set()
    for view in VIEWS:
        shown: set[str] = set()
        for chart, content in _view_charts(view, suite.machine, suite.of(view.bench)):
            if content not in drawn:  # where little varies, views come to show the same
                drawn.add(content)
                charts.append(replace(chart, main=view.main and chart.y.label not in shown))
                shown.add(chart.y.label)
    charts += contention_charts(suite.machine, suite.scalings)
    if suite.predicted:
        charts = [_predicted(chart) for chart in charts]
    return _with_own_keys(charts)


def _predicted(chart: Chart) -> Chart:
    """A chart that is called a prediction and has no bands: nothing was sampled."""
    curves = tuple(replace(curve, low=(), high=()) for curve in chart.curves)
    return replace(chart, title=f"Predicted: {chart.title}", band="", curves=curves)


def _view_charts(
    view: View, machine: Machine, series: Sequence[Series]
) -> Iterable[tuple[Chart, Hashable]]:
    chosen = view.choose(machine, series)
    for panel in panels(chosen, view.order, _value, view.apart):
        for shows in view.shows:
            chart = _chart(view, panel, shows)
            if chart.curves:
                yield chart, (frozenset(s.setting for s in panel.members), shows)


def _value(series: Series, field: str) -> Hashable:
    value: Hashable = getattr(series.setting, field)
    return value


def _chart(view: View, panel: Panel[Series], shows: str) -> Chart:
    curves = tuple(c for c in _curves(panel, shows) if c.x)
    y = _y_axis(panel, shows)
    word = "bandwidth" if shows is RATE else lowered(y.label)
    parts = [view.bench, view.key, *slugs(panel.fixed.values())]
    parts += [word.split()[0]] if len(view.shows) > 1 or shows is LOAD else []
    return Chart(
        key="-".join(map(str, parts)),
        section=view.bench,
        title=f"{TITLES[view.bench]}: {word}{fields_text(_telling(panel))}",
        subtitle=common_text(view.order, panel, _value),
        x=_ACCESSED if view.bench is Benchmark.NURMA else _SIZE,
        y=y,
        curves=curves,
        band=PERCENTILES,
        notes=point_notes(panel.members, rates=shows is RATE),
    )


def _telling(panel: Panel[Series]) -> tuple[str, ...]:
    """What tells its curves apart; nothing for a single one."""
    return panel.varying if len(panel.members) > 1 else ()


def _y_axis(panel: Panel[Series], shows: str) -> Axis:
    if shows is RATE:
        by_threads = panel.members[0].setting.bench is Benchmark.HOST
        return Axis(f"Bandwidth{', read and written' if by_threads else ''}", "GB/s")
    if shows is LOAD:
        return Axis("Time of one load", "s", log=True)
    operation = panel.members[0].setting.operation
    return Axis(_TIMED.get(operation, "Time of one copy"), "s", log=True)


def _curves(panel: Panel[Series], shows: str) -> Iterable[Curve]:
    for series, name, colour, dash in styled(panel, _value):
        points = [p for p in series.points if _shown(p, shows) is not None]
        values = [v for p in points if (v := _shown(p, shows)) is not None]
        yield Curve(
            name=name,
            x=tuple(float(p.bytes) for p in points),
            y=tuple(v[0] for v in values),
            low=tuple(v[1] for v in values),
            high=tuple(v[2] for v in values),
            hollow=tuple(p.unresolved for p in points),
            colour=colour,
            dash=dash,
        )


def _shown(point: Point, shows: str) -> tuple[float, float, float] | None:
    """A point's value and the ends of its band; None where it has none."""
    if shows is not RATE:
        return point.seconds
    if point.gbs is None or point.interval_gbs is None:
        return None
    return (point.gbs, *point.interval_gbs)


def _with_own_keys(charts: Iterable[Chart]) -> tuple[Chart, ...]:
    taken: dict[str, int] = {}
    own = []
    for chart in charts:
        taken[chart.key] = count = taken.get(chart.key, 0) + 1
        own.append(chart if count == 1 else replace(chart, key=f"{chart.key}-{count}"))
    return tuple(own)
