"""Charts of compressed arrays: ratio by dimensionality, data rate by transfer size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lanescope.document.chart import INTERVAL, Axis, Chart, Curve
from lanescope.errors import InputError
from lanescope.report.format import count_text
from lanescope.studies.compress.results import ArrayResult, Crossing, speed
from lanescope.studies.compress.verdicts import path_text
from lanescope.units.estimate import Estimate

#: Curves that can be told apart.
_MOST_CURVES = 12
#: Of so many arrays, the largest, data rates are drawn: a chart for each path.
_MOST_ARRAYS = 4


def compress_chart(results: Sequence[ArrayResult]) -> Chart:
    """Return ratio over dimensionality: a curve for each array that GFC takes, the largest ones.

    As figure 7 of Anton (2015).

    Raises
    ------
    InputError
        If there is none.
    """
    known = [one for one in results if one.dimensionalities]
    if not known:
        raise InputError(
            "what GFC makes of arrays cannot be drawn: none of them was of a type that it takes; "
            "give one of fp64 or fp32"
        )
    drawn = sorted(known, key=lambda one: -one.bytes)[:_MOST_CURVES]
    curves = [
        Curve(
            _name(one),
            tuple(float(each.dimensionality) for each in one.dimensionalities),
            tuple(each.ratio for each in one.dimensionalities),
            colour=number,
        )
        for number, one in enumerate(drawn)
    ]
    return Chart(
        "compress",
        "compression",
        "Compression ratio by GFC's dimensionality",
        "Bytes of the array over bytes of the stream; above 1 it became smaller",
        Axis("Dimensionality"),
        Axis("Compression ratio"),
        tuple(curves),
        notes=_not_drawn(known, drawn),
    )


def drawn_rate_charts(results: Sequence[ArrayResult]) -> tuple[Chart, ...]:
    """Return the charts of the largest arrays that crossed links; none where nothing did."""
    crossed = [one for one in results if one.crossings]
    drawn = sorted(crossed, key=lambda one: -one.bytes)[:_MOST_ARRAYS]
    named = [replace(each, data=_name(one)) for one in drawn for each in one.crossings]
    return rate_charts(named, _not_drawn(crossed, drawn))


def rate_charts(crossings: Sequence[Crossing], notes: tuple[str, ...] = ()) -> tuple[Chart, ...]:
    """Return data rate by transfer size: a chart for each path and kind of data, in their order.

    As figure 6 of Anton (2015).
    """
    kinds = dict.fromkeys((one.path, one.data) for one in crossings)
    return tuple(
        _rate_chart(
            path, data, [one for one in crossings if (one.path, one.data) == (path, data)], notes
        )
        for path, data in kinds
    )


def _rate_chart(
    path: str, data: str, crossings: Sequence[Crossing], notes: tuple[str, ...]
) -> Chart:
    sms = sorted({one.sms for one in crossings})
    codecs = list(dict.fromkeys(one.codec for one in crossings))
    curves = [_raw(crossings)]
    for codec, count in dict.fromkeys((one.codec, one.sms) for one in crossings):
        those = [one for one in crossings if (one.codec, one.sms) == (codec, count)]
        largest = max(those, key=lambda one: one.bytes)
        name = f"{codec}, ratio {largest.ratio:.3g}"
        if len(sms) > 1:
            name += f", {count} SMs" if count else ", all SMs"
        points = {one.bytes: one.gbs for one in those}
        curves.append(_curve(name, points, codecs.index(codec) + 1, sms.index(count)))
    return Chart(
        re.sub(r"[^a-z0-9]+", "-", f"compress-rate-{path}-{data}".lower()).strip("-"),
        "compression",
        f"Effective data rate by transfer size: {data} over {path_text(path)}",
        "GB/s of the array, whatever crossed the link; compressed in turns with the raw copy",
        Axis("Transfer size", "B", log=True),
        Axis("Effective data rate", "GB/s"),
        tuple(curves),
        band=INTERVAL,
        notes=("The ratio is that of the largest array.", *notes),
    )


def _raw(crossings: Iterable[Crossing]) -> Curve:
    """Return the curve of raw copies: all samples of a size, whatever their turns."""
    samples: dict[int, list[float]] = {}
    for one in crossings:
        samples.setdefault(one.bytes, []).extend(one.raw_seconds)
    return _curve("raw", {size: speed(size, times) for size, times in samples.items()}, 0, 0)


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


def _name(one: ArrayResult) -> str:
    return one.name.rsplit("/", 1)[-1] + (", made up" if one.made_up else "")


def _not_drawn(known: Sequence[ArrayResult], drawn: Sequence[ArrayResult]) -> tuple[str, ...]:
    more = len(known) - len(drawn)
    return (f"Not drawn: {count_text(more, 'smaller array')}.",) if more else ()
