"""Tables for a terminal, as rich renderables: built here, printed by the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from lanescope.diagnosis import diagnose
from lanescope.measurement.result import Result
from lanescope.model.sweep import Series, sweep_series
from lanescope.report import format as fmt
from lanescope.report.blocks_text import renderables
from lanescope.report.case_tables import case_parts, diagnosis_parts
from lanescope.report.conclusion import state_sentence
from lanescope.report.latency_rows import latency_rows
from lanescope.report.latency_tables import latency_table
from lanescope.report.outcome import outcome
from lanescope.report.path_rows import PathRow, bandwidth_rows
from lanescope.report.set_total import total_sentences
from lanescope.report.small_tables import small_tables
from lanescope.report.status_style import outcome_text, verdict_text
from lanescope.report.taruc_text import taruc_text
from lanescope.report.tree import machine_tree
from lanescope.run.run import Run
from lanescope.studies.registry import study_named

#: Narrower terminals would cut the numbers off, then hide paths and verdicts.
_LEAST_TABLE_WIDTH = 110
_BUDGET_NOTE = "* the time budget ended the sampling before the target half-width"


def run_tables(
    run: Run, *, mean: bool = False, verbose: bool = False, strict: bool = False
) -> list[RenderableType]:
    """Return everything that a run shows on a terminal, top to bottom.

    Parameters
    ----------
    mean
        Matrices hold means and not medians.
    verbose
        Below matrices every copy behind them, those that interfere, too.
    strict
        Whether what could not be measured counts; see `outcome`.
    """
    out = outcome(run, strict=strict)
    parts: list[RenderableType] = [outcome_text(out), "", machine_tree(run.manifest.machine), ""]
    if run.predicted:
        banner = "PREDICTED from the described machine's limits and latencies, not measured."
        parts.append(Text(banner, "bold cyan"))
    if run.manifest.verb == "sweep":
        parts.append(sweep_table(sweep_series(run.results)))
        parts += _not_measured_lines(run.results)
    elif run.manifest.cases:
        parts += case_parts(run.manifest.cases, run.results, mean=mean)
        if verbose:
            parts += _path_tables(run.results)
    elif (study := study_named(run.manifest.verb)) is not None:
        parts += [*renderables(study.report(run)), *_not_measured_lines(run.results)]
    elif shown := taruc_text(run):
        parts.append(shown)
    elif run.manifest.verb == "small":
        parts += small_tables(run.results) + _not_measured_lines(run.results)
    else:
        parts += _path_tables(run.results)
        if run.manifest.verb == "copy":
            parts += [Text(sentence) for sentence in total_sentences(run.results)]
    parts += diagnosis_parts(diagnose(run.manifest.machine, run.results))
    if unfinished := state_sentence(run.manifest.state):
        parts.append(Text(unfinished, "bold yellow"))
    parts.append(outcome_text(out))  # again: long tables have moved it off the screen
    notes = (*run.manifest.notes, *run.manifest.machine.notes)
    parts += [Text(f"note: {note}", "dim") for note in notes]
    return parts


def _path_tables(results: Sequence[Result]) -> list[RenderableType]:
    """Bandwidths and latencies have tables of their own, where there are any."""
    latencies = latency_rows(results)
    tables: list[RenderableType] = [latency_table(latencies)] if latencies else []
    if not latencies or bandwidth_rows(results):
        tables.insert(0, _WideEnough(check_table(results), path_lines(results)))
    return tables


@dataclass(frozen=True)
class _WideEnough:
    """A table, or lines that say the same where a terminal is too narrow for it."""

    table: Table
    lines: Sequence[Text]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one of the two."""
        if options.max_width >= _LEAST_TABLE_WIDTH:
            yield self.table
        else:
            yield from self.lines


def path_lines(results: Sequence[Result]) -> list[Text]:
    """Return the rows of `check_table` as text that wraps at any width."""
    lines = []
    for row in bandwidth_rows(results):
        line = Text(f"{row.label}: ")
        if row.gbs is not None:
            line.append(f"{fmt.gbs_text(row.gbs)} GB/s", "bold")
            line.append("; " if row.half_width is None else f" ({_certainty(row)}); ")
        lines.append(line + verdict_text(row.verdict))
    if any(map(_budget_mark, bandwidth_rows(results))):
        lines.append(Text(_BUDGET_NOTE, "italic"))
    return lines


def check_table(results: Sequence[Result]) -> Table:
    """Return a row for each copy: bandwidth, spread, limit, verdict."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("path")
    for header in ("GB/s", "p5 to p95", "95 % half-width", "limit GB/s", "of limit"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("verdict", ratio=1)
    for row in bandwidth_rows(results):
        table.add_row(
            row.label,
            fmt.gbs_text(row.gbs),
            fmt.spread_text(row.low_gbs, row.high_gbs),
            fmt.half_width_text(row.half_width) + _budget_mark(row),
            fmt.gbs_text(row.limit_gbs),
            fmt.percent_text(row.share_of_limit),
            verdict_text(row.verdict),
        )
    if any(_budget_mark(row) for row in bandwidth_rows(results)):
        table.caption = _BUDGET_NOTE
        table.caption_justify = "left"
    return table


def _certainty(row: PathRow) -> str:
    spread = fmt.spread_text(row.low_gbs, row.high_gbs)
    return f"p5 to p95 {spread}, median {fmt.half_width_text(row.half_width)}{_budget_mark(row)}"


def _budget_mark(row: PathRow) -> str:
    stop = row.result.stop
    return "*" if stop is not None and stop.reason == "budget" else ""


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
    return [verdict_text(v) for v in sorted(verdicts, key=lambda v: v.reason)]
