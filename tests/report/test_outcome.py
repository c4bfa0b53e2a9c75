"""One word, one sentence, one exit code: the same on the terminal, the page and in JSON."""

import json
import re
from dataclasses import replace

import pytest

from lanescope.cli.run_text import run_tables
from lanescope.engine.base import ModelBackend
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import ExitCode
from lanescope.results import Result, Source, Status, Verdict
from lanescope.store.folder import State
from lanescope.store.run import Against, Manifest, Run
from lanescope.store.store import read_run
from lanescope.studies.check import check_experiments
from lanescope.studies.runs.document import page_html
from lanescope.studies.runs.export import run_json
from lanescope.studies.runs.outcome import Word, outcome
from tests.conftest import experiment_of, host_to_gpu
from tests.findings.machine import simulator
from tests.report import factory


@pytest.fixture
def run_with(two_gpus):
    def make(*statuses, state=State.COMPLETE, **about):
        results = [
            Result(
                experiment_of(host_to_gpu(), name=f"case{number}"),
                Source.MEASURED,
                (),
                "",
                not_measured=Verdict(status, "a reason"),
            )
            for number, status in enumerate(statuses)
        ]
        started = "2026-11-21T10:00:00+00:00"
        manifest = Manifest("check", "lanescope check", started, "0", two_gpus, state, **about)
        return Run(manifest, tuple(results))

    return make


@pytest.mark.parametrize(
    ("statuses", "strict", "word", "code"),
    [
        ([Status.HEALTHY], True, Word.HEALTHY, 0),
        ([Status.HEALTHY, Status.UNJUDGED], True, Word.HEALTHY, 0),
        ([Status.UNJUDGED], True, Word.NOT_JUDGED, 0),
        ([Status.HEALTHY, Status.NOT_MEASURED], False, Word.HEALTHY, 0),
        ([Status.HEALTHY, Status.NOT_MEASURED], True, Word.NOT_MEASURED, 3),
        ([Status.HEALTHY, Status.BUSY], False, Word.HEALTHY, 0),
        ([Status.HEALTHY, Status.BUSY], True, Word.BUSY, 5),
        ([Status.NOT_MEASURED, Status.BUSY], True, Word.NOT_MEASURED, 3),
        ([Status.HEALTHY, Status.NOT_APPLICABLE], True, Word.HEALTHY, 0),
        ([Status.HEALTHY, Status.SLOW], False, Word.SLOW, 1),
        ([Status.HEALTHY, Status.IMPOSSIBLE, Status.BUSY], True, Word.SLOW, 1),
    ],
)
def test_the_worst_verdict_decides(run_with, statuses, strict, word, code):
    found = outcome(run_with(*statuses), strict=strict)
    assert (found.word, found.exit_code) == (word, code)


def test_what_is_missing_comes_before_what_is_slow(run_with):
    found = outcome(run_with(Status.SLOW, missing=("GPU g1 is expected and not there.",)))
    assert (found.word, found.exit_code) == (Word.MISSING, ExitCode.NOT_AS_EXPECTED)
    assert found.summary.startswith("GPU g1 is expected and not there. 1 of 1 path is slow")


def test_no_gpu_at_all_is_not_measured(run_with):
    run = run_with(Status.UNJUDGED, unmeasured=("There is no driver.",))
    assert outcome(run).exit_code == 0
    assert outcome(run, strict=True).exit_code == ExitCode.NOT_MEASURED
    assert outcome(run, strict=True).summary.startswith("There is no driver.")


