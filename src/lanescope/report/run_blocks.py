"""What every report of a run shows of its results, as sections."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.diagnosis import diagnose
from lanescope.document.blocks import Block, Bullets, Details, Section
from lanescope.model.sweep import sweep_series
from lanescope.model.taruc import is_suite, plain_results
from lanescope.report.case_blocks import case_blocks
from lanescope.report.conclusion import headline_rows
from lanescope.report.finding_blocks import finding_blocks
from lanescope.report.format import count_text
from lanescope.report.latency_rows import latency_rows
from lanescope.report.path_rows import bandwidth_rows, swept_results
from lanescope.report.result_blocks import latency_table, paths_table, sweep_table
from lanescope.report.set_total import total_sentences
from lanescope.run.run import Run
from lanescope.studies.registry import study_named

#: More paths than this, all in the cells of cases, start folded and are not plotted: the
#: plots of a thousand paths keep a browser busy for minutes.
MOST_PATHS_BESIDE_CASES = 100


def diagnosis_section(run: Run) -> Section:
    """Return what is wrong with the machine, from all results."""
    found = diagnose(run.manifest.machine, run.results)
    return Section("diagnoses", "Diagnoses", finding_blocks(found))


def result_sections(run: Run, *, mean: bool = False, verbose: bool = False) -> list[Section]:
    """Return the results of a run; sections without any hold no blocks.

    Parameters
    ----------
    mean
        Matrices of cases hold means and not medians.
    verbose
        Show every copy behind the matrices, those that interfere, too.
    """
    plain = plain_results(run.results)
    series = sweep_series(swept_results(plain))
    latencies = latency_rows(plain)
    study = study_named(run.manifest.verb)
    word = "Predicted" if run.predicted else "Measured"
    return [
        Section("cases", "Cases", case_blocks(run.manifest.cases, run.results, mean=mean)),
        Section("verdicts", "Paths and verdicts", _paths(run, verbose=verbose)),
        Section("latencies", "Latencies", [latency_table(latencies)] if latencies else ()),
        Section("sweep", f"{word} curves", [sweep_table(series)] if series else ()),
        *(study.report(run) if study is not None else ()),
    ]


def _paths(run: Run, *, verbose: bool) -> Sequence[Block]:
    # those of suites have charts instead
    headline = [r for r in headline_rows(run) if not r.is_latency and not is_suite(r.result)]
    paths = bandwidth_rows(run.results) if verbose else headline
    totals = total_sentences(run.results) if run.manifest.verb == "copy" else ()
    if not paths:
        return ()
    blocks = [paths_table(paths), *([Bullets(totals)] if totals else ())]
    if not run.manifest.cases:
        return blocks
    crowded = len(paths) > MOST_PATHS_BESIDE_CASES
    summary = count_text(len(paths), "path") if crowded else ""
    return [Details(blocks, summary, on_terminal=verbose)]
