"""The tables of results, shared by the page and notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.measurement.result import Result, Source, Stop, Verdict
from lanescope.model.sweep import Series
from lanescope.report.format import (
    MISSING,
    bytes_text,
    gbs_text,
    half_width_text,
    microseconds_text,
    percent_text,
    seconds_text,
    spread_text,
    time_spread_text,
)
from lanescope.report.html import Cell, Column, Group, Markup, table, text
from lanescope.report.palette import STATUS_SIGNS
from lanescope.report.path_rows import GROUPS, PathRow, path_rows, source_word

_SPREAD_HINT = "Bandwidth at the 95th and at the 5th percentile of the time"
_HALF_WIDTH_HINT = "Half of the 95 % confidence interval of the median, as a share of it"
_LIMIT_HINT = "Payload that the slowest link on the way can carry, GB/s"


def verdict_table(rows: Sequence[PathRow]) -> str:
    """Return the paths with their bandwidth, limit and verdict, in groups."""
    word = source_word([r.result for r in rows])
    unit = "GB/s" if word == "measured" else f"GB/s, {word}"
    columns = (
        Column("Path"),
        Column(unit, number=True),
        Column("5th–95th percentile", number=True, hint=_SPREAD_HINT),
        Column("95 % half-width", number=True, hint=_HALF_WIDTH_HINT),
        Column("Limit", number=True, hint=_LIMIT_HINT),
        Column("% of limit", number=True),
        Column("Verdict"),
        Column("Why, and what to do"),
    )
    groups = [
        Group([_verdict_cells(r) for r in rows if r.group == name], name)
        for name in GROUPS
        if any(r.group == name for r in rows)
    ]
    return table(columns, groups, f"{word.capitalize()} bandwidth and verdict of every path")


def sweep_table(series: Sequence[Series]) -> str:
    """Return what the curves of a sweep tell: delay, plateau and where it is reached."""
    predicted = [s.source is Source.PREDICTED for s in series]
    word = "Predicted" if predicted and all(predicted) else "Measured"
    if any(predicted) and not all(predicted):
        word = "Measured and predicted"
    columns = (
        Column("Curve"),
        Column("Delay", number=True, hint="Median time of copies of up to 64 B"),
        Column("5th–95th percentile", number=True, hint="Of the delay"),
        Column("Plateau, GB/s", number=True, hint="Median bandwidth of the largest sizes"),
        Column("95 % of it from", number=True, hint="Size from which on 95 % of the plateau holds"),
        Column("Peak, GB/s", number=True),
        Column("Peak at", number=True),
        Column("Limit, GB/s", number=True, hint=_LIMIT_HINT),
        Column("Fit: delay", number=True, hint="Time of a copy of no bytes, from the fitted line"),
        Column("Fit: worst distance", number=True, hint="Largest distance of a time from the fit"),
    )
    rows = [_sweep_cells(s) for s in series]
    return table(columns, [Group(rows)], f"{word} delay and bandwidth by size of the copy")


def raw_table(results: Sequence[Result]) -> str:
    """Return the times behind every number, one row for each copy."""
    word = source_word(results)
    columns = (
        Column("Experiment"),
        Column("Path"),
        Column("Bytes", number=True, hint="Size of one array"),
        Column("n", number=True, hint="Number of samples"),
        Column("Median, µs", number=True),
        Column("Min, µs", number=True),
        Column("5th, µs", number=True, hint="5th percentile"),
        Column("95th, µs", number=True, hint="95th percentile"),
        Column("Max, µs", number=True),
        Column("GB/s", number=True),
        Column("Why sampling ended"),
    )
    rows = [_raw_cells(r) for r in path_rows(results)]
    return table(columns, [Group(rows)], f"Time of one repetition, {word}")


def badge(verdict: Verdict) -> Markup:
    """Return a verdict as a sign and a word, coloured by its class."""
    name = verdict.status.name.lower().replace("_", "-")
    sign = STATUS_SIGNS[verdict.status]
    return Markup(
        f'<span class="badge {name}"><span aria-hidden="true">{sign}</span> '
        f"{text(verdict.status)}</span>"
    )


def reason(verdict: Verdict) -> Markup:
    """Return why, and below it what to do."""
    remedy = "" if verdict.remedy is None else f'<span class="remedy">{text(verdict.remedy)}</span>'
    return Markup(text(verdict.reason) + remedy)


def _verdict_cells(row: PathRow) -> list[Cell]:
    spread = MISSING if row.predicted else spread_text(row.low_gbs, row.high_gbs)
    limit_reason = row.measured.limit_reason if row.measured else row.verdict.reason
    return [
        Markup(f'<span title="{text(row.detail)}">{text(row.label)}</span>'),
        Markup(f"<strong>{gbs_text(row.gbs)}</strong>"),
        spread,
        half_width_text(row.half_width),
        Markup(f'<span title="{text(limit_reason)}">{gbs_text(row.limit_gbs)}</span>'),
        _share(row),
        badge(row.verdict),
        reason(row.verdict),
    ]


def _share(row: PathRow) -> Cell:
    """The share in numbers, and the same as a small bar that only eyes need."""
    share = row.share_of_limit
    if share is None:
        return MISSING
    name = row.verdict.status.name.lower().replace("_", "-")
    width = min(share, 1.0) * 100
    return Markup(
        f'{percent_text(share)}<span class="meter" aria-hidden="true">'
        f'<span class="{name}" style="width:{width:.1f}%"></span></span>'
    )


def _sweep_cells(series: Series) -> list[Cell]:
    predicted = series.source is Source.PREDICTED
    spread = time_spread_text(series.delay_low_seconds, series.delay_high_seconds)
    return [
        f"{series.title}, predicted" if predicted else series.title,
        seconds_text(series.delay_seconds),
        MISSING if predicted else spread,
        Markup(f"<strong>{gbs_text(series.plateau_gbs)}</strong>"),
        bytes_text(series.saturation_bytes),
        gbs_text(series.peak_gbs),
        bytes_text(series.peak_bytes),
        gbs_text(series.limit_gbs),
        seconds_text(series.fit.delay_seconds),
        percent_text(series.fit.worst_residual),
    ]


def _raw_cells(row: PathRow) -> list[Cell]:
    statistics = row.measured.statistics if row.measured else None
    times = (
        (None,) * 5
        if statistics is None
        else (
            statistics.median_seconds,
            statistics.min_seconds,
            statistics.p5_seconds,
            statistics.p95_seconds,
            statistics.max_seconds,
        )
    )
    return [
        row.result.experiment.name,
        row.copy.path,
        bytes_text(row.copy.bytes),
        MISSING if statistics is None else str(statistics.n),
        *(microseconds_text(t) for t in times),
        gbs_text(row.gbs),
        _stop(row.result.stop, row.verdict),
    ]


def _stop(stop: Stop | None, verdict: Verdict) -> str:
    return verdict.reason if stop is None else str(stop)
