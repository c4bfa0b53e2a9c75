"""A suite on the page: findings, and a section for each micro-benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lanescope.document.blocks import (
    Block,
    Bullets,
    Column,
    Details,
    Findings,
    Group,
    Section,
    Style,
    Table,
    Text,
)
from lanescope.document.chart import Chart
from lanescope.experiment.taruc.benchmark import TITLES, Benchmark
from lanescope.model.taruc import is_suite, suite_of
from lanescope.model.taruc.findings import findings
from lanescope.report.format import count_text
from lanescope.report.taruc_charts import taruc_charts
from lanescope.report.taruc_rows import SuiteTable, suite_tables
from lanescope.report.taruc_text import MOST_FINDINGS, nothing_found
from lanescope.run.run import Run

#: Longer tables start folded.
_MOST_OPEN_ROWS = 12


def taruc_findings(run: Run) -> list[Block]:
    """Return what a suite found, the first in the open; nothing of a run without one."""
    measured = any(is_suite(result) and result.copies for result in run.results)
    if run.predicted or not measured:
        return []
    found = findings(run.manifest.machine, run.results)
    if not found:
        return [Text(nothing_found(run))]
    first, more = found[:MOST_FINDINGS], found[MOST_FINDINGS:]
    words = count_text(len(more), "more finding")
    folded = [Details([Findings(more, brief=True)], words)] if more else []
    return [Findings(first, brief=True), *folded]


def taruc_sections(run: Run) -> Iterator[Section]:
    """Yield a section for each micro-benchmark: its table and its charts."""
    suite = suite_of(run.manifest.machine, run.results)
    tables = {table.bench: table for table in suite_tables(suite)}
    charts = taruc_charts(run)
    for bench in Benchmark:
        mine = [chart for chart in charts if chart.section == bench]
        rows = _table(tables[bench], run.predicted) if bench in tables else ()
        main = _charts([chart for chart in mine if chart.main])
        rest = [chart for chart in mine if not chart.main]
        more = [Details(_charts(rest), count_text(len(rest), "more chart"))] if rest else []
        yield Section(bench, TITLES[bench], [*rows, *main, *more])


def _charts(charts: Sequence[Chart]) -> list[Block]:
    """Charts, and the notes of all of them, each once."""
    notes = list(dict.fromkeys(note for chart in charts for note in chart.notes))
    return [*charts, Bullets(notes, Style.QUIET)]


def _table(rows: SuiteTable, predicted: bool) -> list[Block]:
    word = "predicted" if predicted else "measured"
    columns = [Column(title[:1].upper() + title[1:]) for title in rows.columns]
    table = Table(f"{rows.title}, {word}", columns, [Group(rows.rows)], rows.notes)
    if len(rows.rows) <= _MOST_OPEN_ROWS:
        return [table]
    return [Details([table], f"Table of {count_text(len(rows.rows), 'row')}")]
