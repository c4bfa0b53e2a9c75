"""Data rate by transfer size, as it is and compressed, as figure 6 of Anton (2015) has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lanescope.document.chart import INTERVAL, Axis, Chart, Curve
from lanescope.studies.compress.crossings import Crossing, speed
from lanescope.studies.compress.verdicts import path_text
from lanescope.units.estimate import Estimate

RAW = "as it is"


def rate_charts(crossings: Sequence[Crossing]) -> tuple[Chart, ...]:
    """Return a chart for each path and kind of data, in their order."""
    kinds = dict.fromkeys((one.path, one.data) for one in crossings)
    return tuple(
        _chart(path, data, [one for one in crossings if (one.path, one.data) == (path, data)])
        for path, data in kinds
    )


def _chart(path: str, data: str, crossings: Sequence[Crossing]) -> Chart:
    several_sms = len({one.sms for one in crossings}) > 1
    ways = dict.fromkeys((one.codec, one.sms) for one in crossings)
    codecs = list(dict.fromkeys(one.codec for one in crossings))
    sms = sorted({one.sms for one in crossings})
    curves = [_raw(crossings)]
    for codec, count in ways:
        those = [one for one in crossings if (one.codec, one.sms) == (codec, count)]
        largest = max(those, key=lambda one: one.bytes)
        name = f"{codec}, ratio {largest.ratio:.3g}"
        if several_sms:
            name += f", {count} SMs" if count else ", all SMs"
        points = {one.bytes: one.gbs for one in those}
        curves.append(_curve(name, points, codecs.index(codec) + 1, sms.index(count)))
    return Chart(
        re.sub(r"[^a-z0-9]+", "-", f"compress-rate-{path}-{data}".lower()).strip("-"),
        "compression",
        f"Effective data rate by transfer size: {data} over {path_text(path)}",
        "GB/s of the array, whatever crossed the link; compressed in turns with as it is",
        Axis("Transfer size", "B", log=True),
        Axis("Effective data rate", "GB/s"),
        tuple(curves),
        band=INTERVAL,
        notes=("The ratio is that of the largest array.",),
    )


def _raw(crossings: Iterable[Crossing]) -> Curve:
    """Return the curve of arrays as they are: all samples of a size, whatever their turns."""
    samples: dict[int, list[float]] = {}
    for one in crossings:
        samples.setdefault(one.bytes, []).extend(one.raw_seconds)
    return _curve(RAW, {size: speed(size, times) for size, times in samples.items()}, 0, 0)


def _curve(name: str, points: dict[int, Estimate], colour: int, dash: int) -> Curve:
    sizes = sorted(points)
    found = [points[size] for size in sizes]
    return Curve(
        name,
        tuple(float(size) for size in sizes),
        tuple(one.value for one in found),
        low=tuple(one.low for one in found),
        high=tuple(one.high for one in found),
        colour=colour,
        dash=dash,
    )
