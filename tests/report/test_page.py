from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
import time
from dataclasses import replace
from urllib.parse import unquote

import pytest

from lanescope.report import document_page
from lanescope.report import document_page as page_plots
from lanescope.store.folder import State
from lanescope.store.run import Run
from lanescope.studies.runs import document as page
from lanescope.studies.runs.document import page_html
from tests.report import factory
from tests.report.conftest import Document
from tests.report.factory import NASTY

VEGA = '<script id="vega">/* in its place */</script>'


@pytest.fixture(autouse=True)
def small_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing Vega's megabyte for each page would take most of the time."""
    monkeypatch.setattr(page_plots, "vega_script", lambda: VEGA)


def test_pages_are_well_formed(any_run: Run):
    document = Document(page_html(any_run))
    tags = [tag for tag, _ in document.tags]
    assert dict(document.tags)["html"] == {"lang": "en"}
    assert tags.count("h1") == 1
    identifiers = [a["id"] for _, a in document.tags if "id" in a]
    assert len(identifiers) == len(set(identifiers))


def test_pages_load_nothing_from_outside(any_run: Run):
    source = page_html(any_run)
    for _, attributes in Document(source).tags:
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            assert (attributes.get(name) or "data:").startswith(("data:", "#"))
    assert "@import" not in source
    assert "url(" not in source
    assert "default-src &#x27;none&#x27;" in source


def test_pages_show_what_was_asked():
    document = Document(page_html(factory.check_run()))
    for words in ("node-17", "2026-11-20 14:03:11 +01:00", "lanescope check", "complete"):
        assert words in document.text
    assert "All 12 judged paths reach what their links can carry" in document.text
    assert "did not finish" not in document.text


@pytest.mark.parametrize("state", [State.INTERRUPTED, State.RUNNING])
def test_an_unfinished_run_says_so(state: State):
    run = factory.check_run()
    cut = Run(replace(run.manifest, state=state), run.results[:3])
    source = page_html(cut)
    assert "This run did not finish" in Document(source).text
    assert 'class="conclusion good"' not in source


def test_what_was_done_otherwise_is_said_at_the_top():
    run = factory.check_run()
    noted = Run(replace(run.manifest, notes=(f"Copies are smaller. {NASTY}",)), run.results)
    source = page_html(noted)
    top = Document(source.split("<main>")[1].split("<section")[0])
    assert f"Note: Copies are smaller. {NASTY}" in top.text


@pytest.mark.parametrize("verb", ["check", "sweep", "bench"])
def test_predictions_are_marked_everywhere(verb: str):
    source = page_html(factory.predicted_run(verb))
    document = Document(source)
    assert "Predicted, not measured" in document.text
    captions = re.findall(r"<caption>(.*?)</caption>", source)
    assert all("redicted" in c for c in captions if not c.startswith("Links"))
    titles = [a["aria-label"] for _, a in document.tags if a.get("class") == "plot"]
    assert titles
    assert all(t.startswith("Predicted") for t in titles if t)
    assert "Measured" not in document.text


def test_measurements_are_never_called_predicted():
    text = Document(page_html(factory.check_run())).text
    assert "predicted" not in text.lower()


def test_a_slow_path_is_named_with_reason_and_remedy():
    text = Document(page_html(factory.check_run(slow="g0"))).text
    assert "4 of 12 paths are slow" in text
    assert "47.6 % of the limit" in text
    assert "nvidia-smi" in text


def test_a_path_that_was_not_measured_has_no_numbers():
    run = factory.check_run(missing="g1")
    source = page_html(run)
    row = re.search(r'<tr><th scope="row"><span[^>]*>h0 → g1</span></th>(.*?)</tr>', source)
    assert row is not None
    cells = re.findall(r"<td[^>]*>(.*?)</td>", row[1])
    assert [re.sub("<[^>]*>", "", c) for c in cells[:5]] == ["–"] * 5
    assert "exclusive-process mode" in cells[5]


def test_a_sweep_has_its_table_and_a_pair_of_plots():
    source = page_html(factory.sweep_run())
    document = Document(source)
    assert "Measured delay and bandwidth by size of the copy" in document.text
    assert len([a for _, a in document.tags if a.get("class") == "plot"]) == 2
    verdicts = source.split('id="verdicts"')[1].split("</section>")[0]
    assert verdicts.count("<tr>") == 1 + 6


def test_figures_survive_the_direction_through_html(any_run: Run):
    document = Document(page_html(any_run))
    places = [a["id"] for _, a in document.tags if a.get("class") == "plot"]
    if any_run.results:
        assert len(json.loads(document.scripts[0])["charts"]) == len(places) > 0
    else:
        assert places == []


def test_markup_in_names_stays_text():
    source = page_html(factory.nasty_run())
    document = Document(source)
    assert NASTY in document.text
    assert [tag for tag, _ in document.tags].count("script") == 3
    assert not any(tag == "b" for tag, _ in document.tags)
    assert "<script>alert" not in source


def csv_link(run: Run) -> dict[str, str | None]:
    """Return the attributes of the link that saves the CSV."""
    return next(a for tag, a in Document(page_html(run)).tags if tag == "a" and "download" in a)


def test_the_csv_holds_every_copy():
    run = factory.check_run(missing="g1")
    uri = csv_link(run)["href"] or ""
    rows = list(csv.DictReader(io.StringIO(unquote(uri.partition(",")[2]))))
    assert len(rows) == sum(len(r.experiment.copies) for r in run.results)
    assert rows[0]["median_seconds"]
    assert rows[-1]["gbs"] == ""


def test_a_long_csv_is_compressed(monkeypatch: pytest.MonkeyPatch):
    run = factory.check_run()
    plain = csv_link(run)
    monkeypatch.setattr(document_page, "_MOST_PLAIN_BYTES", 100)
    packed = csv_link(run)
    assert packed["download"] == f"{plain['download']}.gz"
    kind, _, content = (packed["href"] or "").partition(",")
    assert kind == "data:application/gzip;base64"
    rows = gzip.decompress(base64.b64decode(content)).decode()
    assert rows == unquote((plain["href"] or "").partition(",")[2])


def test_without_vl_convert_the_page_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_plots, "vega_script", lambda: None)
    document = Document(page_html(factory.check_run()))
    assert page_plots.MISSING_VEGA in document.text
    assert "script" not in [tag for tag, _ in document.tags]
    assert "svg" in [tag for tag, _ in document.tags]


def test_building_is_quick():
    run = factory.check_run(factory.eight_gpus())
    begin = time.process_time()
    page_html(run)
    assert time.process_time() - begin < 1.0


def test_raw_rows_are_left_out_where_a_page_cannot_hold_them(monkeypatch):
    run = factory.check_run()
    assert "Download CSV" in page_html(run)
    monkeypatch.setattr(page, "_MOST_RAW_ROWS", 3)
    short = page_html(run)
    assert "Download CSV" not in short
    assert "lanescope report RUN --csv" in short
