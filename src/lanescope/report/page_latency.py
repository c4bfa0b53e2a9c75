"""The table of latencies for the page and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.measurement.result import Source
from lanescope.report.format import gbs_text, half_width_text, seconds_text, time_spread_text
from lanescope.report.html import Cell, Column, Group, Markup, table, text
from lanescope.report.latency_rows import LatencyRow


def latency_table(rows: Sequence[LatencyRow]) -> str:
    """Return the latencies with their spread; empty when there are none."""
    if not rows:
        return ""
    columns = (
        Column("Latency"),
        Column("Time", number=True, hint="Median of one load, one call or one round trip"),
        Column("5th–95th percentile", number=True),
        Column(
            "95 % half-width",
            number=True,
            hint="Half of the 95 % confidence interval of the median, as a share of it",
        ),
        Column("Load, GB/s", number=True, hint="Of the copies that kept the path busy meanwhile"),
        Column("How it was timed"),
    )
    predicted = all(row.result.source is Source.PREDICTED for row in rows)
    caption = "Latencies, which are not predicted" if predicted else "Measured latencies"
    return table(columns, [Group([_cells(row) for row in rows])], caption)


def _cells(row: LatencyRow) -> list[Cell]:
    return [
        Markup(f'<span title="{text(row.result.experiment.name)}">{text(row.title)}</span>'),
        Markup(f"<strong>{seconds_text(row.seconds)}</strong>"),
        time_spread_text(row.low_seconds, row.high_seconds),
        half_width_text(row.half_width),
        "" if row.load_gbs is None else gbs_text(row.load_gbs),
        row.how,
    ]
