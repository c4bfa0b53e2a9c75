"""One HTML page that holds everything of a run and asks for nothing from outside."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from lanescope.diagnosis import diagnose
from lanescope.experiment.taruc.benchmark import TITLES
from lanescope.model.small import small_maps
from lanescope.model.sweep import sweep_series
from lanescope.model.taruc import is_suite, plain_results
from lanescope.report.blocks_html import blocks_html, charts_of
from lanescope.report.chart_plotly import chart_figure
from lanescope.report.conclusion import headline_rows, state_sentence
from lanescope.report.format import count_text
from lanescope.report.html import items, section, text
from lanescope.report.latency_rows import latency_rows
from lanescope.report.outcome import Word, outcome
from lanescope.report.page_cases import cases_section
from lanescope.report.page_diagnoses import diagnoses_section
from lanescope.report.page_frame import (
    alert,
    facts_line,
    page_footer,
    page_frame,
    time_element,
)
from lanescope.report.page_latency import latency_table
from lanescope.report.page_machine import links_table, machine_notes, machine_summary
from lanescope.report.page_plots import plots_html, plots_script, run_figures
from lanescope.report.page_points import open_points
from lanescope.report.page_small import small_section
from lanescope.report.page_tables import raw_table, sweep_table, verdict_table
from lanescope.report.page_taruc import taruc_page
from lanescope.report.page_text import definition_list, method_list
from lanescope.report.path_rows import PathRow, swept_results
from lanescope.report.plot_small import small_figures
from lanescope.report.set_total import total_sentences
from lanescope.report.topology_svg import topology_svg
from lanescope.report.unmeasured import unmeasured
from lanescope.run.export import run_csv
from lanescope.run.run import Run
from lanescope.studies.registry import study_named

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
#: More paths than this, all in the cells of cases, start folded and are not plotted: the
#: plots of a thousand paths keep a browser busy for minutes.
_MOST_PATHS_BESIDE_CASES = 100
#: More GPUs or nodes than this make a picture that must not shrink to a phone's width.
_NARROW_PARTS = 3


def page_html(run: Run, *, strict: bool = False) -> str:
    """Return the report of a run as one self-contained HTML page.

    Works offline; without plotly installed it has all tables and the picture,
    but no plots.

    Parameters
    ----------
    strict
        Whether what could not be measured counts; see `outcome`.
    """
    manifest, machine = run.manifest, run.manifest.machine
    rows = headline_rows(run)
    paths = [r for r in rows if not r.is_latency and not is_suite(r.result)]
    # The micro-benchmarks of a suite have sections of their own.
    plain = plain_results(run.results)
    series = sweep_series(swept_results(plain))
    maps = small_maps(run.results)
    study = study_named(manifest.verb)
    blocks = study.report(run) if study is not None else ()
    crowded = bool(manifest.cases) and len(rows) > _MOST_PATHS_BESIDE_CASES
    figures = run_figures(() if crowded else rows, series) + small_figures(maps)
    figures += [chart_figure(chart) for chart in charts_of(blocks)]
    found, sections, suite_figures = taruc_page(run, len(figures))
    wide = max(len(machine.gpus), len(machine.nodes)) > _NARROW_PARTS
    picture = f'<div class="picture{" wide" if wide else ""}">{topology_svg(machine)}</div>'
    word = "Predicted" if run.predicted else "Measured"
    body = (
        section("diagnoses", "Diagnoses", diagnoses_section(diagnose(machine, run.results))),
        section("findings", "Findings", found),
        section("topology", "Topology", picture),
        section("cases", "Cases", cases_section(manifest.cases, run.results)),
        section("verdicts", "Paths and verdicts", _verdicts(paths, folded=crowded), _totals(run)),
        section("latencies", "Latencies", latency_table(latency_rows(plain))),
        section("sweep", f"{word} curves", sweep_table(series) if series else ""),
        blocks_html(blocks),
        section("small", "Maps of small copies", small_section(maps)),
        section("plots", "Plots", plots_html(figures)),
        sections,
        _machine_section(run),
        _raw_section(run),
        section("method", "How each was timed", method_list(run.results)),
        section("definitions", "What the numbers mean", definition_list()),
    )
    return page_frame(
        f"lanescope {manifest.verb}: {machine.name}{' (predicted)' if run.predicted else ''}",
        f"{_header(run)}<main>{_conclusion(run, rows, strict)}{''.join(body)}</main>"
        f"{page_footer(manifest.tool_version)}{plots_script(figures + suite_figures)}",
    )


def _totals(run: Run) -> str:
    """What a set of copies carries together, where such a set is the run."""
    return items(total_sentences(run.results)) if run.manifest.verb == "copy" else ""


def _heading(verb: str) -> str:
    words: dict[str, str] = {
        "small": "Small copies",
        "taruc": "Topology, NUMA and contention",
        **{str(benchmark): title for benchmark, title in TITLES.items()},
    }
    study = study_named(verb)
    return study.title if study is not None else words.get(verb, verb.capitalize())


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
    notes = [f"Note: {note}" for note in run.manifest.notes]
    notes += [f"Not measured: {line}" for line in unmeasured(run)]
    return (
        f'<div class="conclusion {kind}"><p>{text(out)}</p>{open_points(rows)}'
        f"{items(notes) if notes else ''}</div>"
    )


def _verdicts(paths: Sequence[PathRow], *, folded: bool) -> str:
    if not paths:
        return ""
    shown = verdict_table(paths)
    if not folded:
        return shown
    return f"<details><summary>{count_text(len(paths), 'path')}</summary>{shown}</details>"


def _machine_section(run: Run) -> str:
    machine = run.manifest.machine
    links, notes = links_table(machine), machine_notes(machine)
    return section(
        "machine",
        "Machine",
        "<p>Described in a file, not measured here.</p>" if machine.described else "",
        machine_summary(machine),
        f"<h3>Links</h3>{links}" if links else "",
        f"<h3>What is not known, and why</h3>{notes}" if notes else "",
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
        f'<p class="no-print"><a download="lanescope-{text(run.manifest.verb)}.csv" '
        f'href="{_csv_uri(run)}">Download CSV</a> <span class="quiet">with every column'
        "</span></p>",
        f"<details{state}><summary>{count_text(count, 'row')}</summary>"
        f"{raw_table(run.results)}</details>",
    )


def _csv_uri(run: Run) -> str:
    return "data:text/csv;charset=utf-8," + quote(run_csv(run))
