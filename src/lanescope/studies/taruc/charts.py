"""The charts of a suite, of contention too: what its views show, as data for every renderer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TypeVar

from lanescope.copies import Operation
from lanescope.document.contents import EXTREMES, INTERVAL, PERCENTILES, Axis, Chart, Curve
from lanescope.machine import Machine
from lanescope.report.format import bytes_text, count_text
from lanescope.results import Verdict
from lanescope.store.run import Run
from lanescope.studies.taruc.contended import Scaling, ScalingStep, suite_of
from lanescope.studies.taruc.parameters import TITLES, Benchmark
from lanescope.studies.taruc.points import Series, SizePoint, field_text, fields_text
from lanescope.studies.taruc.views import (
    LOAD,
    RATE,
    SCALING_VIEWS,
    VIEWS,
    Panel,
    ScalingView,
    View,
    panels,
)

_SIZE = Axis("Size", "B", log=True)
_ACCESSED = Axis("Bytes accessed", "B", log=True)
_TIMED = {
    Operation.ALLOCATE: "Time of one allocation",
    Operation.TOUCH: "Time of the first touch",
    Operation.RELEASE: "Time of one release",
}
_TITLES = {
    "memory": "Contention for memory",
    "sockets": "Contention between sockets",
    "pcie": "Contention of GPUs",
}
_CROSSING = (
    "h0 → h1: from memory of h0 to that of h1, or threads of h0 that use memory of h1 alone."
)
#: More lines of limits than this hide the curves.
_MOST_LIMITS = 3

Values = Callable[[ScalingStep], tuple[float, float, float] | None]
T = TypeVar("T")
Value = Callable[[T, str], Hashable]


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


def _shown(point: SizePoint, shows: str) -> tuple[float, float, float] | None:
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


def contention_charts(machine: Machine, scalings: Sequence[Scaling]) -> list[Chart]:
    """Return two charts for each panel: the aggregate, and the spread of participants."""
    charts: list[Chart] = []
    drawn: set[Hashable] = set()
    for view in SCALING_VIEWS:
        shown = False
        for panel in panels(view.choose(machine, scalings), view.order, _scaling_value):
            content = frozenset(s.contention for s in panel.members)
            if content not in drawn:
                drawn.add(content)
                charts += _scaling_charts(view, panel, main=view.main and not shown)
                shown = True
    return charts


def _scaling_value(scaling: Scaling, field: str) -> Hashable:
    value: Hashable = getattr(scaling.contention, field)
    return value


def _scaling_charts(view: ScalingView, panel: Panel[Scaling], *, main: bool) -> list[Chart]:
    curves = [c for c in _scaling_curves(panel, _aggregate) if c.x]
    if not curves:
        return []
    together = replace(
        _scaling_chart(view, panel, "aggregate", (*curves, *_limits(panel))), main=main
    )
    if all(len(s.participants) < 2 for m in panel.members for s in m.steps):
        return [together]
    alone = tuple(c for c in _scaling_curves(panel, _each) if c.x)
    return [together, _scaling_chart(view, panel, "participants", alone)]


def _scaling_chart(
    view: ScalingView, panel: Panel[Scaling], shows: str, curves: tuple[Curve, ...]
) -> Chart:
    kind = panel.members[0].contention.kind
    counted = "streams of each GPU" if kind == "pcie" else "threads"
    telling = panel.varying if len(panel.members) > 1 else ()
    each = shows == "participants"
    word = "bandwidth of each" if each else "aggregate bandwidth"
    band = EXTREMES if each else INTERVAL
    return Chart(
        key="-".join(["contention", view.key, *slugs(panel.fixed.values()), shows]),
        section=Benchmark.CONTENTION,
        title=f"{_TITLES[kind]}: {word}{fields_text(telling)}",
        subtitle=common_text(view.order, panel, _scaling_value),
        x=Axis(f"{counted[:1].upper()}{counted[1:]}", log=True),
        y=Axis("Mean of participants" if each else "Aggregate bandwidth", "GB/s"),
        curves=curves,
        band=band if any(c.low for c in curves) else "",
        notes=((_CROSSING,) if kind == "sockets" else ()) + step_notes(panel.members),
        main=False,
    )


def _scaling_curves(panel: Panel[Scaling], values: Values) -> Iterable[Curve]:
    for scaling, name, colour, dash in styled(panel, _scaling_value):
        found = [(s.count, v) for s in scaling.measured if (v := values(s)) is not None]
        yield Curve(
            name=name,
            x=tuple(float(count) for count, _ in found),
            y=tuple(v[0] for _, v in found),
            low=tuple(v[1] for _, v in found),
            high=tuple(v[2] for _, v in found),
            colour=colour,
            dash=dash,
        )


def _aggregate(step: ScalingStep) -> tuple[float, float, float] | None:
    middle = step.aggregate_gbs
    if middle is None:
        return None
    low, high = step.interval_gbs or (middle, middle)
    return middle, low, high


def _each(step: ScalingStep) -> tuple[float, float, float] | None:
    rates = step.rates_gbs
    return (fmean(rates), min(rates), max(rates)) if rates else None


def _limits(panel: Panel[Scaling]) -> list[Curve]:
    """The ceilings of the curves: one line for those that share theirs."""
    lines: dict[tuple[tuple[float, ...], tuple[float, ...]], list[tuple[str, int]]] = {}
    for scaling, name, colour, _ in styled(panel, _scaling_value):
        known = [(float(s.count), s.limit_gbs) for s in scaling.measured if s.limit_gbs]
        if known:
            xs, ys = zip(*known, strict=True)
            rounded = tuple(float(f"{y:.3g}") for y in ys)
            lines.setdefault((xs, rounded), []).append((name, colour))
    if len(lines) > _MOST_LIMITS:
        return []
    return [
        Curve(
            name=f"limit{'' if len(lines) == 1 else f', {_some(users)}'}: {max(ys):.3g} GB/s",
            x=xs if len(xs) > 1 else (xs[0] * 0.9, xs[0] * 1.1),
            y=ys if len(ys) > 1 else (ys[0], ys[0]),
            colour=users[0][1],
            limit=True,
        )
        for (xs, ys), users in lines.items()
    ]


def _some(users: Sequence[tuple[str, int]]) -> str:
    return users[0][0] + (f" and {len(users) - 1} more" if len(users) > 1 else "")


def styled(panel: Panel[T], value: Value[T]) -> Iterable[tuple[T, str, int, int]]:
    """Return each series of a panel with its name, colour and dash.

    Curves of one colour have the most telling field in common, curves of one dash
    all others.
    """
    colours: dict[Hashable, int] = {}
    dashes: dict[Hashable, int] = {}
    for series in panel.members:
        first, *rest = [value(series, f) for f in panel.varying] or [None]
        colour = colours.setdefault(first, len(colours))
        dash = dashes.setdefault(tuple(rest), len(dashes))
        words = (field_text(f, value(series, f)) for f in panel.varying)
        yield series, ", ".join(w for w in words if w) or "all", colour, dash


def common_text(order: Sequence[str], panel: Panel[T], value: Value[T]) -> str:
    """Return what all curves of a panel have in common, in words."""
    fields = [f for f in order if len({value(s, f) for s in panel.members}) == 1]
    words = [field_text(f, found) for f in fields if (found := value(panel.members[0], f))]
    text = ", ".join(dict.fromkeys(words))
    return text[:1].upper() + text[1:] if not re.match(r"[hg][0-9]", text) else text


def slugs(values: Iterable[Hashable]) -> list[str]:
    """Return values as parts of a file's name."""
    texts = (re.sub(r"[^a-z0-9+.]+", "-", str(v).lower().replace("⇄", "and")) for v in values)
    return [text.strip("-") or "any" for text in texts]


