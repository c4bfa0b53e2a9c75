"""The document of a run of copies, and its page."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.document.blocks import (
    Banner,
    Block,
    Bullets,
    Code,
    Details,
    Document,
    Download,
    Drawing,
    Facts,
    Headline,
    Section,
    Text,
    Tone,
    charts_of,
)
from lanescope.document.chart import AnyChart
from lanescope.model.sweep import sweep_series
from lanescope.model.taruc import plain_results
from lanescope.report.conclusion import headline_rows, state_sentence
from lanescope.report.document_page import document_page
from lanescope.report.export import run_csv
from lanescope.report.format import count_text
from lanescope.report.machine_blocks import machine_blocks
from lanescope.report.open_points import open_points
from lanescope.report.outcome import Word, outcome
from lanescope.report.page_text import DEFINITIONS, method_bullets
from lanescope.report.path_rows import PathRow, swept_results
from lanescope.report.result_blocks import raw_table
from lanescope.report.run_blocks import (
    MOST_PATHS_BESIDE_CASES,
    diagnosis_section,
    result_sections,
)
from lanescope.report.run_charts import run_charts
from lanescope.report.taruc_blocks import taruc_findings, taruc_sections
from lanescope.report.topology_svg import topology_svg
from lanescope.report.unmeasured import unmeasured
from lanescope.run.run import Run
from lanescope.studies.registry import study_named

_TONES = {
    Word.MISSING: Tone.BAD,
    Word.SLOW: Tone.BAD,
    Word.PREDICTED: Tone.PREDICTED,
    Word.HEALTHY: Tone.GOOD,
}
#: Longer tables of raw numbers start folded.
_MOST_OPEN_ROWS = 40
#: More rows than this make a page of tens of megabytes.
_MOST_RAW_ROWS = 10_000
#: More GPUs or nodes than this make a picture that must not shrink to a phone's width.
_NARROW_PARTS = 3


def page_html(run: Run, *, strict: bool = False, static: bool = False) -> str:
    """Return the report of a run as one self-contained HTML page.

    Parameters
    ----------
    strict
        Whether what could not be measured counts; see `outcome`.
    static
        See `document_page`.
    """
    return document_page(run_document(run, strict=strict), static=static)


def run_plots(run: Run) -> list[AnyChart]:
    """Return all charts of a run's document."""
    return list(charts_of(run_document(run).sections))


def run_document(run: Run, *, strict: bool = False) -> Document:
    """Return all that is known of a run: what it comes to first, how it was timed last."""
    manifest, machine = run.manifest, run.manifest.machine
    study = study_named(manifest.verb)
    verb = manifest.verb.capitalize() if study is None else study.title
    rows = headline_rows(run)
    sections = (
        diagnosis_section(run),
        Section("findings", "Findings", taruc_findings(run)),
        Section("topology", "Topology", _topology(run)),
        *result_sections(run),
        Section("plots", "Plots", _charts(run, rows)),
        *taruc_sections(run),
        Section("machine", "Machine", machine_blocks(machine)),
        Section("raw", "Raw numbers, predicted" if run.predicted else "Raw numbers", _raw(run)),
        Section("method", "How each was timed", _methods(run)),
        Section("definitions", "What the numbers mean", [Facts(DEFINITIONS)]),
    )
    return Document(
        title=f"lanescope {manifest.verb}: {machine.name}{' (predicted)' if run.predicted else ''}",
        heading=f"{verb} of {machine.name}",
        started=manifest.started,
        facts=(f"lanescope {manifest.tool_version}", manifest.state),
        commands=(manifest.command,),
        headline=_headline(run, rows, strict),
        sections=sections,
        tool_version=manifest.tool_version,
        banners=_banners(run),
    )


def _banners(run: Run) -> list[Banner]:
    found = []
    if run.predicted:
        more = (
            "computed from the limits and latencies of the machine's description; every predicted "
            "number is an upper bound."
        )
        found.append(Banner("Predicted, not measured", more, Tone.PREDICTED))
    if (unfinished := state_sentence(run.manifest.state)) is not None:
        found.append(Banner(unfinished))
    return found


def _headline(run: Run, rows: Sequence[PathRow], strict: bool) -> Headline:
    """The outcome, and below it every path that asks for something to be done."""
    out = outcome(run, strict=strict)
    notes = [f"Note: {note}" for note in run.manifest.notes]
    notes += [f"Not measured: {line}" for line in unmeasured(run)]
    blocks = (Bullets(open_points(rows)), Bullets(notes))
    return Headline(str(out), _TONES.get(out.word, Tone.OPEN), blocks)


def _topology(run: Run) -> list[Block]:
    machine = run.manifest.machine
    wide = max(len(machine.gpus), len(machine.nodes)) > _NARROW_PARTS
    return [Drawing(topology_svg(machine), wide)]


def _charts(run: Run, rows: Sequence[PathRow]) -> list[AnyChart]:
    """The charts of paths; those of suites and of the run's study stand in their sections."""
    crowded = bool(run.manifest.cases) and len(rows) > MOST_PATHS_BESIDE_CASES
    series = sweep_series(swept_results(plain_results(run.results)))
    return run_charts(() if crowded else rows, series)


def _raw(run: Run) -> list[Block]:
    if not run.results:
        return []
    count = sum(max(len(r.copies), 1) for r in run.results)
    rows = count_text(count, "row")
    if count > _MOST_RAW_ROWS:
        command = Code("lanescope report RUN --csv")
        return [Text((f"{rows}, too many for a page: ", command, " prints them."))]
    name = f"lanescope-{run.manifest.verb}.csv"
    table = Details([raw_table(run.results)], rows, opened=count <= _MOST_OPEN_ROWS)
    return [Download(name, run_csv(run), "with every column"), table]


def _methods(run: Run) -> list[Block]:
    methods = method_bullets(run.results)
    return [Details([methods], count_text(len(methods.items), "method"))] if methods.items else []
