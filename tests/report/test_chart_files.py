"""Charts as picture files."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lanescope.document.contents import Axis, Bar, BarRow, Bars, Chart, Curve
from lanescope.errors import InputError
from lanescope.report.charts import picture_svg, write_chart, write_charts
from lanescope.store.store import read_run
from lanescope.studies.runs.document import page_html, run_plots
from tests.report import factory
from tests.taruc_plan import contention, host, nurma, overhead, paper_machine
from tests.taruc_suite import PLANTED, suite_run, unresolved

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def run():
    pytest.importorskip("vl_convert")
    made = suite_run(paper_machine(1, 0), PLANTED, (host, overhead, nurma, contention), "/pinned/")
    return unresolved(made, 4096)


@pytest.mark.native  # six seconds
def test_every_chart_is_a_png_and_an_svg(run, tmp_path: Path):
    paths = write_charts(run_plots(run), tmp_path / "new" / "plots")
    keys = [c.key for c in run_plots(run)]
    assert [p.name for p in paths] == [f"{k}.{f}" for k in keys for f in ("png", "svg")]
    for path in paths:
        content = path.read_bytes()
        if path.suffix == ".png":
            assert content.startswith(PNG)
            width, height = (int.from_bytes(content[i : i + 4], "big") for i in (16, 20))
            assert (width, 600 < height < 1200) == (1200, True)
        else:
            root = ElementTree.fromstring(content)
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
            assert any((t and "Time of" in t) or (t and "GB/s" in t) for t in texts)


def test_the_same_numbers_make_the_same_picture(run, tmp_path: Path):
    one, other = (write_charts(run_plots(run), tmp_path / name, ["svg"])[0] for name in "ab")
    assert one.read_bytes() == other.read_bytes()


def test_labels_have_room_in_a_wider_font_than_where_they_were_measured():
    pytest.importorskip("vl_convert")
    label = "memory h0: triad, all 32 cores"
    rows = (BarRow(label, (Bar("slow", 9.0, "#dd6622"),)),)
    shown = picture_svg([Bars("b", "", "Rates", "", Axis("Rate", "GB/s"), rows)], "Rates", "", ())
    lefts = map(float, re.findall(r"translate\(([\d.]+),5\)", shown))
    assert max(lefts) >= 0.5 * 12 * len(label)  # as in DejaVu Sans


def test_notes_stand_below(run, tmp_path: Path):
    paths = {p.stem: p for p in write_charts(run_plots(run), tmp_path, ["svg"])}
    shown = paths["host-binding-pageable-time"].read_text()
    assert "points of up to 4 KiB are hollow" in shown


def test_a_folder_that_is_none_is_refused(run, tmp_path: Path):
    taken = tmp_path / "file"
    taken.write_text("mine")
    with pytest.raises(InputError, match="is not a folder; name one for the plots"):
        write_charts(run_plots(run), taken)
    with pytest.raises(InputError, match="name another folder"):
        write_charts(run_plots(run), taken / "below")
    with pytest.raises(InputError, match="png and svg"):
        write_charts(run_plots(run), tmp_path, ["pdf"])
    assert taken.read_text() == "mine"


def test_no_charts_are_no_files(tmp_path: Path):
    assert write_charts([], tmp_path / "new") == []
    assert not (tmp_path / "new").exists()


def test_a_static_page_is_small_and_has_no_scripts():
    pytest.importorskip("vl_convert")
    run = factory.check_run()
    page = page_html(run, static=True)
    assert len(page.encode()) < 300_000
    assert "<script" not in page
    assert "script-src" not in page
    root = ElementTree.fromstring(re.search(r'<svg class="plot".*?</svg>', page, re.S)[0])
    texts = {text.text for text in root.iter() if text.text}
    assert any("h0" in one for one in texts)


STORED = Path(__file__).parents[2] / "benchmarks/results"


@pytest.mark.parametrize("stored", ["h200-x2/suite", "h200-x4/bench"])
def test_a_static_page_of_a_large_run_says_what_is_left_out(stored):
    pytest.importorskip("vl_convert")
    run = read_run(STORED / stored)
    page = page_html(run, static=True)
    assert len(page.encode()) < 300_000
    assert "left out of this small page" in page
    assert "left out of this small page" not in page_html(run)


def test_vl_convert_is_imported_only_when_used():
    code = (
        "import sys, lanescope.studies.runs.document, lanescope.report.charts; "
        "sys.exit('vl_convert' in sys.modules)"
    )
    path = [p for p in sys.path if p]
    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"], check=True
    )


def test_without_vl_convert_a_sentence_says_so(run, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(InputError, match="pip install vl-convert-python"):
        write_charts(run_plots(run), tmp_path / "plots")
    assert not (tmp_path / "plots").exists()


def test_names_with_markup_stay_text(tmp_path: Path):
    name = "<b>\x1b\" & 'c'</text><script>alert(1)</script>"
    axis = Axis("x")
    chart = Chart("k", "s", name, name, axis, axis, (Curve(name, (1, 2), (1, 2)),), notes=(name,))
    write_chart(chart, tmp_path / "x.svg")
    tree = ElementTree.parse(tmp_path / "x.svg")
    assert not [e for e in tree.iter() if e.tag.endswith("script")]
    texts = "".join(e.text or "" for e in tree.iter("{http://www.w3.org/2000/svg}text"))
    assert texts.count("alert(1)") == 4


def test_panels_share_a_row():
    axis = Axis("x")
    chart = Chart("k", "s", "panel", "", axis, axis, (Curve("a", (1, 2), (1, 2)),))
    places = re.findall(
        r'translate\((\d+),0\)"><g[^>]*><text', picture_svg([chart] * 3, "", "", (), 2)
    )
    assert places == ["0", "406", "0"]