@pytest.mark.parametrize(
    ("status", "strict", "code", "word", "ends"),
    [
        (Status.HEALTHY, False, ExitCode.OK, Word.HEALTHY, 0),
        (Status.HEALTHY, False, ExitCode.SLOW, Word.SLOWER, 1),
        (Status.HEALTHY, False, ExitCode.NOT_MEASURED, Word.NOT_COMPARED, 3),
        (Status.NOT_MEASURED, True, ExitCode.SLOW, Word.SLOWER, 1),
        (Status.NOT_MEASURED, True, ExitCode.NOT_MEASURED, Word.NOT_MEASURED, 3),
        (Status.BUSY, True, ExitCode.NOT_MEASURED, Word.NOT_COMPARED, 3),
        (Status.SLOW, False, ExitCode.NOT_MEASURED, Word.SLOW, 1),
    ],
)
def test_a_baseline_counts_too(run_with, status, strict, code, word, ends):
    run = replace(run_with(status), against=Against(code, "1 path slower, most a by 5.0%."))
    found = outcome(run, strict=strict)
    assert (found.word, found.exit_code) == (word, ends)
    sentence = "Against the baseline: 1 path slower, most a by 5.0%."
    first = word in (Word.SLOWER, Word.NOT_COMPARED)
    assert (found.summary.startswith if first else found.summary.endswith)(sentence)
    content = json.loads(run_json(run, strict=strict))
    assert (content["exit_code"], content["baseline"]) == (ends, "1 path slower, most a by 5.0%.")


def test_an_unfinished_run_is_not_healthy(run_with):
    cut = outcome(run_with(Status.HEALTHY, state=State.INTERRUPTED))
    assert (cut.word, cut.exit_code) == (Word.UNFINISHED, 130)
    assert outcome(run_with(Status.HEALTHY, state=State.RUNNING)).exit_code is None
    assert outcome(run_with(Status.SLOW, state=State.INTERRUPTED)).word is Word.SLOW


def test_a_fault_that_only_the_whole_run_shows_sets_the_exit_code():
    machine = simulator.h200s()
    run = factory.run_of(simulator.simulate(simulator.slower_link(machine, "g1", 3, 16)), machine)
    found = outcome(run)
    assert (found.word, found.exit_code) == (Word.SLOW, 1)
    assert "trained-down" in found.summary


@pytest.mark.parametrize("name", ["h200-x4/bench", "h200-x2/bench"])
def test_no_banner_says_that_all_is_well_above_a_cause(results_folder, name):
    run = read_run(results_folder / name)
    found = outcome(run)
    assert found.word is Word.LIMITED
    assert "asymmetric-opposing" in found.summary
    page = page_html(run)
    assert '<div class="conclusion open">' in page
    assert "limited (exit code 0)" in page


def test_a_stored_suite_says_what_sets_its_code(results_folder):
    run = read_run(results_folder / "h200-x2/suite")
    content = json.loads(run_json(run))
    assert list(content)[:3] == ["verdict", "summary", "exit_code"]
    assert (content["verdict"], content["exit_code"]) == ("slow", 1)
    assert re.match(r"\d+ of \d+ paths are slow: ", content["summary"])
    assert str(run_tables(run)[0]).startswith("slow (exit code 1): ")


def test_the_page_of_a_strict_run_says_the_code_that_the_command_ends_with(run_with):
    run = run_with(Status.HEALTHY, Status.NOT_MEASURED)
    assert "healthy (exit code 0)" in page_html(run)
    assert "not measured (exit code 3)" in page_html(run, strict=True)


def test_a_prediction_and_a_path_elsewhere_are_not_slow_for_a_narrow_link():
    """Only what was measured may fail: a link that no copy of the run crossed does not."""
    machine = simulator.changed_link(simulator.h200s(), "g1", width=8)
    narrow = replace(machine, described=True)
    predicted = outcome(measured_by_model(narrow))
    assert (predicted.word, predicted.exit_code) == (Word.PREDICTED, 0)
    results = [
        result
        for result in simulator.simulate(machine)
        if not any("g1" in (c.source.part, c.destination.part) for c in result.experiment.copies)
    ]
    assert results
    assert outcome(factory.run_of(results, machine)).exit_code == 0


def measured_by_model(machine):
    results = []
    measure_all(check_experiments(machine), ModelBackend(machine), machine, Plan(), results.append)
    return factory.run_of(results, machine)
