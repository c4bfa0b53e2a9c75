"""What ``model predict`` shows: the ranked methods, other links, several GPUs, the curves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

from lanescope.document.blocks import (
    Block,
    Column,
    Group,
    Kind,
    Section,
    Span,
    Table,
    TableCell,
    Text,
)
from lanescope.document.contents import INTERVAL, Axis, Chart, Curve
from lanescope.prediction.explanation import Bounds, bound_text, method_text, why
from lanescope.prediction.parameters import Origin
from lanescope.prediction.predictor import STREAMED, Method, Prediction
from lanescope.prediction.rank import Ranking
from lanescope.prediction.replay import Several
from lanescope.report.format import (
    bytes_text,
    estimate_text,
    gbs_text,
    seconds_text,
)
from lanescope.studies.analysis import (
    AnalysisResult,
    seconds_fields,
)
from lanescope.units.estimate import Estimate
from lanescope.units.words import enumeration

#: Points of a chart for each doubling of the streams, and the number of the star's marker.
_POINTS, _STAR = 3, 7
#: What every table of predictions has.
_TIME, _INTERVAL = Column("time", Kind.SECONDS), Column("95 % interval", Kind.SECONDS)


@dataclass(frozen=True, slots=True, repr=False)
class Predicted(AnalysisResult):
    """A ranking on the machine and on other links, and the bounds.

    Attributes
    ----------
    predictor
        By which.
    printed
        The bounds as section III prints them; None without the GPU's peaks.
    on
        The same workload with other links, in the order they were named.
    several
        The same on several GPUs at once; None where that was not wanted.
    warning
        Why the numbers given cannot all be right; None where they can.
    """

    predictor: str
    ranking: Ranking
    bounds: Bounds
    printed: Bounds | None = None
    on: tuple[Ranking, ...] = ()
    several: Several | None = None
    warning: str | None = None
    host_seconds: float = 0.0  # what the program takes itself between two calls that copy

    def in_brief(self) -> list[str]:
        """Return of what it is a prediction, the workload, and the fastest method."""
        best = self.ranking.winner
        return [
            self._origin(),
            workload_text(self.ranking),
            f"Fastest: {method_text(best)}, {estimate_text(best.seconds)} a round (predicted)",
            *([self.warning] if self.warning is not None else ()),
        ]

    def _origin(self) -> str:
        known = self.ranking.parameters
        return (
            f"Predicted by {self.predictor} for {known.name}: {known.gpu}, "
            f"{known.link}, {known.origin} parameters"
        )

    def blocks(self) -> list[Section]:
        """Return the ranked methods, why, and what else was wanted."""
        ranking, known = self.ranking, self.ranking.parameters
        streamed = [method_text(one) for one in ranking.best if one.method in STREAMED]
        best = ", ".join(streamed) or "none was predicted"
        methods: list[Block] = [
            Text(self._origin()),
            *([Text(f"Parameters: {known.source}.")] if known.origin is Origin.DERIVED else ()),
            Text(workload_text(ranking)),
            _methods(ranking),
            Text(f"Bounds (predicted): {bounds_text(self.bounds)}"),
        ]
        if self.warning is not None:
            methods.append(Text(self.warning))
        if self.printed is not None:
            one = bounds_text(self.printed)
            methods.append(Text(f"With one bandwidth for both directions (predicted): {one}"))
        methods.append(Text(f"Best numbers of streams (predicted): {best}"))
        found = [
            Section("methods", "Methods", methods),
            Section("why", "Why", [Text(why(ranking))]),
        ]
        if self.on:
            links: list[Block] = [_links(ranking, self.on), *_undecided(ranking, *self.on)]
            found.append(Section("links", "Other links", links))
        if self.several is not None:
            shared = Text(several_text(self.several))
            table = _several(self.several)
            found.append(Section("several", "Several GPUs", [table, shared]))
        return found

    def charts(self) -> list[Chart]:
        """Return a curve for each method with its band, and a star at the fastest."""
        ranking, known = self.ranking, self.ranking.parameters
        last = max(curve.most_streams for curve in ranking.curves.values())
        curves = [_curve(method, tuple(curve), last) for method, curve in ranking.curves.items()]
        best = ranking.winner
        at, time = (float(best.streams),), (best.seconds.value * 1e3,)
        star = Curve(f"fastest: {method_text(best)}", at, time, colour=_STAR)
        chart = Chart(
            "predict",
            "model",
            f"Predicted times on {known.name}, {known.link}",
            workload_text(ranking),
            Axis("Streams", log=True),
            Axis("Time of a round, predicted", "ms"),
            (*curves, star),
            band=INTERVAL,
        )
        return [chart]

    def as_dict(self) -> dict[str, Any]:
        """Return all that the blocks show, and the curves; times are seconds, sizes bytes."""
        ranking, several = self.ranking, self.several
        return {
            "schema": self.schema,
            "predicted": True,
            "predictor": self.predictor,
            "warning": self.warning,
            "workload": dataclasses.asdict(ranking.workload),
            "host_seconds": self.host_seconds,
            **_ranking(ranking),
            "bounds": _bounds(self.bounds),
            "bounds_as_printed": None if self.printed is None else _bounds(self.printed),
            "curves": {
                str(method): [_prediction(one) for one in curve]
                for method, curve in ranking.curves.items()
            },
            "on": [_ranking(other) for other in self.on],
            "several": several
            and dataclasses.asdict(several)
            | {
                "predictions": [_prediction(one) for one in several.predictions],
                "one_gpu": [_prediction(one) for one in several.one_gpu],
            },
        }


def workload_text(ranking: Ranking) -> str:
    """Return the workload in one line."""
    work = ranking.workload
    into = bytes_text(work.h2d_bytes) if work.h2d_bytes else "nothing"
    back = bytes_text(work.d2h_bytes) if work.d2h_bytes else "nothing"
    kernel = seconds_text(work.kernel_seconds)
    kernel = f"a kernel of {kernel}" if work.kernel_seconds else "no kernel"
    return f"Each round: {into} to the GPU, {kernel}, {back} back"


def several_text(several: Several) -> str:
    """Return what the GPUs share, in a sentence, and whether their links are others."""
    said = "they share nothing on their way to the host's memory"
    if several.shared:
        said = f"they share {', '.join(several.shared)}, max-min fairly"
    elif several.unknown:
        said = "they share nothing whose speed is known"
    if several.unknown:
        what = ", ".join(several.unknown)
        said += (
            f"; {what}, which they share, counts as unlimited, as the machine file does not "
            "have its speed: give memory_gbs of nodes and payload_gbs of links there"
        )
    unlike = f" {several.unlike}" if several.unlike else ""
    return f"One thread of {several.machine} begins a round on each GPU; {said}.{unlike}"


def _methods(ranking: Ranking) -> Table:
    columns = (
        Column("method"),
        Column("streams", Kind.COUNT),
        *(_TIME, _INTERVAL),
        Column("bound by"),
        Column("× best", Kind.FACTOR),
    )
    rows = [
        (
            str(one.method),
            one.streams if one.method in STREAMED else None,
            *_times_of(one),
            bound_text(one).removeprefix("the "),
            one.seconds.value / ranking.winner.seconds.value,
        )
        for one in ranking.best
    ]
    impossible = [
        (str(one.method), None, None, None, "not possible", None)
        for one in ranking.skipped
        if not one.possible
    ]
    return Table("Methods, fastest first (predicted)", columns, [Group([*rows, *impossible])])


def _times_of(one: Prediction) -> tuple[TableCell, Span]:
    return TableCell(one.seconds.value, strong=True), Span(one.seconds.low, one.seconds.high)


def _named(bounds: Bounds) -> Iterator[tuple[str, Estimate]]:
    yield "full overlap", bounds.full_overlap
    yield "no overlap", bounds.zero_overlap
    yield "mapped memory", bounds.mapped


def bounds_text(bounds: Bounds) -> str:
    """Return three bounds in one line, each with its interval where it has one."""
    parts = []
    for name, seconds in _named(bounds):
        text = f"{name} {estimate_text(seconds)}"
        if (rate := bounds.rate(seconds)) is not None:
            gflops = f"{gbs_text(rate * 1e-9)} GFLOP/s"
            text = f"{text} ({gflops})" if seconds.is_exact else f"{text[:-1]}, {gflops})"
        parts.append(text)
    return ", ".join(parts)


def _links(here: Ranking, others: Sequence[Ranking]) -> Table:
    """Return every method on every link; what each gains is against the same method here."""
    columns = (
        Column("method"),
        Column("streams", Kind.COUNT),
        *(_TIME, _INTERVAL),
        Column("× best", Kind.FACTOR),
        Column("speedup", Kind.FACTOR),
    )
    seconds = {one.method: one.seconds.value for one in here.best}
    groups = []
    for ranking in (here, *others):
        link = ranking.parameters.link + (", here" if ranking is here else "")
        rows = [
            (
                str(one.method),
                one.streams if one.method in STREAMED else None,
                *_times_of(one),
                one.seconds.value / ranking.winner.seconds.value,
                seconds[one.method] / one.seconds.value if one.method in seconds else None,
            )
            for one in ranking.best
        ]
        groups.append(Group(rows, link))
    return Table("On other links (predicted)", columns, groups)


def _undecided(*rankings: Ranking) -> Iterator[Text]:
    links = [one.parameters.link for one in rankings if not one.decided]
    if links:
        yield Text(f"Which method is fastest is not decided on {enumeration(links)}.")


def _several(several: Several) -> Table:
    columns = (
        Column("method"),
        *(_TIME, _INTERVAL),
        Column("one GPU alone", Kind.SECONDS),
        Column("× one GPU", Kind.FACTOR),
    )
    pairs = zip(several.predictions, several.one_gpu, strict=True)
    rows = [
        (
            method_text(one),
            *_times_of(one),
            alone.seconds.value,
            one.seconds.value / alone.seconds.value,
        )
        for one, alone in sorted(pairs, key=lambda pair: pair[0].seconds.value)
    ]
    title = f"On {several.gpus} GPUs at once (predicted by replay)"
    return Table(title, columns, [Group(rows)])


def _curve(method: Method, curve: tuple[Prediction, ...], last: int) -> Curve:
    """Methods without streams take the same time at any number of them."""
    # so few points that their markers stand apart: those next to each other share one
    places = {round(log2(one.streams) * _POINTS): one for one in reversed(curve)}
    curve = tuple(one for one in curve if one in places.values() or one is curve[-1])
    xs = [float(one.streams) for one in curve]
    if method not in STREAMED and last > 1:
        curve, xs = curve * 2, [1.0, float(last)]
    return Curve(
        str(method),
        tuple(xs),
        tuple(one.seconds.value * 1e3 for one in curve),
        tuple(one.seconds.low * 1e3 for one in curve),
        tuple(one.seconds.high * 1e3 for one in curve),
        colour=list(Method).index(method),
    )


def _ranking(ranking: Ranking) -> dict[str, Any]:
    known = ranking.parameters
    return {
        "machine": known.name,
        "link": known.link,
        "origin": str(known.origin),
        "source": known.source,
        "ranking": [_prediction(one) for one in ranking.best],
        "decided": ranking.decided,
        "chosen": _prediction(ranking.chosen),
        "skipped": [dataclasses.asdict(one) for one in ranking.skipped],
        "closed_form_streams": ranking.closed_form,
        "why": why(ranking),
    }


def _bounds(bounds: Bounds) -> dict[str, Any]:
    return {
        field: seconds_fields(one) | {"flops_per_second": bounds.rate(one)}
        for field, one in (
            ("full_overlap", bounds.full_overlap),
            ("zero_overlap", bounds.zero_overlap),
            ("mapped", bounds.mapped),
        )
    }


def _prediction(one: Prediction) -> dict[str, Any]:
    return {
        "method": str(one.method),
        "streams": one.streams,
        **seconds_fields(one.seconds),
        "busiest": one.busiest,
    }
