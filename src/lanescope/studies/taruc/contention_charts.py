"""Charts of contention: what all carry together, and what each gets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from lanescope.document.chart import EXTREMES, INTERVAL, Axis, Chart, Curve
from lanescope.machine import Machine
from lanescope.studies.taruc.contended import Scaling, Step
from lanescope.studies.taruc.panels import common_text, slugs, step_notes, styled
from lanescope.studies.taruc.parameters import Benchmark
from lanescope.studies.taruc.views import SCALING_VIEWS, Panel, ScalingView, panels
from lanescope.studies.taruc.words import fields_text

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

Values = Callable[[Step], tuple[float, float, float] | None]


def contention_charts(machine: Machine, scalings: Sequence[Scaling]) -> list[Chart]:
    """Return two charts for each panel: the aggregate, and the spread of participants."""
    charts: list[Chart] = []
    drawn: set[Hashable] = set()
    for view in SCALING_VIEWS:
        shown = False
        for panel in panels(view.choose(machine, scalings), view.order, _value):
            content = frozenset(s.contention for s in panel.members)
            if content not in drawn:
                drawn.add(content)
                charts += _charts(view, panel, main=view.main and not shown)
                shown = True
    return charts


def _value(scaling: Scaling, field: str) -> Hashable:
    value: Hashable = getattr(scaling.contention, field)
    return value


def _charts(view: ScalingView, panel: Panel[Scaling], *, main: bool) -> list[Chart]:
    curves = [c for c in _curves(panel, _aggregate) if c.x]
    if not curves:
        return []
    together = replace(_chart(view, panel, "aggregate", (*curves, *_limits(panel))), main=main)
    if all(len(s.participants) < 2 for m in panel.members for s in m.steps):
        return [together]
    alone = tuple(c for c in _curves(panel, _each) if c.x)
    return [together, _chart(view, panel, "participants", alone)]


def _chart(
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
        subtitle=common_text(view.order, panel, _value),
        x=Axis(f"{counted[:1].upper()}{counted[1:]}", log=True),
        y=Axis("Mean of participants" if each else "Aggregate bandwidth", "GB/s"),
        curves=curves,
        band=band if any(c.low for c in curves) else "",
        notes=((_CROSSING,) if kind == "sockets" else ()) + step_notes(panel.members),
        main=False,
    )


def _curves(panel: Panel[Scaling], values: Values) -> Iterable[Curve]:
    for scaling, name, colour, dash in styled(panel, _value):
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


def _aggregate(step: Step) -> tuple[float, float, float] | None:
    middle = step.aggregate_gbs
    if middle is None:
        return None
    low, high = step.interval_gbs or (middle, middle)
    return middle, low, high


def _each(step: Step) -> tuple[float, float, float] | None:
    rates = step.rates_gbs
    return (fmean(rates), min(rates), max(rates)) if rates else None


def _limits(panel: Panel[Scaling]) -> list[Curve]:
    """The ceilings of the curves: one line for those that share theirs."""
    lines: dict[tuple[tuple[float, ...], tuple[float, ...]], list[tuple[str, int]]] = {}
    for scaling, name, colour, _ in styled(panel, _value):
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
