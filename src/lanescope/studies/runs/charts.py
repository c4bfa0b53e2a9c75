"""What a sweep over sizes gives, and the charts of paths: bars of a check, curves of a sweep.

The model is the postal model, ``t(s) = delay + s / plateau`` (Hockney 1982; van Werkhoven et al.
2014, equation 1, with L + o as the delay and G as the inverse plateau). Nothing is ever subtracted
from a measured time: the bandwidth of a size is ``s / t(s)``, which is below the plateau for every
size, and the plateau is bounded by the link's limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from lanescope.copies import Engine, Memory, Timing
from lanescope.document.contents import PERCENTILES, AnyChart, Axis, Bar, BarRow, Bars, Chart, Curve
from lanescope.report.format import (
    bytes_text,
    gbs_text,
    half_width_text,
    percent_text,
    seconds_text,
    spread_text,
    time_spread_text,
)
from lanescope.report.html import STAR, STATUS_COLOURS, direction_colour
from lanescope.results import CopyResult, FloatArray, Result, Source, Status, summarise
from lanescope.studies.runs.rows import GROUPS, PathRow, bandwidth_rows, source_word
from lanescope.units.sizes import bandwidth_gbs, bandwidths_gbs, transfer_seconds

#: Share of the plateau that counts as saturated.
SATURATION = 0.95
#: Copies up to this size take the same time: their samples make up the delay.
DELAY_BYTES = 64
#: The plateau is the median over the largest sizes, this share of the largest.
_PLATEAU_SHARE = 1 / 8
#: What tells curves of one direction apart: numbers of dash and marker.
_STYLES = {
    (Memory.PINNED, Timing.GATE): (0, 0),
    (Memory.PINNED, Timing.HOST): (2, 2),
    (Memory.PAGEABLE, Timing.HOST): (3, 1),
}
_OTHER_STYLE = (5, 4)
_SIZE = Axis("Size of the copy", "B", log=True)
_FITTED = "Thin dashes: fitted delay + bytes / plateau"


@dataclass(frozen=True, slots=True)
class LinkFit:
    """Parameters of ``t(s) = delay + s / plateau``.

    Attributes
    ----------
    delay_seconds
        Time of a copy of no bytes.
    plateau_gbs
        Bandwidth of an endless copy, GB/s.
    worst_residual
        Largest distance of a measured time from the fitted one, as a share of
        the measured time: how far the straight line is from the truth.
    """

    delay_seconds: float
    plateau_gbs: float
    worst_residual: float

    def seconds(self, sizes: FloatArray) -> FloatArray:
        """Return the fitted time for each size in bytes."""
        return self.delay_seconds + transfer_seconds(sizes, self.plateau_gbs)

    def gbs(self, sizes: FloatArray) -> FloatArray:
        """Return the fitted bandwidth for each size in bytes, in GB/s."""
        return bandwidths_gbs(sizes, self.seconds(sizes))


def fit_link(sizes: FloatArray, seconds: FloatArray, limit_gbs: float | None) -> LinkFit:
    """Fit delay and plateau to the median times of a sweep.

    Weighted so that each size counts by its relative error: unweighted, the
    largest size would decide alone and the delay would be noise. The delay is
    held at 0 or more and the plateau at the link's limit or less.

    Parameters
    ----------
    sizes, seconds
        Arrays of one length, two or more different sizes; bytes and seconds.
    limit_gbs
        Physical limit of the path, or None when unknown.

    Raises
    ------
    ValueError
        If there are fewer than two different sizes, or a time is not positive.
    """
    from scipy.optimize import lsq_linear

    if len(np.unique(sizes)) < 2:
        raise ValueError("a transfer curve needs two or more different sizes")
    if not np.all(seconds > 0):
        raise ValueError("a transfer curve needs times above zero")
    least_slope = 0.0 if limit_gbs is None else transfer_seconds(1.0, limit_gbs)
    # Columns of about the same size, or the solver's tolerance hides the slope.
    scale = np.array([seconds.min(), seconds.max() / sizes.max()])
    matrix = np.column_stack([1 / seconds, sizes / seconds]) * scale
    bounds = (np.array([0.0, least_slope]) / scale, np.array([np.inf, np.inf]))
    solution = lsq_linear(matrix, np.ones_like(seconds), bounds=bounds, method="bvls")
    delay, slope = solution.x * scale
    slope = max(slope, least_slope, np.finfo(float).tiny)
    fitted = delay + slope * sizes
    worst = float(np.max(np.abs(fitted - seconds) / seconds))
    return LinkFit(float(delay), bandwidth_gbs(1.0, float(slope)), worst)


def saturation_bytes(sizes: FloatArray, gbs: FloatArray, plateau_gbs: float) -> float | None:
    """Return the size from which on 95 % of the plateau is reached, in bytes.

    Interpolated in the logarithm of the size between the last measured point
    below and the one above it; None when the largest size is still below, the
    smallest size when all are above.
    """
    order = np.argsort(sizes)
    sizes, share = sizes[order], gbs[order] / plateau_gbs
    below = np.flatnonzero(share < SATURATION)
    if below.size == 0:
        return float(sizes[0])
    last = int(below[-1])
    if last == len(sizes) - 1:
        return None
    part = (SATURATION - share[last]) / (share[last + 1] - share[last])
    logs = np.log2(sizes[[last, last + 1]])
    return float(2 ** (logs[0] + part * (logs[1] - logs[0])))


@dataclass(frozen=True, slots=True)
class SweepSeries:
    """One curve of a sweep: a path, a kind of host memory, a way of timing.

    Attributes
    ----------
    path, title
        Such as ``h0 → g0`` and ``h0 → g0, pinned, gate``.
    sizes
        Bytes, ascending.
    seconds, low_seconds, high_seconds
        Median, 5th and 95th percentile of each size.
    gbs
        Bandwidth of the median of each size.
    limit_gbs
        Physical limit of the path, or None.
    delay_seconds, delay_low_seconds, delay_high_seconds
        Median and 5th to 95th percentile of the smallest copies together.
    plateau_gbs
        Median bandwidth of the largest sizes.
    peak_gbs, peak_bytes
        The best size: above the plateau where large copies get slower again.
    saturation_bytes
        Size from which on 95 % of the plateau is reached, or None.
    fit
        The postal model through all sizes.
    """

    path: str
    memory: Memory
    timing: Timing
    source: Source
    sizes: FloatArray
    seconds: FloatArray
    low_seconds: FloatArray
    high_seconds: FloatArray
    gbs: FloatArray
    limit_gbs: float | None
    delay_seconds: float
    delay_low_seconds: float
    delay_high_seconds: float
    plateau_gbs: float
    peak_gbs: float
    peak_bytes: float
    saturation_bytes: float | None
    fit: LinkFit

    @property
    def title(self) -> str:
        """The curve's name in a legend."""
        clock = "GPU events" if self.timing is Timing.GATE else "host clock"
        return f"{self.path}, {self.memory}, {clock}"


