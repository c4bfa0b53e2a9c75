"""What the figures say about a bar or a point when the pointer rests on it."""

from __future__ import annotations

from lanescope.measurement.result import Source
from lanescope.model.sweep import Series
from lanescope.report.format import (
    bytes_text,
    gbs_text,
    half_width_text,
    percent_text,
    seconds_text,
    spread_text,
    time_spread_text,
)
from lanescope.report.path_rows import PathRow
from lanescope.report.plot_parts import plotly_text
from lanescope.units.bandwidth import bandwidth_gbs


def row_summary(row: PathRow) -> str:
    """Return bandwidth and share of the limit, for the column beside the bars."""
    if row.share_of_limit is None:
        return f"<b>{gbs_text(row.gbs)}</b>"
    return f"<b>{gbs_text(row.gbs)}</b>  ·  {percent_text(row.share_of_limit)}"


def limit_reason(row: PathRow) -> str:
    """Return what sets the limit of a path."""
    return "" if row.measured is None else row.measured.limit_reason


def row_hover(row: PathRow) -> str:
    """Return every number of a path, a line each."""
    entry = row.measured
    if entry is None:
        return ""
    statistics = entry.statistics
    word = "predicted" if row.predicted else "median"
    lines = [
        f"<b>{plotly_text(row.label)}</b>",
        plotly_text(row.detail),
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
        f"limit: {gbs_text(row.limit_gbs)} GB/s ({plotly_text(entry.limit_reason)})",
        f"share of limit: {percent_text(row.share_of_limit)}",
        f"bytes counted: {bytes_text(entry.copy.counted_bytes)}",
        f"verdict: {row.verdict.status}, {plotly_text(row.verdict.reason)}",
    ]
    return "<br>".join(lines)


def curve_hovers(series: Series) -> list[str]:
    """Return the numbers of each point of a curve, with those of the whole curve below."""
    delay = time_spread_text(series.delay_low_seconds, series.delay_high_seconds)
    tail = (
        f"delay {seconds_text(series.delay_seconds)} ({delay})"
        f"<br>plateau {gbs_text(series.plateau_gbs)} GB/s, 95 % of it from "
        f"{bytes_text(series.saturation_bytes)} on"
        f"<br>limit {gbs_text(series.limit_gbs)} GB/s"
    )
    lines = []
    for i, size in enumerate(series.sizes):
        seconds, low, high = series.seconds[i], series.low_seconds[i], series.high_seconds[i]
        share = None if series.limit_gbs is None else float(series.gbs[i]) / series.limit_gbs
        spread = spread_text(bandwidth_gbs(size, high), bandwidth_gbs(size, low))
        lines.append(
            f"<b>{curve_name(series)}</b><br>{bytes_text(size)}: {gbs_text(series.gbs[i])} GB/s "
            f"({spread}), {percent_text(share)} of the limit"
            f"<br>{seconds_text(seconds)} a copy ({time_spread_text(low, high)})<br>{tail}"
        )
    return lines


def curve_name(series: Series) -> str:
    """Return the curve's name for a legend; predictions are called so."""
    prefix = "predicted: " if series.source is Source.PREDICTED else ""
    return plotly_text(prefix + series.title)
