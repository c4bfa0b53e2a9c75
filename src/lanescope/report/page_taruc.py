"""A suite on the page: findings, and a section for each micro-benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.document.chart import Chart
from lanescope.document.finding import Finding
from lanescope.experiment.taruc.benchmark import TITLES, Benchmark
from lanescope.model.taruc import suite_of
from lanescope.model.taruc.findings import findings
from lanescope.report.format import count_text
from lanescope.report.html import Column, Group, Markup, items, section, table, text
from lanescope.report.page_plots import plots_html
from lanescope.report.taruc_charts import taruc_charts
from lanescope.report.taruc_rows import SuiteTable, suite_tables
from lanescope.report.taruc_text import MOST_FINDINGS, nothing_found
from lanescope.run.run import Run

#: Longer tables start folded.
_MOST_OPEN_ROWS = 12
_MOST_EVIDENCE = 6


def taruc_page(run: Run, first_chart: int) -> tuple[str, str, list[Chart]]:
    """Return a suite's findings, its sections, and the charts that they show.

    All three are empty for a run without micro-benchmarks.

    Parameters
    ----------
    first_chart
        Number of its first chart among all charts of the page.
    """
    tables = {t.bench: t for t in suite_tables(suite_of(run.manifest.machine, run.results))}
    charts = taruc_charts(run)
    sections: list[str] = []
    placed: list[Chart] = []
    for bench in Benchmark:
        mine = sorted((c for c in charts if c.section == bench), key=lambda c: not c.main)
        rows = _table(tables.get(bench), run.predicted)
        sections.append(_section(bench, rows, mine, first_chart + len(placed)))
        placed += mine
    told = bool(tables) and not run.predicted
    found = findings_section(findings(run.manifest.machine, run.results), run) if told else ""
    return found, "".join(sections), placed


def findings_section(found: Sequence[Finding], run: Run) -> str:
    """Return the first findings as a list, the others folded."""
    if not found:
        return f"<p>{text(nothing_found(run))}</p>"
    first, more = found[:MOST_FINDINGS], found[MOST_FINDINGS:]
    listed = items(map(_finding, first))
    if not more:
        return listed
    words = count_text(len(more), "more finding")
    return f"{listed}<details><summary>{words}</summary>{items(map(_finding, more))}</details>"


def _finding(found: Finding) -> Markup:
    names = ", ".join(found.evidence[:_MOST_EVIDENCE])
    if len(found.evidence) > _MOST_EVIDENCE:
        names += f" and {len(found.evidence) - _MOST_EVIDENCE} more"
    return Markup(
        f"{text(found.sentence)}<details><summary>Evidence</summary>Seen in "
        f"<code>{text(names)}</code>. To measure it again: <code>{text(found.confirm)}</code>"
        "</details>"
    )


def _section(bench: Benchmark, rows: str, charts: Sequence[Chart], first: int) -> str:
    """The main charts in the open, the others and a long table folded."""
    main = sum(chart.main for chart in charts)
    shown = plots_html(charts[:main], first) + _notes(charts[:main])
    rest = ""
    if len(charts) > main:
        words = count_text(len(charts) - main, "more chart")
        plots = plots_html(charts[main:], first + main) + _notes(charts[main:])
        rest = f"<details><summary>{words}</summary>{plots}</details>"
    return section(bench, TITLES[bench], rows, shown, rest)


def _notes(charts: Sequence[Chart]) -> str:
    """The notes of some charts, each once."""
    notes = list(dict.fromkeys(note for chart in charts for note in chart.notes))
    return f'<div class="quiet">{items(notes)}</div>' if notes else ""


def _table(rows: SuiteTable | None, predicted: bool) -> str:
    if rows is None:
        return ""
    word = "predicted" if predicted else "measured"
    columns = [Column(title[:1].upper() + title[1:]) for title in rows.columns]
    made = table(columns, [Group(rows.rows)], f"{rows.title}, {word}")
    note = f'<div class="quiet">{items(rows.notes)}</div>' if rows.notes else ""
    if len(rows.rows) <= _MOST_OPEN_ROWS:
        return made + note
    words = f"Table of {count_text(len(rows.rows), 'row')}"
    return f"<details><summary>{words}</summary>{made}{note}</details>"
