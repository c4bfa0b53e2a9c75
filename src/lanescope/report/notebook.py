"""Small tables for notebooks; the same table code as the page."""

from __future__ import annotations

from collections.abc import Iterable

from lanescope.diagnosis import diagnose
from lanescope.measurement.result import Result
from lanescope.model.small import small_maps
from lanescope.model.sweep import sweep_series
from lanescope.model.taruc import is_suite, plain_results
from lanescope.report.conclusion import headline_rows, state_sentence
from lanescope.report.html import text
from lanescope.report.latency_rows import latency_rows
from lanescope.report.outcome import outcome
from lanescope.report.page_cases import cases_section
from lanescope.report.page_diagnoses import diagnoses_section
from lanescope.report.page_latency import latency_table
from lanescope.report.page_small import small_section
from lanescope.report.page_tables import sweep_table, verdict_table
from lanescope.report.path_rows import bandwidth_rows, swept_results
from lanescope.run.run import Run

#: Confined to the class, because a notebook shares one document among all cells.
#: Colours are mixed from the notebook's own text colour, so that they suit its theme.
_STYLE = """<style>
.lanescope table{border-collapse:collapse;font-size:13px}
.lanescope caption{text-align:left;opacity:.75;caption-side:top}
.lanescope th,.lanescope td{text-align:left;vertical-align:top;padding:4px 8px}
.lanescope .number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.lanescope .badge{font-weight:600;white-space:nowrap}
.lanescope .healthy{color:#1b9e77}.lanescope .slow{color:#d55e00}
.lanescope .impossible{color:#b5489a}.lanescope .predicted{color:#4a9ad4}
.lanescope .remedy{display:block;opacity:.75}.lanescope .meter{display:none}
.lanescope .scroll{overflow-x:auto}
</style>"""


def results_html(results: Iterable[Result]) -> str:
    """Return the verdict table of some results as an HTML fragment."""
    results = list(results)
    rows = bandwidth_rows(results)
    tables = (verdict_table(rows) if rows else "") + latency_table(latency_rows(results))
    return _wrapped(tables or "<p>no results</p>")


def run_html(run: Run) -> str:
    """Return a run as an HTML fragment: its conclusion, its paths and its curves."""
    manifest = run.manifest
    rows = [r for r in headline_rows(run) if not r.is_latency and not is_suite(r.result)]
    plain = plain_results(run.results)
    series = sweep_series(swept_results(plain))
    state = state_sentence(manifest.state)
    parts = [
        f"<p><strong>{text(manifest.verb.capitalize())} of {text(manifest.machine.name)}</strong>"
        f"{', predicted, not measured' if run.predicted else ''}: {text(outcome(run))}</p>",
        f"<p>{text(state)}</p>" if state else "",
        diagnoses_section(diagnose(manifest.machine, run.results)),
        cases_section(manifest.cases, run.results),
        verdict_table(rows) if rows and not manifest.cases else "",
        latency_table(latency_rows(plain)),
        sweep_table(series) if series else "",
        small_section(small_maps(run.results)),
    ]
    return _wrapped("".join(parts))


def _wrapped(html: str) -> str:
    return f'<div class="lanescope">{_STYLE}{html}</div>'
