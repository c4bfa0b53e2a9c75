"""Predicted times over streams as a chart."""

from __future__ import annotations

from math import log2

from lanescope.document.chart import INTERVAL, Axis, Chart, Curve
from lanescope.model.overlap.methods import STREAMED, Method
from lanescope.model.overlap.predictor import Prediction
from lanescope.model.overlap.rank import Ranking
from lanescope.model.overlap.words import method_text
from lanescope.report.predict_tables import workload_text

#: Points for each doubling of the streams.
_POINTS = 3
#: The number of the star among the markers.
_STAR = 7


def predict_chart(ranking: Ranking) -> Chart:
    """Return a curve for each method with its band, and a star at the fastest."""
    known = ranking.parameters
    last = max(curve.most_streams for curve in ranking.curves.values())
    curves = [_curve(method, tuple(curve), last) for method, curve in ranking.curves.items()]
    best = ranking.winner
    at = (float(best.streams),)
    time = (best.seconds.value * 1e3,)
    star = Curve(f"fastest: {method_text(best)}", at, time, colour=_STAR)
    return Chart(
        "predict",
        "model",
        f"Predicted times on {known.name}, {known.link}",
        workload_text(ranking),
        Axis("Streams", log=True),
        Axis("Time of a round, predicted", "ms"),
        (*curves, star),
        band=INTERVAL,
    )


def _curve(method: Method, curve: tuple[Prediction, ...], last: int) -> Curve:
    """Methods without streams take the same time at any number of them."""
    curve = _thinned(curve)
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


def _thinned(curve: tuple[Prediction, ...]) -> tuple[Prediction, ...]:
    """Return so few points that their markers stand apart: those next to each other share one."""
    places = {round(log2(one.streams) * _POINTS): one for one in reversed(curve)}
    return tuple(one for one in curve if one in places.values() or one is curve[-1])