def sweep_series(results: Iterable[Result]) -> tuple[SweepSeries, ...]:
    """Group copies that ran alone by path, memory and timing into curves.

    Groups of fewer than two sizes are left out.
    """
    groups: dict[tuple[str, Memory, Timing, Source], list[CopyResult]] = defaultdict(list)
    for result in results:
        if result.experiment.has_latency:
            continue
        copy = result.experiment.copies[0]
        if len(result.copies) == 1 and copy.engine is Engine.CE and not copy.in_pieces:
            host = copy.source if copy.source.is_host else copy.destination
            key = (copy.path, host.memory, result.experiment.timing, result.source)
            groups[key].append(result.copies[0])
    return tuple(
        _series(*key, sorted(points, key=lambda p: p.copy.bytes))
        for key, points in groups.items()
        if len({p.copy.bytes for p in points}) > 1
    )


def _series(
    path: str, memory: Memory, timing: Timing, source: Source, points: list[CopyResult]
) -> SweepSeries:
    sizes = np.array([p.copy.bytes for p in points], dtype=np.float64)
    seconds = np.array([p.statistics.median_seconds for p in points])
    gbs = np.array([p.gbs for p in points], dtype=np.float64)
    limit = points[-1].limit_gbs
    small = [p.seconds for p in points if p.copy.bytes <= DELAY_BYTES] or [points[0].seconds]
    delay = summarise(np.concatenate(small))
    plateau = float(np.median(gbs[sizes >= sizes[-1] * _PLATEAU_SHARE]))
    best = int(np.argmax(gbs))
    return SweepSeries(
        path=path,
        memory=memory,
        timing=timing,
        source=source,
        sizes=sizes,
        seconds=seconds,
        low_seconds=np.array([p.statistics.p5_seconds for p in points]),
        high_seconds=np.array([p.statistics.p95_seconds for p in points]),
        gbs=gbs,
        limit_gbs=limit,
        delay_seconds=delay.median_seconds,
        delay_low_seconds=delay.p5_seconds,
        delay_high_seconds=delay.p95_seconds,
        plateau_gbs=plateau,
        peak_gbs=float(gbs[best]),
        peak_bytes=float(sizes[best]),
        saturation_bytes=saturation_bytes(sizes, gbs, plateau),
        fit=fit_link(sizes, seconds, limit),
    )


