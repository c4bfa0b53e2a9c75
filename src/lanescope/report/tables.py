"""Tables for a terminal, as rich renderables: built here, printed by the command line."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lanescope.measurement.result import Result, Status, Verdict
from lanescope.model.sweep import Series, sweep_series
from lanescope.report import format as fmt
from lanescope.report.conclusion import conclusion, state_sentence
from lanescope.report.path_rows import PathRow, path_rows
from lanescope.report.tree import machine_tree
from lanescope.run.run import Run

_STYLE = {
    Status.HEALTHY: "green",
    Status.SLOW: "bold red",
    Status.IMPOSSIBLE: "bold red",
    Status.UNJUDGED: "dim",
    Status.PREDICTED: "cyan",
    Status.NOT_MEASURED: "yellow",
}


def run_tables(run: Run) -> list[RenderableType]:
    """Return everything that a run shows on a terminal, top to bottom."""
    parts: list[RenderableType] = [machine_tree(run.manifest.machine), ""]
    if run.predicted:
        banner = "PREDICTED from the described machine's limits and latencies, not measured."
        parts.append(Text(banner, "bold cyan"))
    if run.manifest.verb == "sweep":
        parts.append(sweep_table(sweep_series(run.results)))
        parts += _not_measured_lines(run.results)
    else:
        parts.append(check_table(run.results))
    if unfinished := state_sentence(run.manifest.state):
        parts.append(Text(unfinished, "bold yellow"))
    parts.append(Text(conclusion(run), "bold"))
    parts += [Text(f"note: {note}", "dim") for note in run.manifest.machine.notes]
    return parts


def check_table(results: Sequence[Result]) -> Table:
    """Return a row for each copy: bandwidth, spread, limit, verdict."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("path")
    for header in ("GB/s", "p5 to p95", "95 % half-width", "limit GB/s", "of limit"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("verdict", ratio=1)
    for row in path_rows(results):
        table.add_row(
            row.label,
            fmt.gbs_text(row.gbs),
            fmt.spread_text(row.low_gbs, row.high_gbs),
            fmt.half_width_text(row.half_width) + _budget_mark(row),
            fmt.gbs_text(row.limit_gbs),
            fmt.percent_text(row.share_of_limit),
            _verdict_text(row.verdict),
        )
    if any(_budget_mark(row) for row in path_rows(results)):
        table.caption = "* the time budget ended the sampling before the target half-width"
        table.caption_justify = "left"
    return table


def _budget_mark(row: PathRow) -> str:
    stop = row.result.stop
    return "*" if stop is not None and stop.reason == "budget" else ""


def _verdict_text(verdict: Verdict) -> Text:
    text = Text(str(verdict.status), _STYLE[verdict.status])
    text.append(f": {verdict.reason}", "default")
    if verdict.remedy:
        text.append(f" → {verdict.remedy}", "default")
    return text


def sweep_table(series: Sequence[Series]) -> Table:
    """Return a row for each curve of a sweep."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("path, host memory, clock")
    headers = ("delay", "p5 to p95", "plateau GB/s", "limit", "95 % from", "peak GB/s", "at")
    for header in (*headers, "fit: delay", "GB/s", "worst"):
        table.add_column(header, justify="right", no_wrap=True)
    for s in series:
        table.add_row(
            s.title,
            fmt.seconds_text(s.delay_seconds),
            fmt.time_spread_text(s.delay_low_seconds, s.delay_high_seconds),
            fmt.gbs_text(s.plateau_gbs),
            fmt.gbs_text(s.limit_gbs),
            fmt.bytes_text(s.saturation_bytes),
            fmt.gbs_text(s.peak_gbs),
            fmt.bytes_text(s.peak_bytes),
            fmt.seconds_text(s.fit.delay_seconds),
            fmt.gbs_text(s.fit.plateau_gbs),
            fmt.percent_text(s.fit.worst_residual),
        )
    return table


def _not_measured_lines(results: Sequence[Result]) -> list[RenderableType]:
    verdicts = {r.not_measured for r in results if r.not_measured is not None}
    return [_verdict_text(v) for v in sorted(verdicts, key=lambda v: v.reason)]
