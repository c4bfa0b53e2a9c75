"""Latencies in tables, pages and stored runs."""

import io

import pytest
from rich.console import Console

from lanescope.cli.run_text import run_tables
from lanescope.copies import Operation
from lanescope.engine.base import ModelBackend
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import NotMeasuredError
from lanescope.results import Status
from lanescope.store.run import rows_of
from lanescope.store.store import RunWriter, read_run
from lanescope.studies.latency import latency_experiments
from lanescope.studies.runs.charts import run_charts, sweep_series
from lanescope.studies.runs.document import page_html, results_html, run_html
from lanescope.studies.runs.export import run_csv
from lanescope.studies.runs.outcome import conclusion, headline_rows
from lanescope.studies.runs.rows import bandwidth_rows, path_rows
from lanescope.studies.runs.tables import latency_rows
from tests.fake_backend import FakeBackend
from tests.report.factory import check_run, run_of, two_gpus


def seconds(copy, batch):
    if copy.operation is Operation.KERNEL_SPIN:
        raise NotMeasuredError("The GPU did not answer in time.", "Look for Xid errors.")
    if copy.operation is Operation.COPY:
        return [copy.bytes / 55.6e9 * w for w in (1.0, 1.01, 0.99, 1.0, 1.0, 1.02, 0.98)]
    scale = 0.7e-6 if copy.operation.is_chase else 8.4e-6
    return [scale * w for w in (1.0, 1.02, 0.97, 1.01, 0.99, 1.0, 1.05)]


@pytest.fixture
def run():
    machine, results = two_gpus(), []
    experiments = latency_experiments(machine, machine.gpus[:1])
    measure_all(experiments, FakeBackend(seconds), machine, Plan(budget_seconds=0), results.append)
    return run_of(results, machine, verb="latency", command="lanescope bench latency")


def printed(run):
    out = Console(file=io.StringIO(), width=200)
    for part in run_tables(run):
        out.print(part)
    return out.file.getvalue()


def test_the_table_shows_times_loads_and_what_failed(run):
    text = printed(run)
    for words in ("g0 loads from h0, 2 MiB by address", "700 ns", "8.40 µs", "load GB/s", "55.6"):
        assert words in text
    assert "The GPU did not answer in time" in text
    assert "limit GB/s" not in text  # no table of bandwidths without one
    known = len(run.results) - 1
    assert f"{known} latencies were measured; 1 latency was not measured." in text


def test_no_latency_is_shown_as_a_bandwidth(run):
    assert bandwidth_rows(run.results) == ()
    assert sweep_series(run.results) == ()
    assert run_charts(headline_rows(run), ()) == []
    for row in path_rows(run.results):
        if row.copy.operation.is_latency:
            assert (row.gbs, row.low_gbs, row.high_gbs, row.limit_gbs) == (None,) * 4


def test_the_load_is_not_judged_and_keeps_its_bandwidth(run):
    loaded = [r for r in run.results if len(r.copies) == 2]
    assert loaded
    for result in loaded:
        probe, load = result.copies
        assert probe.gbs is None
        assert load.gbs == pytest.approx(55.6, rel=0.01)
        assert {probe.verdict.status, load.verdict.status} == {Status.UNJUDGED}
    rows = latency_rows(run.results)
    assert sum(row.load_gbs is not None for row in rows) == len(loaded)


def test_page_and_notebook_show_them(run):
    for html in (page_html(run), run_html(run), results_html(run.results)):
        assert "g0 loads from h0, 2 MiB by address" in html
        assert "700 ns" in html
    assert "Bandwidth and verdict of every path" not in page_html(run)
    assert 'id="latencies"' in page_html(run)
    assert 'id="latencies"' not in page_html(check_run())


def test_beside_paths_both_tables_are_shown(run):
    both = run_of([*check_run().results, *run.results], two_gpus())
    text = printed(both)
    assert "limit GB/s" in text
    assert "g0 loads from h0" in text
    assert "latencies were measured" in conclusion(both)
    assert "judged path" in conclusion(both) or "paths reach" in conclusion(both)


def test_a_run_folder_keeps_them(run, tmp_path):
    writer = RunWriter(tmp_path / "run", run.manifest)
    for result in run.results:
        writer.add(result)
    stored = writer.finish(run.manifest.state)
    assert read_run(tmp_path / "run") == stored
    for row in rows_of(stored.results):
        assert (row.gbs is None) == (row.operation != "copy" or row.n is None)
    assert "random-chase" in run_csv(stored)


def test_latencies_are_not_predicted(run):
    machine, results = two_gpus(), []
    experiments = latency_experiments(machine, machine.gpus[:1])
    measure_all(experiments[:1], ModelBackend(machine), machine, Plan(), results.append)
    assert "measured, not predicted" in results[0].not_measured.reason
