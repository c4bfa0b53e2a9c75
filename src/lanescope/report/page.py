"""One HTML page that holds everything of a run and asks for nothing from outside."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from urllib.parse import quote

from lanescope.document.blocks import Bullets, Section
from lanescope.model.sweep import sweep_series
from lanescope.model.taruc import plain_results
from lanescope.report.blocks_html import blocks_html, charts_of
from lanescope.report.conclusion import headline_rows, state_sentence
from lanescope.report.export import run_csv
from lanescope.report.format import count_text
from lanescope.report.html import section, text
from lanescope.report.machine_blocks import machine_blocks
from lanescope.report.open_points import open_points
from lanescope.report.outcome import Word, outcome
from lanescope.report.page_frame import (
    alert,
    facts_line,
    page_footer,
    page_frame,
    time_element,
)
from lanescope.report.page_plots import plots_html, plots_script, run_charts
from lanescope.report.page_taruc import taruc_page
from lanescope.report.page_text import definition_list, method_list
from lanescope.report.path_rows import PathRow, swept_results
from lanescope.report.result_blocks import raw_table
from lanescope.report.run_blocks import (
    MOST_PATHS_BESIDE_CASES,
    diagnosis_section,
    result_sections,
)
from lanescope.report.small_chart import small_chart
from lanescope.report.topology_svg import topology_svg
from lanescope.report.unmeasured import unmeasured
from lanescope.run.run import Run
from lanescope.studies.registry import study_named
from lanescope.studies.small_maps import small_maps

#: Classes of the banner.
_KINDS = {
    Word.MISSING: "bad",
    Word.SLOW: "bad",
    Word.PREDICTED: "guess",
    Word.HEALTHY: "good",
}
#: Longer tables of raw numbers start folded.
_MOST_OPEN_ROWS = 40
#: More rows than this make a page of tens of megabytes.
_MOST_RAW_ROWS = 10_000
#: More of the CSV than this is compressed.
_MOST_PLAIN_BYTES = 256 * 1024
#: More GPUs or nodes than this make a picture that must not shrink to a phone's width.
_NARROW_PARTS = 3


def page_html(run: Run, *, strict: bool = False) -> str:
    """Return the report of a run as one self-contained HTML page.

    Works offline; without vl-convert installed it has all tables and the picture,
    but no plots.

    Parameters
    ----------
    strict
        Whether what could not be measured counts; see `outcome`.
    """
    manifest, machine = run.manifest, run.manifest.machine
    rows = headline_rows(run)
    sections = result_sections(run)
    crowded = bool(manifest.cases) and len(rows) > MOST_PATHS_BESIDE_CASES
    series = sweep_series(swept_results(plain_results(run.results)))
    charts = run_charts(() if crowded else rows, series)
    charts += [*map(small_chart, small_maps(run.results)), *charts_of(sections)]
    found, suite_sections, suite_charts = taruc_page(run, len(charts))
    wide = max(len(machine.gpus), len(machine.nodes)) > _NARROW_PARTS
    picture = f'<div class="picture{" wide" if wide else ""}">{topology_svg(machine)}</div>'
    body = (
        blocks_html([diagnosis_section(run)]),
        section("findings", "Findings", found),
        section("topology", "Topology", picture),
        blocks_html(sections),
        section("plots", "Plots", plots_html(charts)),
        suite_sections,
        blocks_html([Section("machine", "Machine", machine_blocks(machine))]),
        _raw_section(run),
        section("method", "How each was timed", method_list(run.results)),
        section("definitions", "What the numbers mean", definition_list()),
    )
    return page_frame(
        f"lanescope {manifest.verb}: {machine.name}{' (predicted)' if run.predicted else ''}",
        f"{_header(run)}<main>{_conclusion(run, rows, strict)}{''.join(body)}</main>"
        f"{page_footer(manifest.tool_version)}{plots_script([*charts, *suite_charts])}",
    )


def _heading(verb: str) -> str:
    study = study_named(verb)
    return verb.capitalize() if study is None else study.title


def _header(run: Run) -> str:
    manifest = run.manifest
    facts = facts_line(
        time_element(manifest.started),
        f"lanescope {text(manifest.tool_version)}",
        text(manifest.state),
    )
    banners = ""
    if run.predicted:
        banners += (
            '<p class="banner guess" role="note">Predicted, not measured <span>– computed from '
            "the limits and latencies of the machine's description; every predicted number is an "
            "upper bound.</span></p>"
        )
    banners += alert(state_sentence(manifest.state))
    return (
        f"<header><h1>{text(_heading(manifest.verb))} of {text(manifest.machine.name)}</h1>"
        f'<p class="facts">{facts}<br><code>{text(manifest.command)}</code></p>{banners}</header>'
    )


def _conclusion(run: Run, rows: Sequence[PathRow], strict: bool) -> str:
    """The outcome, and below it every path that asks for something to be done."""
    out = outcome(run, strict=strict)
    kind = _KINDS.get(out.word, "open")
    points = open_points(rows)
    notes = [f"Note: {note}" for note in run.manifest.notes]
    notes += [f"Not measured: {line}" for line in unmeasured(run)]
    return (
        f'<div class="conclusion {kind}"><p>{text(out)}</p>'
        f"{blocks_html([Bullets(points), Bullets(notes)])}</div>"
    )


def _raw_section(run: Run) -> str:
    if not run.results:
        return ""
    count = sum(max(len(r.copies), 1) for r in run.results)
    state = " open" if count <= _MOST_OPEN_ROWS else ""
    title = "Raw numbers, predicted" if run.predicted else "Raw numbers"
    if count > _MOST_RAW_ROWS:
        words = f"{count_text(count, 'row')}, too many for a page:"
        told = f"<p>{text(words)} <code>lanescope report RUN --csv</code> prints them.</p>"
        return section("raw", title, told)
    return section(
        "raw",
        title,
        f'<p class="no-print">{_csv_link(run)} <span class="quiet">with every column</span></p>',
        f"<details{state}><summary>{count_text(count, 'row')}</summary>"
        f"{blocks_html([raw_table(run.results)])}</details>",
    )


def _csv_link(run: Run) -> str:
    """A link to every number; many are compressed, so that the page does not hold them twice."""
    rows, name = run_csv(run), f"lanescope-{run.manifest.verb}.csv"
    words, uri = "Download CSV", "data:text/csv;charset=utf-8," + quote(rows)
    if len(uri) > _MOST_PLAIN_BYTES:
        packed = base64.b64encode(gzip.compress(rows.encode(), mtime=0)).decode()
        words, uri, name = "Download CSV.gz", f"data:application/gzip;base64,{packed}", f"{name}.gz"
    return f'<a download="{text(name)}" href="{uri}">{words}</a>'
