"""A suite on the page and on a terminal."""

import json
import re
from dataclasses import replace
from functools import cache

import pytest

from lanescope.cli.run_text import run_tables
from lanescope.engine.base import ModelBackend
from lanescope.engine.sampling import Plan, measure_all
from lanescope.results import Result
from lanescope.store.run import Run
from lanescope.studies.runs.document import page_html
from lanescope.studies.runs.export import run_json
from lanescope.studies.runs.outcome import conclusion
from lanescope.studies.taruc.charts import taruc_charts
from lanescope.studies.taruc.document import nothing_found, taruc_overview
from lanescope.studies.taruc.findings import findings
from tests.printed import printed
from tests.report import factory
from tests.report.conftest import Document
from tests.store.test_rows import DOCUMENT
from tests.taruc_plan import contention, host, paper_machine
from tests.taruc_suite import FLAT, PLANTED, suite_run


@cache
def small_suite() -> Run:
    return suite_run(paper_machine(1, 1), PLANTED, missing="peer/")


def sections(source: str) -> dict[str, str]:
    return dict(re.findall('<section id="([a-z]+)"(.*?)</section>', source, re.DOTALL))


def test_each_micro_benchmark_has_a_section_with_charts():
    run = small_suite()
    source = page_html(run)
    Document(source)
    found = sections(source)
    for bench in ("overhead", "host", "hostdev", "nurma", "contention"):
        assert 'class="plot"' in found[bench]
    assert "peer" not in found
    assert not {"verdicts", "sweep", "latencies"} & set(found)
    assert len(re.findall('class="plot"', source)) == len(taruc_charts(run))
    numbers = re.findall('id="plot-([0-9]+)"', source)
    assert [int(n) for n in numbers] == list(range(len(numbers)))


@pytest.mark.native  # eight seconds
def test_findings_come_first_with_their_evidence():
    source = page_html(suite_run())
    found = sections(source)
    assert next(iter(found)) == "findings"
    first, _, more = found["findings"].partition("more finding")
    assert first.count("<li>") == 12
    assert more.count("<li>") == 12
    assert "Memory of node 1 costs 38 %" in found["findings"]
    assert "lanescope bench contention" in found["findings"]


def test_what_is_missing_is_an_open_point():
    source = page_html(small_suite())
    shown = source.partition('class="conclusion')[2].partition("</div>")[0]
    assert "22 not measured" in shown
    assert "Locked memory is limited to 64 KiB." in shown
    assert conclusion(small_suite()).endswith(
        "645 experiments of the micro-benchmarks measured; 22 not measured; 13 findings."
    )


def test_a_flat_machine_says_that_nothing_was_found():
    run = suite_run(paper_machine(1, 0), FLAT, (host, contention))
    assert nothing_found(run) in page_html(run)
    assert printed(taruc_overview(run)).rstrip().endswith(nothing_found(run))


def test_names_are_not_read_as_markup():
    run = suite_run(paper_machine(1, 0), PLANTED, (contention,))
    results = tuple(
        replace(r, copies=tuple(replace(c, limit_reason=factory.NASTY) for c in r.copies))
        for r in run.results
    )
    source = page_html(replace(run, results=results))
    Document(source)
    assert "<script>alert(1)" not in source


def test_the_terminal_has_a_table_for_each_and_findings():
    run = small_suite()
    shown = printed(taruc_overview(run), width=180)
    for title in ("Memory overhead", "Host to host copies", "Contention"):
        assert title in [line.strip() for line in shown.splitlines()]
    assert shown.partition("Findings")[2].count("\n- ") == 12
    assert "1 more finding on the page and in --json" in shown
    assert max(map(len, shown.partition("Findings")[0].splitlines())) <= 180
    assert any("Memory overhead" in str(part) for part in run_tables(run))


def test_a_prediction_is_called_one_and_has_no_findings():
    machine = paper_machine(1, 1)
    results: list[Result] = []
    experiments = [*host(machine), *contention(machine)]
    measure_all(experiments, ModelBackend(machine), machine, Plan(), results.append)
    run = factory.run_of(results, machine, verb="suite")
    source = page_html(run)
    assert "findings" not in sections(source)
    assert "Findings: none" not in source
    charts = taruc_charts(run)
    assert charts
    assert all(c.title.startswith("Predicted: ") and not c.band for c in charts)
    assert not any(curve.low for c in charts for curve in c.curves)
    assert "predicted, not measured" in conclusion(run)


def test_other_runs_say_nothing():
    assert printed(taruc_overview(factory.check_run())) == ""
    assert "findings" not in sections(page_html(factory.check_run()))


def test_findings_are_exported_and_documented():
    run = small_suite()
    told = json.loads(run_json(run))["findings"]
    assert [f["sentence"] for f in told] == [
        f.sentence for f in findings(run.manifest.machine, run.results)
    ]
    section = DOCUMENT.read_text().partition("`findings`")[2]
    assert set(told[0]) <= set(re.findall(r"`(\w+)`", section))
    assert json.loads(run_json(factory.check_run()))["findings"] == []