def lowered(title: str) -> str:
    """Return a title as it stands within another."""
    return title[:1].lower() + title[1:]


_MOST_NAMES = 2
_MOST_REASONS = 3


def point_notes(series: Sequence[Series], *, rates: bool) -> tuple[str, ...]:
    """Return notes on points that are unresolved or were not measured.

    Parameters
    ----------
    rates
        Whether the chart shows bandwidths, which unresolved points do not have.
    """
    points = [p for s in series for p in s.points]
    unresolved = [p.bytes for p in points if p.unresolved]
    notes = []
    if unresolved:
        count = count_text(len(unresolved), "point")
        up_to = bytes_text(max(unresolved))
        verb = "is" if len(unresolved) == 1 else "are"
        what = f"{verb} left out" if rates else f"{verb} hollow"
        notes.append(
            f"{count} of up to {up_to} {what}: reading the clock takes more than 5 % of the time."
        )
    return (*notes, *_missing((p.experiment, p.verdict) for p in points if p.measured is None))


def step_notes(scalings: Sequence[Scaling]) -> tuple[str, ...]:
    """Return notes on the steps of scalings that were not measured."""
    return _missing(
        (s.experiment, s.not_measured)
        for scaling in scalings
        for s in scaling.steps
        if s.not_measured is not None
    )


def _missing(found: Iterable[tuple[str, Verdict]]) -> tuple[str, ...]:
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, verdict in found:
        if name not in reasons[verdict.reason]:
            reasons[verdict.reason].append(name)
    notes = [_note(reason, names) for reason, names in reasons.items()]
    if len(notes) > _MOST_REASONS:
        more = count_text(len(notes) - _MOST_REASONS, "more reason")
        notes = [*notes[:_MOST_REASONS], f"And {more} for what was not measured."]
    return tuple(notes)


def _note(reason: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    end = "" if reason.endswith(".") else "."
    return f"Not measured: {', '.join(names[:_MOST_NAMES])}{more}: {reason}{end}"
