"""benchmarks/results keeps its rule: what lies there is cited, small and explained."""

import pytest

from tests.tools.test_build import load


@pytest.fixture(scope="module")
def results():
    return load("results")


def test_every_stored_result_is_cited(results):
    assert results.uncited() == []


def test_no_stored_run_is_over_the_limit(results):
    assert results.too_large() == []


def test_every_stored_result_is_in_its_machines_readme(results):
    assert results.unexplained() == []


def test_what_breaks_the_rule_is_listed(results, monkeypatch, capsys):
    monkeypatch.setattr(results, "cited", set)
    monkeypatch.setattr(results, "RUN_BYTES", 1000)
    assert results.main() == 1
    printed = capsys.readouterr().out
    assert "not cited: h200-x2/check/results.parquet" in printed
    assert "too large: h200-x2/suite" in printed


def test_what_a_run_printed_is_cited_with_it(results, monkeypatch):
    monkeypatch.setattr(results, "cited", lambda: {"h200-x2/check"})
    left = {one.as_posix() for one in results.uncited()}
    assert not {"h200-x2/check.txt", "h200-x2/check/results.parquet"} & left
    assert "h200-x2/suite.txt" in left
