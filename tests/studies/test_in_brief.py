"""What a Python prompt shows of a result: a few lines, however much it holds."""

from dataclasses import replace
from pathlib import Path

import pytest

import lanescope
from lanescope import api
from lanescope.results import Status, Verdict
from lanescope.studies import ANALYSES
from lanescope.studies.node_report import NodeReport, NodeState

RESULTS = Path(__file__).parents[2] / "benchmarks/results"
WATCH = RESULTS / "h100-x1/advise/first/watches/search"


def _predicted():
    return lanescope.predict(h2d_bytes="64MiB", kernel_seconds=0.01, parameters="h200")


def _compressed(path):
    file = path / "noughts.u8"
    file.write_bytes(bytes(4096))
    return api.compress(files=[file], budget_seconds=0.001)


MADE = {
    "predict": lambda _: _predicted(),
    "advise": lambda _: lanescope.advise(run=WATCH, parameters="h200"),
    "advise, what if": lambda _: lanescope.advise(run=WATCH, what_if="prefetch"),
    "validate": lambda _: lanescope.validate(run=RESULTS / "h200-x1/model/validate"),
    "fit": lambda _: lanescope.fit(run=RESULTS / "h200-x1/machines/d/fit"),
    "compress": _compressed,
}


def test_each_analysis_is_made_here():
    assert {name.split(",")[0] for name in MADE} == set(ANALYSES)


@pytest.mark.parametrize("name", MADE)
def test_the_text_of_a_result_is_a_few_lines(name, tmp_path):
    first, *lines = repr(MADE[name](tmp_path)).splitlines()
    assert (first[0], first[-1]) == ("<", ">")
    assert 1 <= len(lines) <= 3
    assert len(first) + sum(map(len, lines)) < 600
    assert not any("Estimate(" in line or "None" in line for line in lines)


def test_the_text_of_a_prediction_says_what_is_fastest():
    result = _predicted()
    assert f"Fastest: {result.ranking.winner.method}" in repr(result)


def test_the_text_of_one_result_is_its_title_and_a_few_paths():
    run = lanescope.read_run(RESULTS / "h200-x2/check")
    for result in run.results:
        first, *lines = repr(result).splitlines()
        assert first == f"<Result: {result.experiment.title}, measured>"
        assert 1 <= len(lines) <= 4
        assert len(repr(result)) < 600
    (one,) = (r for r in run.results if r.experiment.name == "h2d/g0")
    assert repr(one).splitlines()[1] == "h0 → g0: 55.6 GB/s, healthy"


def test_the_text_of_a_result_without_numbers_says_why():
    verdict = Verdict(Status.NOT_MEASURED, "no GPU is there")
    result = lanescope.read_run(RESULTS / "h200-x2/check").results[-1]
    assert repr(replace(result, copies=(), not_measured=verdict)).splitlines()[1:] == [
        f"{result.experiment.title}: not measured: no GPU is there"
    ]


def test_the_text_of_a_node_is_its_line():
    sentence = "1 GPU is missing."
    report = NodeReport(
        1, "0.3.0", "n7", NodeState.MISSING, 4, sentence, "", 1.0, "", {}, (), (), (), None
    )
    assert repr(report) == "<NodeReport>\nn7: MISSING (exit code 4): 1 GPU is missing."
