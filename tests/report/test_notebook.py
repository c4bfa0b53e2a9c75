from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lanescope.copies import Purpose
from lanescope.results import Result
from lanescope.store.folder import State
from lanescope.store.run import Run
from lanescope.studies.runs.document import page_html, results_html, run_html
from lanescope.studies.runs.export import run_json
from tests.findings.machine import simulator
from tests.report import factory
from tests.report.conftest import Document


def test_fragments_are_well_formed(any_run: Run):
    for source in (run_html(any_run), results_html(any_run.results)):
        document = Document(source)
        assert document.tags[0] == ("div", {"class": "lanescope"})
        assert not any(tag in ("html", "body", "script") for tag, _ in document.tags)


def test_a_run_begins_with_its_conclusion():
    text = Document(run_html(factory.check_run())).text
    assert "All 12 judged paths reach what their links can carry" in text


def test_predictions_are_called_so():
    run = factory.predicted_run()
    assert "predicted, not measured" in Document(run_html(run)).text
    assert "Predicted bandwidth" in Document(results_html(run.results)).text


def test_an_unfinished_run_says_so():
    run = factory.check_run()
    cut = Run(replace(run.manifest, state=State.INTERRUPTED), run.results)
    assert "did not finish" in Document(run_html(cut)).text


def test_objects_show_themselves():
    run = factory.check_run()
    assert run._repr_html_() == run_html(run)
    assert run.results[0]._repr_html_() == results_html(run.results[:1])


def test_a_suite_is_not_diagnosed_as_the_page_and_the_export_do_not():
    machine = simulator.h200s()
    slow = simulator.simulate(simulator.slower_link(machine, "g1", 3, 16))
    run = factory.run_of(slow, machine)
    of_suite = replace(run, results=tuple(map(_in_a_suite, run.results)))
    for source, texts in ((run, 1), (of_suite, 0)):
        assert run_html(source).count("<dt>To confirm</dt>") == texts
        assert page_html(source).count("<dt>To confirm</dt>") == texts
        assert len(json.loads(run_json(source))["diagnoses"]) == texts


def _in_a_suite(result: Result) -> Result:
    return replace(result, experiment=replace(result.experiment, purpose=Purpose.CONTENTION))


def test_no_results():
    assert "no results" in Document(results_html([])).text


def test_a_notebook_shows_plots_and_writes_them(tmp_path):
    pytest.importorskip("vl_convert")
    plots = factory.sweep_run().plot()
    assert len(plots.charts) > 1
    assert plots.charts[0].key in repr(plots)
    assert plots._repr_html_().count('<svg class="plot"') == len(plots.charts)
    files = plots.save(str(tmp_path / "plots"))
    assert len(files) == 2 * len(plots.charts)
    assert all(file.stat().st_size for file in files)


def test_a_run_without_numbers_has_no_plots():
    plots = factory.run_of([], factory.eight_gpus()).plot()
    assert plots.charts == ()
    assert "nothing to plot" in plots._repr_html_()
