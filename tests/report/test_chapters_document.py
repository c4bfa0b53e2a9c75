"""The page and the table of a reproduction."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest

from lanescope.report.charts import specification
from lanescope.studies.pcie_thesis.document import (
    MOST_POINTS,
    chapters_page_html,
    counted_line,
    overview,
    probe_charts,
    probed_line,
    source_charts,
    traced_line,
)
from lanescope.studies.pcie_thesis.evaluate import evaluate
from lanescope.studies.pcie_thesis.reproduction import programs_for, read_reproduction
from lanescope.studies.pcie_thesis.results import ReproductionResults
from lanescope.studies.pcie_thesis.sources import payload_of, probed
from lanescope.trace.store import read_watch
from tests.report import test_browser, watch_factory
from tests.report.conftest import Document
from tests.report.specifications import accepted
from tests.studies.pcie_thesis.reproductions import MACHINE, coarser, reproduction

_RULER = """<script>const wait = setInterval(() => {
  if (!document.body.dataset.plots) return;
  const root = document.documentElement;
  root.dataset.drawn = document.body.dataset.plots;
  root.dataset.over = root.scrollWidth - root.clientWidth;
  root.dataset.requests = performance.getEntriesByType("resource").length;
  clearInterval(wait);
}, 100);</script>"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> ReproductionResults:
    return evaluate(read_reproduction(reproduction(tmp_path_factory.mktemp("page") / "run")))


def test_the_page_has_every_chapter_and_what_the_numbers_say(told: ReproductionResults):
    page = Document(chapters_page_html(told))
    for title in ("Chapter 4", "Chapter 5", "The idle link", "What the numbers mean"):
        assert title in page.text
    assert "Outlook: concurrent" not in page.text  # none of its programs was run
    for one in told.programs:
        assert one.program.title in page.text
        for sentence in (*one.sentences.sources, *one.sentences.probe):
            assert sentence in page.text
    places = [dict(attrs) for tag, attrs in page.tags if tag == "div"]
    assert sum(attrs.get("class") == "plot" for attrs in places) == 4 * len(told.programs)


def test_the_outlook_has_a_section_and_smaller_sizes_are_folded(tmp_path: Path):
    programs = programs_for(("vector-add", "concurrent-copies"), ("100MB", "400MB"))
    folder = reproduction(tmp_path / "run", programs)
    page = chapters_page_html(evaluate(read_reproduction(folder)))
    outlook = page[page.index('<section id="outlook"') :]
    assert outlook.count('class="plot"') == 4
    chapter = page[page.index('<section id="chapter-4"') : page.index('<section id="link"')]
    assert chapter.count("<details>") == 1
    numbers = [int(n) for n in re.findall(r'id="plot-(\d+)"', page)]
    assert numbers == list(range(12))
    Document(page)


def test_nothing_of_the_machine_is_taken_for_markup(told: ReproductionResults):
    found = told.reproduction
    asked = dataclasses.replace(found.asked, command="<script>alert(1)</script>", notes=("<b>",))
    page = chapters_page_html(
        dataclasses.replace(told, reproduction=dataclasses.replace(found, asked=asked))
    )
    assert "<script>alert(1)" not in page
    assert "&lt;b&gt;" in page
    Document(page)


@pytest.mark.parametrize("most", [0, 2, 3, 4])
def test_a_page_is_made_of_what_was_done(tmp_path: Path, most: int):
    found = evaluate(read_reproduction(reproduction(tmp_path / "run", most=most)))
    page = Document(chapters_page_html(found))
    assert "This run did not finish: it was interrupted." in page.text
    assert ("Chapter 4" in page.text) == (most > 2)


def test_a_chart_holds_all_sources_over_the_steps(told: ReproductionResults):
    one = told.programs[0]
    down, up = source_charts(one)
    assert [curve.name for curve in down.curves] == ["pm", "trace"]
    assert len(down.spans) == len(one.steps)
    spec = specification(down)
    accepted(spec)
    assert {v for values in spec["data"]["values"] for v in values["solid"]} == {0}
    highest = max(y for y in down.curves[1].y if not math.isnan(y))
    assert highest == pytest.approx(one.sources[1].highest_gbs[0].value, rel=0.01)
    assert any("copy 0" in span.hint for span in down.spans)
    assert len(probe_charts(one)) == 2
    assert max(y for y in up.curves[0].y if not math.isnan(y)) > 10
    for chart in probe_charts(one):
        accepted(specification(chart))


