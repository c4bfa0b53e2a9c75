"""Cases and diagnoses on the page hold the same numbers and words as everywhere else."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest

from lanescope.copies.experiment import Case
from lanescope.findings.machine import diagnose
from lanescope.report import document_page as page_plots
from lanescope.report.document_page import blocks_html
from lanescope.report.format import percent_text
from lanescope.results import Status
from lanescope.store.run import Run
from lanescope.studies.runs.cases import case_blocks, number_text
from lanescope.studies.runs.document import page_html
from lanescope.studies.runs.rows import CellValue, cell_values
from tests.findings.machine import simulator
from tests.report import factory
from tests.report.conftest import Document
from tests.report.factory import NASTY

HOST, PAIRS, ALL = (
    "host_to_device_memcpy_ce",
    "device_to_device_bidirectional_memcpy_read_ce",
    "one_to_all_write_ce",
)


@pytest.fixture(autouse=True)
def no_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_plots, "vega_script", lambda: None)


def article(source: str, case: str) -> str:
    return source.split(f'id="case-{case}"')[1].split("</article>")[0]


def shown_cells(source: str) -> list[tuple[str, str]]:
    """Words and title of every cell, without the signs that only eyes need."""
    found = re.findall(r'<span class="cell[^"]*" title="([^"]*)"[^>]*>(.*?)</span></td>', source)
    cells = [(re.sub(r'<span aria-hidden="true">.</span>', "", body), t) for t, body in found]
    return [(re.sub("<[^>]*>", "", body), unescape(title)) for body, title in cells]


def values_of(run: Run, case: Case) -> list[CellValue]:
    results = {r.experiment.name: r for r in run.results}
    return [v for matrix in case.matrices for v in cell_values(matrix, results)]


@pytest.mark.parametrize(
    "run",
    [factory.bench_run(slow="g0"), factory.bench_run(missing="g1"), factory.predicted_run("bench")],
    ids=["slow", "missing", "predicted"],
)
def test_cells_hold_the_numbers_of_the_run(run: Run):
    source = page_html(run)
    for case in run.manifest.cases:
        cells = shown_cells(article(source, case.name))
        values = values_of(run, case)
        units = [m.unit for m in case.matrices for _ in m.cells]
        assert len(cells) == len(values) > 0
        for (words, title), value, unit in zip(cells, values, units, strict=True):
            number = number_text(value.median, unit)
            assert words == (f"slow {number}" if value.verdict.status is Status.SLOW else number)
            assert value.verdict.reason in title
            assert title.startswith(str(value.copies[0].copy.source.part) if value.copies else "")
            if value.share_of_limit is not None:
                assert f"{percent_text(value.share_of_limit)} of it reached" in title
            assert ("p5 to p95" in title) == (value.low is not None)


def test_slow_cells_are_told_by_a_word_a_sign_and_their_weight():
    run = factory.bench_run(cases=(HOST,), slow="g0")
    shown = article(page_html(run), HOST)
    (cell,) = re.findall(r'<span class="cell bad".*?</td>', shown, re.DOTALL)
    assert 'aria-hidden="true">▼<' in cell
    assert ">slow</span>" in cell
    assert "<strong>27.84</strong>" in cell
    text = Document(f"<article {shown}</article>").text
    assert "47.6 % of the limit, 90 % or more expected" in text
    assert "47.6 % to 95.3 % of the limit; 1 healthy; 1 slow" in text


def test_one_row_has_its_sum_and_pairs_have_none():
    run = factory.bench_run(cases=(HOST, PAIRS))
    source = page_html(run)
    total = sum(v.median or 0 for v in values_of(run, run.manifest.cases[0]))
    assert f">{total:.2f}</td></tr>" in article(source, HOST)
    assert ">sum<" not in article(source, PAIRS)
    assert all(f">{name}, GB/s<" in article(source, PAIRS) for name in ("read1", "read2", "total"))


def test_what_is_not_applicable_says_why():
    two = factory.two_gpus()
    machine = replace(two, gpus=two.gpus[:1], links=(two.links[0], two.links[2]))
    source = page_html(factory.bench_run(machine))
    assert "Not applicable: it takes two GPUs or more." in article(source, ALL)
    assert shown_cells(article(source, HOST))
    overview = source.split('id="cases"')[1].split("</table>")[0]
    assert "not applicable: it takes two GPUs or more" in overview


def test_gpus_out_of_reach_of_each_other_say_so():
    machine = factory.eight_gpus()
    apart = replace(machine, gpus=tuple(replace(g, peers=(g.index ^ 1,)) for g in machine.gpus))
    source = page_html(factory.bench_run(apart, (PAIRS,)))
    cells = shown_cells(article(source, PAIRS))
    # three pairs of usable GPUs reach each other, and one GPU is not usable at all
    assert sum("these GPUs cannot reach each other" in title for _, title in cells) == 3 * 36
    assert sum("is not usable" in title for _, title in cells) == 3 * 14
    assert sum(words == "–" for words, _ in cells) == 3 * 50


def test_many_cases_have_an_overview_that_leads_to_each():
    run = factory.bench_run(slow="g0")
    source = page_html(run)
    overview = source.split('id="cases"')[1].split("</table>")[0]
    links = re.findall(r'href="#([^"]+)"', overview)
    assert len(links) == len(run.manifest.cases) == 35
    assert all(f'id="{link}"' in source for link in links)
    row = overview.split(f"case-{HOST}")[1].split("</tr>")[0]
    assert all(words in row for words in ("27.84 GB/s", "55.67 GB/s", "47.6 % to 95.3 %", "1 of 2"))
    assert 'href="#case-' not in page_html(factory.bench_run(cases=(HOST, PAIRS)))


def test_an_unfinished_run_shows_which_cells_are_missing():
    whole = factory.bench_run(cases=(HOST,))
    source = page_html(Run(whole.manifest, whole.results[:1]))
    assert [words for words, _ in shown_cells(article(source, HOST))] == ["55.67", "–"]
    assert "the run ended before it" in article(source, HOST)


def test_a_run_without_cases_has_no_such_section():
    source = page_html(factory.check_run())
    assert 'id="cases"' not in source
    assert 'id="diagnoses"' not in source


def test_markup_in_words_of_cases_stays_text():
    run = factory.bench_run(cases=(HOST,), missing="g1")
    results = [
        replace(r, not_measured=r.not_measured and replace(r.not_measured, reason=NASTY))
        for r in run.results
    ]
    (case,) = run.manifest.cases
    cases = (replace(case, description=NASTY), replace(case, name="no", not_applicable=NASTY))
    changed = Run(replace(run.manifest, cases=cases), results)
    section = blocks_html(case_blocks(changed))
    document = Document(section)
    assert document.text.count(NASTY) == 3
    assert not {"b", "script"} & {tag for tag, _ in document.tags}


def test_hundreds_of_paths_in_cells_are_folded_and_not_plotted():
    document = Document(page_html(factory.bench_run(factory.eight_gpus())))
    assert not any(a.get("class") == "plot" for _, a in document.tags)
    assert [a for tag, a in document.tags if tag == "details"]


def test_diagnoses_stand_above_everything_else():
    machine = simulator.switched()
    results = simulator.simulate(simulator.slower_link(machine, "s2", 3, 16))
    (found,) = diagnose(machine, results)
    source = page_html(factory.run_of(results, machine))
    assert source.index('id="diagnoses"') < source.index('id="topology"')
    shown = source.split('id="diagnoses"')[1].split("</section>")[0]
    text = Document(f"<section {shown}</section>").text
    for words in (found.kind, found.sentence, found.confirm, found.remedy, *found.evidence):
        assert words in text
    assert re.findall("<code>(.*?)</code>", shown)[0].count("lspci") == 1
