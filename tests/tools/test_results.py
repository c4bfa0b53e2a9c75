"""benchmarks/results keeps its rule: what lies there is cited, small, explained and clean."""

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


def test_no_stored_text_names_a_machine(results):
    assert results.unclean() == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("run:  /tmp/r1", True),
        ('"/opt/torch/bin/python3"', True),
        ("uuid = 'GPU-37eed5e3-cb92-ad7b-e2ca-af966c05219d'", True),
        ("uuid = 'GPU-00000000-0000-0000-0000-000000000001'", False),
        ("benchmarks/work/loops.py, bytes/work, a/tmp/b", False),
    ],
)
def test_a_path_or_a_uuid_names_a_machine(results, text, names):
    assert bool(results.NAMING.search(text)) == names


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
