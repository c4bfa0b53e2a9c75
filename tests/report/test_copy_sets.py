"""Sets of copies: each copy has its own name, and all of them a total."""

import json

import pytest

from lanescope import api
from lanescope.studies.runs.document import page_html
from lanescope.studies.runs.export import run_json
from lanescope.studies.runs.rows import path_rows
from lanescope.studies.runs.tables import total_sentences


@pytest.fixture
def run(tmp_path):
    return api.copy("h0 <-> g0, 2x g0 -> g1 @sm:16", "h200-x2", out=tmp_path / "run")


def test_copies_of_the_only_set_are_told_from_each_other(run):
    labels = [row.label for row in path_rows(run.results)]
    assert labels == [
        *("h0 → g0", "g0 → h0"),
        *("g0 → g1 @sm:16, 1 of 2", "g0 → g1 @sm:16, 2 of 2"),
    ]


def test_the_total_is_told_against_what_the_links_allow(run):
    (result,) = run.results
    assert result.total_gbs == pytest.approx(sum(c.gbs for c in result.copies))
    (sentence,) = total_sentences(run.results)
    assert f"{result.total_gbs:.0f} GB/s together" in sentence
    assert "that the links allow at once" in sentence
    assert sentence.split(":")[-1].split(" of the")[0].strip() in page_html(run)
    (total,) = json.loads(run_json(run))["totals"]
    assert total["gbs"] == result.total_gbs
    assert total["limit_gbs"] == result.total_limit_gbs


def test_one_copy_has_no_total(tmp_path):
    alone = api.copy("h0 -> g0", "h200-x2", out=tmp_path / "run")
    assert total_sentences(alone.results) == ()
    assert [row.label for row in path_rows(alone.results)] == ["h0 → g0"]