def check_charts(results: Sequence[Result]) -> list[Bars]:
    """Return bars of bandwidth for each group of measured paths, with spreads and limits.

    Next to NVLink, PCIe would be too short to read.
    """
    rows = [r for r in bandwidth_rows(results) if r.measured is not None and r.measured.own_rate]
    word = source_word([r.result for r in rows])
    whiskers = "" if word == "predicted" else "Whiskers: 5th to 95th percentile. "
    return [
        Bars(
            f"check-{name.lower().replace(' ', '-')}",
            "check",
            f"{word.capitalize()} bandwidth of every path: {name[:1].lower()}{name[1:]}",
            f"{whiskers}At the right: GB/s and share of the limit",
            Axis("Bandwidth", "GB/s" if word == "measured" else f"GB/s, {word}"),
            tuple(_row(row) for row in rows if row.group == name),
        )
        for name in GROUPS
        if any(row.group == name for row in rows)
    ]


def _row(row: PathRow) -> BarRow:
    status, value = row.verdict.status, row.gbs or 0.0
    guess = status is Status.PREDICTED
    low, high = (None, None) if guess else (row.low_gbs or value, row.high_gbs or value)
    bar = Bar(str(status), STATUS_COLOURS[status], value, low, high, _hint(row), guess)
    reason = "" if row.measured is None else row.measured.limit_reason
    limit = f"limit {gbs_text(row.limit_gbs)} GB/s: {reason}"
    return BarRow(row.label, (bar,), row.limit_gbs, limit, _bar_label(row))


def _bar_label(row: PathRow) -> str:
    share = row.share_of_limit
    return gbs_text(row.gbs) + ("" if share is None else f"  ·  {percent_text(share)}")


def _hint(row: PathRow) -> str:
    """Every number of a path, a line each."""
    entry = row.measured
    if entry is None:
        return ""
    statistics = entry.statistics
    word = "predicted" if row.predicted else "median"
    lines = [
        row.label,
        row.detail,
        f"{word}: {gbs_text(row.gbs)} GB/s, {seconds_text(statistics.median_seconds)} a copy",
    ]
    if not row.predicted:
        lines += [
            f"5th to 95th percentile: {spread_text(row.low_gbs, row.high_gbs)} GB/s",
            f"95 % half-width: {half_width_text(row.half_width)}, {statistics.n} samples",
            f"fastest {seconds_text(statistics.min_seconds)}, "
            f"slowest {seconds_text(statistics.max_seconds)}",
        ]
    lines += [
        f"limit: {gbs_text(row.limit_gbs)} GB/s ({entry.limit_reason})",
        f"share of limit: {percent_text(row.share_of_limit)}",
        f"bytes counted: {bytes_text(entry.copy.counted_bytes)}",
        f"verdict: {row.verdict.status}, {row.verdict.reason}",
    ]
    return "\n".join(lines)


def run_charts(rows: Sequence[PathRow], series: Sequence[SweepSeries]) -> list[AnyChart]:
    """Return the charts of a run: curves where sizes were swept, bars otherwise.

    Curves get a pair of charts for each pair of parts, such as a node and a GPU.
    """
    pairs: dict[tuple[str, ...], list[SweepSeries]] = defaultdict(list)
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


def bandwidth_chart(series: Sequence[SweepSeries]) -> Chart:
    """Return bandwidth against size, with limits and where each curve saturates."""
    curves = chain(*map(_bandwidth, series), _limits(series), _saturations(series))
    return _chart("bandwidth", series, Axis("Bandwidth", f"GB/s{_suffix(series)}"), curves)


def time_chart(series: Sequence[SweepSeries]) -> Chart:
    """Return the time of a copy against its size: the flat part is the delay."""
    axis = Axis(f"Time of one copy{_suffix(series)}", "s", log=True)
    return _chart("time", series, axis, chain(*map(_time, series)))


def _chart(what: str, series: Sequence[SweepSeries], y: Axis, curves: Iterable[Curve]) -> Chart:
    word, drawn = _word(series), tuple(curves)
    band = PERCENTILES if any(c.low for c in drawn) else ""
    title = f"{word} {what} by size of the copy"
    return Chart(f"sweep-{what}", "sweep", title, _FITTED, _SIZE, y, drawn, band)


