"""One HTML page that holds everything of a run and asks for nothing from outside."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from importlib.resources import files
from urllib.parse import quote

from lanescope.diagnosis import diagnose
from lanescope.experiment.taruc.benchmark import TITLES
from lanescope.measurement.result import Status
from lanescope.model.small import small_maps
from lanescope.model.sms import sm_curves
from lanescope.model.sweep import sweep_series
from lanescope.model.taruc import is_suite
from lanescope.report.conclusion import conclusion, headline_rows, state_sentence
from lanescope.report.format import count_text
from lanescope.report.html import items, section, text
from lanescope.report.latency_rows import latency_rows
from lanescope.report.page_cases import cases_section
from lanescope.report.page_diagnoses import diagnoses_section
from lanescope.report.page_latency import latency_table
from lanescope.report.page_machine import links_table, machine_notes, machine_summary
from lanescope.report.page_plots import plots_html, plots_script, run_figures
from lanescope.report.page_points import open_points
from lanescope.report.page_small import small_section
from lanescope.report.page_sms import sms_figures, sms_section
from lanescope.report.page_tables import raw_table, sweep_table, verdict_table
from lanescope.report.page_taruc import taruc_page
from lanescope.report.page_text import definition_list, method_list
from lanescope.report.path_rows import PathRow, swept_results
from lanescope.report.plot_small import small_figures
from lanescope.report.set_total import total_sentences
from lanescope.report.topology_svg import topology_svg
from lanescope.report.unmeasured import unmeasured
from lanescope.run.rows import rows_of
from lanescope.run.run import Manifest, Run, State

#: The page may use what is inside it and nothing else; browsers see to that.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
#: Longer tables of raw numbers start folded.
_MOST_OPEN_ROWS = 40
#: More paths than this, all in the cells of cases, start folded and are not plotted: the
#: plots of a thousand paths keep a browser busy for minutes.
_MOST_PATHS_BESIDE_CASES = 100
#: More GPUs or nodes than this make a picture that must not shrink to a phone's width.
_NARROW_PARTS = 3


def page_html(run: Run) -> str:
    """Return the report of a run as one self-contained HTML page.

    Works offline; without plotly installed it has all tables and the picture,
    but no plots.
    """
    manifest, machine = run.manifest, run.manifest.machine
    rows = headline_rows(run)
    paths = [r for r in rows if not r.is_latency and not is_suite(r.result)]
    # The micro-benchmarks of a suite have sections of their own.
    plain = [r for r in run.results if not is_suite(r)]
    series = sweep_series(swept_results(plain))
    maps = small_maps(run.results)
    curves = sm_curves(run.results)
    crowded = bool(manifest.cases) and len(rows) > _MOST_PATHS_BESIDE_CASES
    figures = (
        run_figures(() if crowded else rows, series) + small_figures(maps) + sms_figures(curves)
    )
    found, sections, suite_figures = taruc_page(run, len(figures))
    wide = max(len(machine.gpus), len(machine.nodes)) > _NARROW_PARTS
    picture = f'<div class="picture{" wide" if wide else ""}">{topology_svg(machine)}</div>'
    word = "Predicted" if run.predicted else "Measured"
    body = (
        section("diagnoses", "Diagnoses", diagnoses_section(diagnose(machine, plain))),
        section("findings", "Findings", found),
        section("topology", "Topology", picture),
        section("cases", "Cases", cases_section(manifest.cases, run.results)),
        section("verdicts", "Paths and verdicts", _verdicts(paths, folded=crowded), _totals(run)),
        section("latencies", "Latencies", latency_table(latency_rows(plain))),
        section("sweep", f"{word} curves", sweep_table(series) if series else ""),
        section("sms", "Fewest SMs", sms_section(curves)),
        section("small", "Maps of small copies", small_section(maps)),
        section("plots", "Plots", plots_html(figures)),
        sections,
        _machine_section(run),
        _raw_section(run),
        section("method", "How each was timed", method_list(run.results)),
        section("definitions", "What the numbers mean", definition_list()),
    )
    return (
        f"<!DOCTYPE html>\n{_head(manifest, run.predicted)}<body>"
        f"{_header(run)}<main>{_conclusion(run, rows)}{''.join(body)}</main>"
        f"{_footer(manifest)}{plots_script(figures + suite_figures)}</body></html>\n"
    )


def _totals(run: Run) -> str:
    """What a set of copies carries together, where such a set is the run."""
    return items(total_sentences(run.results)) if run.manifest.verb == "copy" else ""


def _head(manifest: Manifest, predicted: bool) -> str:
    style = files("lanescope.report").joinpath("style.css").read_text(encoding="utf-8")
    source = " (predicted)" if predicted else ""
    title = f"lanescope {manifest.verb}: {manifest.machine.name}{source}"
    return (
        '<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{style}</style></head>"
    )


def _heading(verb: str) -> str:
    words: dict[str, str] = {
        "small": "Small copies",
        "sms": "Fewest SMs",
        "taruc": "Topology, NUMA and contention",
        **{str(benchmark): title for benchmark, title in TITLES.items()},
    }
    return words.get(verb, verb.capitalize())


def _header(run: Run) -> str:
    manifest = run.manifest
    facts = (
        f'<time datetime="{text(manifest.started)}">{text(_when(manifest.started))}</time>',
        f"lanescope {text(manifest.tool_version)}",
        text(manifest.state),
        f"<code>{text(manifest.command)}</code>",
    )
    spans = "".join(f"<span>{fact}</span> " for fact in facts[:3])
    banners = ""
    if run.predicted:
        banners += (
            '<p class="banner guess" role="note">Predicted, not measured <span>– computed from '
            "the limits and latencies of the machine's description; every predicted number is an "
            "upper bound.</span></p>"
        )
    if sentence := state_sentence(manifest.state):
        banners += f'<p class="banner" role="alert">{text(sentence)}</p>'
    return (
        f"<header><h1>{text(_heading(manifest.verb))} of {text(manifest.machine.name)}</h1>"
        f'<p class="facts">{spans}<br>{facts[3]}</p>{banners}</header>'
    )


def _conclusion(run: Run, rows: Sequence[PathRow]) -> str:
    """The sentence, and below it every path that asks for something to be done."""
    statuses = {r.verdict.status for r in rows}
    if any(r.verdict.failed for r in rows):
        kind = "bad"
    elif run.predicted:
        kind = "guess"
    else:
        kind = "good" if Status.HEALTHY in statuses else "open"
    if run.manifest.state is not State.COMPLETE and kind == "good":
        kind = "open"
    notes = [f"Note: {note}" for note in run.manifest.notes]
    notes += [f"Not measured: {line}" for line in unmeasured(run)]
    return (
        f'<div class="conclusion {kind}"><p>{text(conclusion(run))}</p>{open_points(rows)}'
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
    return section(
        "raw",
        "Raw numbers, predicted" if run.predicted else "Raw numbers",
        f'<p class="no-print"><a download="lanescope-{text(run.manifest.verb)}.csv" '
        f'href="{_csv_uri(run)}">Download CSV</a> <span class="quiet">with every column'
        "</span></p>",
        f"<details{state}><summary>{count_text(count, 'row')}</summary>"
        f"{raw_table(run.results)}</details>",
    )


def _csv_uri(run: Run) -> str:
    rows = rows_of(run.results)
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]))
    writer.writeheader()
    for row in rows:
        writer.writerow(row | {"cpus": " ".join(map(str, row["cpus"]))})
    return "data:text/csv;charset=utf-8," + quote(out.getvalue())


def _footer(manifest: Manifest) -> str:
    return (
        f"<footer>Made by lanescope {text(manifest.tool_version)}; this file holds all of its "
        "data and loads nothing from the network.</footer>"
    )


def _when(started: str) -> str:
    """ISO 8601 as people read it: a space for the T, no fraction of a second."""
    day, _, clock = started.partition("T")
    time, zone = clock[:8], clock[8:]
    digits = zone.lstrip(".0123456789")
    zone = {"+00:00": "UTC", "Z": "UTC"}.get(digits, digits)
    return f"{day} {time} {zone}".strip()