def test_four_sources_stand_on_one_clock(told: ReproductionResults):
    one = told.programs[0]
    run = read_watch(told.reproduction.folder / "vector-add-400MB/sources-1")
    (pm,) = run.timeline.counters
    others = (coarser(pm, 10, "counters"), coarser(pm, 200, "throughput"))
    payloads = tuple(payload_of(run.timeline, c, MACHINE) for c in (pm, *others))
    shown = dataclasses.replace(one.shown, payloads=payloads)
    down, _ = source_charts(dataclasses.replace(one, shown=shown))
    assert [curve.name for curve in down.curves] == ["pm", "counters", "throughput", "trace"]
    sizes = [len(curve.x) for curve in down.curves[:3]]
    assert sizes == sorted(sizes, reverse=True)
    first, last = down.x.ends
    assert first < 0 <= down.spans[0].begin < max(span.end for span in down.spans) < last


def test_lines_keep_their_bytes_and_stay_short(told: ReproductionResults):
    shown = told.programs[0].shown
    begin, end = shown.steps[0].begin_ns, shown.steps[-1].end_ns
    line = counted_line(shown.payloads[0], 0, begin, end)
    lasted = np.diff(line.end_ns)
    assert float(np.nansum(line.values[1:] * lasted)) == pytest.approx(800e6, rel=0.01)
    assert shown.operations is not None
    exact = traced_line(shown.operations, 1, begin, end)
    assert float(np.nansum(exact.values[1:] * np.diff(exact.end_ns))) == pytest.approx(800e6)
    assert shown.probe is not None
    first, last = int(shown.probe.begin_ns[0]), int(shown.probe.end_ns[-1])
    probed = probed_line(shown.probe, 0, "delay", first, last)
    assert probed.low is not None
    assert probed.high is not None
    assert 0 < probed.values.size <= MOST_POINTS // 3
    assert (probed.low <= probed.values).all()
    assert (probed.values <= probed.high).all()


def test_copies_that_took_no_time_have_no_bandwidth(told: ReproductionResults):
    probe = told.programs[0].shown.probe
    assert probe is not None
    own = probe.one_direction(0)
    assert len(own) > MOST_POINTS // 3  # so that the page joins neighbours
    begin, end = int(own.begin_ns[0]), int(own.end_ns[-1])
    one = dataclasses.replace(own, copy_ns=own.copy_ns * (np.arange(len(own)) > 9))
    joined = probed_line(one, 0, "gbs", begin, end)
    assert np.isnan(joined.values[0])
    assert np.isfinite(joined.values[-1])
    none = dataclasses.replace(own, copy_ns=own.copy_ns * 0)
    assert [direction.gbs for direction in probed(none)] == [None, None]


def test_the_terminal_has_a_row_for_each_program(told: ReproductionResults):
    text = watch_factory.shown(overview(told), width=180)
    rows = [line for line in text.splitlines() if re.match(r" +(vector-add|matmul)", line)]
    assert len(rows) == 2
    assert "+2.00 %" in rows[0]
    assert "+10.00 %" in rows[0]
    assert "0 % / 0 %" in rows[0]  # the trace is exact


@pytest.mark.browser
@pytest.mark.skipif(test_browser.BROWSER is None, reason="no Chromium on PATH")
@pytest.mark.parametrize("width", [1280, 420])
def test_a_browser_draws_all_charts_and_asks_the_network_for_nothing(
    told: ReproductionResults, width: int, tmp_path: Path
):
    source = test_browser.with_script(chapters_page_html(told), _RULER)
    done = test_browser.opened(source, width, tmp_path)
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    found = dict(re.findall(r'data-(drawn|over|requests)="(\w+)"', done.stdout[:2000]))
    assert found == {"drawn": str(4 * len(told.programs)), "over": "0", "requests": "0"}
