"""The charts of paths: bars for a check, curves where sizes were swept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lanescope.document.chart import AnyChart, Axis, Bar, BarRow, Bars
from lanescope.report.format import (
    bytes_text,
    gbs_text,
    half_width_text,
    percent_text,
    seconds_text,
    spread_text,
)
from lanescope.report.palette import STATUS_COLOURS
from lanescope.results.result import Result, Status
from lanescope.studies.runs.paths import GROUPS, PathRow, bandwidth_rows, source_word
from lanescope.studies.runs.sweep import Series
from lanescope.studies.runs.sweep_chart import bandwidth_chart, time_chart


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
    limit = f"limit {gbs_text(row.limit_gbs)} GB/s: {_limit_reason(row)}"
    return BarRow(row.label, (bar,), row.limit_gbs, limit, _bar_label(row))


def _bar_label(row: PathRow) -> str:
    share = row.share_of_limit
    return gbs_text(row.gbs) + ("" if share is None else f"  ·  {percent_text(share)}")


def _limit_reason(row: PathRow) -> str:
    return "" if row.measured is None else row.measured.limit_reason


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
