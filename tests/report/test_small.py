"""Maps of small copies on a terminal, on a page, in a notebook and in a run folder."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from lanescope.cli.run_text import run_tables
from lanescope.copies import Submission
from lanescope.report.charts import specification
from lanescope.results import Status
from lanescope.store.folder import State
from lanescope.store.run import Manifest, rows_of
from lanescope.store.store import RunWriter, read_run
from lanescope.studies.runs.document import page_html
from lanescope.studies.runs.outcome import conclusion
from lanescope.studies.small import (
    METHOD_COLOURS,
    TIE,
    cell_lines,
    map_sentences,
    small_chart,
    small_maps,
)
from tests.report import factory
from tests.report.conftest import Document
from tests.report.specifications import accepted
from tests.small_samples import small_results, without


@pytest.fixture(scope="module")
def results():
    return small_results(factory.two_gpus())


@pytest.fixture
def run(results):
    return factory.run_of(results, factory.two_gpus(), verb="small")


def printed(run):
    console = Console(file=io.StringIO(), width=180)
    for part in run_tables(run):
        console.print(part)
    return console.file.getvalue()


def test_the_grid_and_its_sentences(run):
    text = printed(run)
    assert "h0 → g0: fastest method" in text
    assert "g0 → h0: fastest method" in text
    assert "mapped 1" in text
    assert "h0 → g0, 4096 pieces: kernel at every size." in text
    assert "h0 → g0, 1 piece: single at every size." in text
    assert "Small copies of 100 cells mapped for h0 → g0 and g0 → h0; none is judged." in text


def test_crossovers_read_as_sentences(results):
    sentences = map_sentences(small_maps(results)[0])
    assert any(s.endswith(" on.") and " below " in s for s in sentences)
    assert any("single below 8 pieces, kernel from 8 pieces on." in s for s in sentences)
    assert any("times as fast as single" in s for s in sentences)
    assert any("data in place (mapped)" in s for s in sentences)
    assert any("single 40.0 %" in s for s in sentences)


def test_a_cell_names_the_fastest_copy_below_mapped(results):
    cells = small_maps(results)[0].cells
    first, second = cell_lines(cells[4096, 64])
    assert first.startswith("mapped ")
    assert second.startswith("kernel ")
    assert not first.endswith(TIE)
    assert cell_lines(None) == ()


def test_a_method_that_the_driver_lacks_is_explained(results):
    run = factory.run_of(without(results, Submission.BATCH), factory.two_gpus(), verb="small")
    text = printed(run)
    assert "Not applicable: this driver is too old for the call." in text
    assert "100 measurements are missing" in conclusion(run)
    assert Document(page_html(run)).text.count("Not applicable") >= 1


def test_what_is_faster_than_the_link_is_said(results):
    few = small_results(factory.two_gpus(), (65536,), (512,), seconds=lambda *_: [1e-6] * 8)
    text = conclusion(factory.run_of(few, factory.two_gpus(), verb="small"))
    assert "10 cells are impossible: faster than PCIe 5.0 x16" in text


def test_nothing_measured_is_said():
    run = factory.run_of([], factory.two_gpus(), verb="small")
    assert conclusion(run) == "No small copy could be measured."


def test_the_page_holds_grids_and_heat_maps(run):
    page = Document(page_html(run))
    assert "Maps of small copies" in page.text
    assert "kernel at every size" in page.text
    assert "too small to fill the link" not in page.text  # 500 rows that nobody reads
    assert "fastest method" in run._repr_html_()


def test_heat_maps_name_what_they_colour(results):
    chart = small_chart(small_maps(results)[0])
    spec = specification(chart)
    assert json.loads(json.dumps(spec, allow_nan=False)) == spec
    accepted(spec)
    assert (len(chart.columns), len(chart.rows)) == (5, 11)
    there = {(cell.column, cell.row) for cell in chart.cells}
    assert (chart.columns[-1], chart.rows[-1]) not in there  # 16 GiB are not small
    assert all(cell.text for cell in chart.cells)
    assert "in the calls" in chart.cells[0].hint
    legend = spec["layer"][-1]["encoding"]["shape"]["scale"]["domain"]
    assert "mapped" in legend
    assert set(METHOD_COLOURS) == set(Submission)


def test_small_copies_are_not_judged(results):
    verdicts = {r.copies[0].verdict for r in results}
    assert {v.status for v in verdicts} == {Status.UNJUDGED}
    assert {v.reason for v in verdicts} == {
        "too small to fill the link",
        "many small copies are bound by submission, not by the link",
    }


def test_a_run_keeps_the_hosts_share(results, tmp_path):
    few = results[:20]
    manifest = Manifest(
        "small", "lanescope bench small", "2026-11-21T10:00:00+00:00", "0", factory.two_gpus()
    )
    writer = RunWriter(tmp_path / "run", manifest)
    for result in few:
        writer.add(result)
    writer.finish(State.COMPLETE)
    read = read_run(tmp_path / "run").results
    assert read == tuple(few)
    assert all(row.submit_seconds > 0 for row in rows_of(read))


def test_pieces_that_the_calling_thread_moves_are_explained():
    folder = Path(__file__).parents[2] / "benchmarks/results/h200-x2/small"
    down, up = (map_sentences(m) for m in small_maps(read_run(folder).results))
    (said,) = [s for s in down if "the calling thread" in s]
    assert said == (
        "h0 → g0: by batch a piece of 16 KiB takes 2.08 µs and one of 64 KiB takes 1.48 µs "
        "(4096 pieces each), and 99.2 % of the former is spent in the call: it is the calling "
        "thread that moves so small pieces."
    )
    assert not [s for s in up if "the calling thread" in s]
