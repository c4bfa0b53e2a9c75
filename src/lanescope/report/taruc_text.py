"""What a suite shows on a terminal: compact tables, and findings in words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from lanescope.document.finding import Finding
from lanescope.measurement.statistics import MIN_SAMPLES
from lanescope.model.taruc import is_suite, suite_of
from lanescope.model.taruc.findings import findings
from lanescope.report.format import count_text
from lanescope.report.taruc_rows import SuiteTable, suite_tables
from lanescope.report.unmeasured import unmeasured
from lanescope.run.run import Run

#: So many findings are on the first screen.
MOST_FINDINGS = 12
_MOST_ROWS = 24
_MOST_ROWS_OF_MANY = 8
_MOST_NAME = 72


def taruc_text(run: Run) -> Text:
    """Return the tables and findings of a run's micro-benchmarks; empty without any."""
    suite = suite_of(run.manifest.machine, run.results)
    tables = suite_tables(suite)
    most = _MOST_ROWS if len(tables) == 1 else _MOST_ROWS_OF_MANY
    parts = [_table_text(table, most) for table in tables]
    if missing := unmeasured(run):
        parts.append("\n".join(["Not measured", *(f"- {line}" for line in missing)]))
    found = findings(run.manifest.machine, run.results)
    if found:
        parts.append(_findings_text(found))
    elif parts and not suite.predicted:
        parts.append(nothing_found(run))
    return Text("\n\n".join(parts))


def nothing_found(run: Run) -> str:
    """Return what is said instead of findings."""
    copies = [copy for result in run.results for copy in result.copies]
    if any(copy.statistics.half_width is not None for copy in copies):
        why = "Nothing differs by more than 3 % and by more than both 95 % intervals."
    else:
        why = f"With fewer than {MIN_SAMPLES} samples of a point nothing can be told apart."
    return f"Findings: none. {why}"


def taruc_conclusion(run: Run) -> str:
    """Return how much of the micro-benchmarks was measured, in a sentence; empty without any."""
    results = [r for r in run.results if is_suite(r)]
    if not results:
        return ""
    measured = sum(bool(r.copies) for r in results)
    missing = len(results) - measured
    found = len(findings(run.manifest.machine, run.results))
    word = "predicted, not measured" if run.predicted else "measured"
    clauses = [f"{count_text(measured, 'experiment')} of the micro-benchmarks {word}"]
    if missing:
        clauses.append(f"{missing} {'neither' if run.predicted else 'not measured'}")
    if not run.predicted:
        clauses.append(count_text(found, "finding") if found else "no findings")
    return "; ".join(clauses) + "."


def _findings_text(found: Sequence[Finding]) -> str:
    lines = ["Findings", *(f"- {one.sentence}" for one in found[:MOST_FINDINGS])]
    if len(found) > MOST_FINDINGS:
        more = count_text(len(found) - MOST_FINDINGS, "more finding")
        lines.append(f"{more} on the page and in --json")
    return "\n".join(lines)


def _table_text(table: SuiteTable, most: int) -> str:
    shown = [table.columns, *table.rows[:most]]
    cells = [[_cut(cell) for cell in row] for row in shown]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    lines = [table.title]
    for row in cells:
        first, *rest = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([first, *rest]).rstrip())
    if len(table.rows) > most:
        lines.append(f"{count_text(len(table.rows) - most, 'more row')} on the page")
    return "\n".join([*lines, *table.notes])


def _cut(cell: str) -> str:
    return cell if len(cell) <= _MOST_NAME else f"{cell[: _MOST_NAME - 1]}…"