def _bandwidth(series: SweepSeries) -> Iterable[Curve]:
    low, high = (bandwidths_gbs(series.sizes, s) for s in (series.high_seconds, series.low_seconds))
    return _curve(series, series.gbs, low, high, series.fit.gbs(series.sizes))


def _time(series: SweepSeries) -> Iterable[Curve]:
    fit = series.fit.seconds(series.sizes)
    return _curve(series, series.seconds, series.low_seconds, series.high_seconds, fit)


def _curve(
    series: SweepSeries, middle: FloatArray, low: FloatArray, high: FloatArray, fit: FloatArray
) -> Iterable[Curve]:
    """The fitted curve, and the measured one with its band on top."""
    hue = direction_colour(series.path)
    dash, marker = _STYLES.get((series.memory, series.timing), _OTHER_STYLE)
    sizes, name = tuple(series.sizes.tolist()), _name(series)
    fitted = f"{name}, fitted"
    yield Curve(fitted, sizes, tuple(fit.tolist()), hue=hue, dash=1, points=False, named=False)
    spread = series.source is not Source.PREDICTED
    yield Curve(
        name,
        sizes,
        tuple(middle.tolist()),
        tuple(low.tolist()) if spread else (),
        tuple(high.tolist()) if spread else (),
        hue=hue,
        dash=dash,
        marker=marker,
        hints=tuple(_hints(series)),
    )


def _limits(series: Sequence[SweepSeries]) -> Iterable[Curve]:
    """One line for each path, however many curves it has."""
    for path, one in {s.path: s for s in series}.items():
        if one.limit_gbs is not None:
            name = f"limit of {path}: {gbs_text(one.limit_gbs)} GB/s"
            ends, hue = (one.sizes[0], one.sizes[-1]), direction_colour(path)
            limits = (one.limit_gbs, one.limit_gbs)
            yield Curve(name, ends, limits, limit=True, hue=hue, hints=(name, name))


def _saturations(series: Sequence[SweepSeries]) -> Iterable[Curve]:
    named = True
    for one in series:
        if one.saturation_bytes is None:
            continue
        hint = (
            f"{_name(one)}\n95 % of the plateau of {gbs_text(one.plateau_gbs)} GB/s "
            f"from {bytes_text(one.saturation_bytes)} on"
        )
        yield Curve(
            "95 % of the plateau",
            (one.saturation_bytes,),
            (one.plateau_gbs * 0.95,),
            hue=direction_colour(one.path),
            marker=STAR,
            hints=(hint,),
            named=named,
        )
        named = False


def _hints(series: SweepSeries) -> Iterable[str]:
    """The numbers of each point of a curve, with those of the whole curve below."""
    delay = time_spread_text(series.delay_low_seconds, series.delay_high_seconds)
    tail = (
        f"delay {seconds_text(series.delay_seconds)} ({delay})\n"
        f"plateau {gbs_text(series.plateau_gbs)} GB/s, 95 % of it from "
        f"{bytes_text(series.saturation_bytes)} on\n"
        f"limit {gbs_text(series.limit_gbs)} GB/s"
    )
    for i, size in enumerate(series.sizes):
        seconds, low, high = series.seconds[i], series.low_seconds[i], series.high_seconds[i]
        share = None if series.limit_gbs is None else float(series.gbs[i]) / series.limit_gbs
        spread = spread_text(bandwidth_gbs(size, high), bandwidth_gbs(size, low))
        yield (
            f"{_name(series)}\n{bytes_text(size)}: {gbs_text(series.gbs[i])} GB/s ({spread}), "
            f"{percent_text(share)} of the limit\n"
            f"{seconds_text(seconds)} a copy ({time_spread_text(low, high)})\n{tail}"
        )


def _name(series: SweepSeries) -> str:
    """The curve's name for a legend; predictions are called so."""
    return ("predicted: " if series.source is Source.PREDICTED else "") + series.title


def _word(series: Sequence[SweepSeries]) -> str:
    predicted = [s.source is Source.PREDICTED for s in series]
    if predicted and all(predicted):
        return "Predicted"
    return "Measured and predicted" if any(predicted) else "Measured"


def _suffix(series: Sequence[SweepSeries]) -> str:
    word = _word(series)
    return "" if word == "Measured" else f", {word.lower()}"
