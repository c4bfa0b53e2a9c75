"""What notebooks show: the tables and the plots of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lanescope.calls import checked
from lanescope.document.blocks import Block
from lanescope.document.contents import AnyChart
from lanescope.kinds import StrPath
from lanescope.report.blocks_html import blocks_html
from lanescope.report.chart_files import chart_picture, write_charts
from lanescope.report.format import gbs_text, seconds_text
from lanescope.report.html import text
from lanescope.results import Result
from lanescope.store.folder import state_sentence
from lanescope.store.run import Run
from lanescope.studies.runs.document import diagnosis_section, result_sections
from lanescope.studies.runs.outcome import outcome
from lanescope.studies.runs.tables import latency_rows, latency_table, paths_table
from lanescope.studies.runs.values import PathRow, bandwidth_rows, path_rows, source_word

#: Of one result at a prompt.
_MOST_PATHS = 3

#: Confined to the class, because a notebook shares one document among all cells.
#: Colours are mixed from the notebook's own text colour, so that they suit its theme.
_STYLE = """<style>
.lanescope table{border-collapse:collapse;font-size:13px}
.lanescope caption{text-align:left;opacity:.75;caption-side:top}
.lanescope th,.lanescope td{text-align:left;vertical-align:top;padding:4px 8px}
.lanescope .number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.lanescope .badge{font-weight:600;white-space:nowrap}
.lanescope .good{color:#1b9e77}.lanescope .bad{color:#d55e00}
.lanescope .wrong{color:#b5489a}.lanescope .predicted{color:#4a9ad4}
.lanescope .remedy{display:block;opacity:.75}.lanescope .meter{display:none}
.lanescope .scroll{overflow-x:auto}
</style>"""


def results_html(results: Iterable[Result]) -> str:
    """Return the verdict table of some results as an HTML fragment."""
    results = list(results)
    rows, latencies = bandwidth_rows(results), latency_rows(results)
    tables = [paths_table(rows)] if rows else []
    tables += [latency_table(latencies)] if latencies else []
    return _wrapped(blocks_html(tables) or "<p>no results</p>")


def result_text(result: Result) -> str:
    """Return what a prompt shows of a result: its title, and its first paths with their verdict."""
    rows = path_rows([result])
    about = result.experiment.title or result.experiment.name
    lines = [f"<Result: {about}, {source_word([result])}>", *map(_path_text, rows[:_MOST_PATHS])]
    more = len(rows) - _MOST_PATHS
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


def _path_text(row: PathRow) -> str:
    if row.measured is None:
        return f"{row.label}: {row.verdict.status}: {row.verdict.reason}"
    if row.gbs is None:
        value = seconds_text(row.measured.statistics.median_seconds)
    else:
        value = f"{gbs_text(row.gbs)} GB/s"
    return f"{row.label}: {value}, {row.verdict.status}"


def run_html(run: Run) -> str:
    """Return a run as an HTML fragment: its conclusion, what is wrong, and its results."""
    manifest = run.manifest
    state = state_sentence(manifest.state)
    parts = [
        f"<p><strong>{text(manifest.verb.capitalize())} of {text(manifest.machine.name)}</strong>"
        f"{', predicted, not measured' if run.predicted else ''}: {text(outcome(run))}</p>",
        f"<p>{text(state)}</p>" if state else "",
        blocks_html([diagnosis_section(run), *result_sections(run)]),
    ]
    return _wrapped("".join(parts))


class Plots:
    """Charts that a notebook shows, and that can be written as files."""

    def __init__(self, charts: Sequence[AnyChart]) -> None:
        self.charts = tuple(charts)

    def __repr__(self) -> str:
        return f"<Plots: {', '.join(chart.key for chart in self.charts) or 'none'}>"

    def _repr_html_(self) -> str:
        return _wrapped("".join(map(chart_picture, self.charts)) or "<p>nothing to plot</p>")

    @checked
    def save(self, folder: StrPath) -> list[Path]:
        """Write each chart as PNG and SVG, and return the files.

        Raises
        ------
        InputError
            If the folder cannot be written to, or vl-convert-python is not installed.
        """
        return write_charts(self.charts, Path(folder))


def blocks_fragment(blocks: Iterable[Block]) -> str:
    """Return blocks as an HTML fragment."""
    return _wrapped(blocks_html(blocks))


def _wrapped(html: str) -> str:
    return f'<div class="lanescope">{_STYLE}{html}</div>'
