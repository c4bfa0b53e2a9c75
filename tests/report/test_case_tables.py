"""Cases on a terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from lanescope.cli.run_text import run_tables
from lanescope.copies.experiment import Case
from lanescope.machine.several import cluster_of
from lanescope.report.terminal import renderables
from lanescope.store.run import Run
from lanescope.studies.runs.cases import case_blocks
from tests.findings.machine.simulator import nvswitched
from tests.report import factory

HOST, PAIRS, BOTH, ALL, LATENCY = (
    "host_to_device_memcpy_ce",
    "device_to_device_memcpy_read_ce",
    "device_to_device_bidirectional_memcpy_write_sm",
    "all_to_one_write_ce",
    "host_device_latency_sm",
)


def printed(run: Run, *, mean: bool = False) -> str:
    console = Console(file=io.StringIO(), width=180)
    for part in renderables(case_blocks(run, mean=mean)):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined]


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"\d+\.\d\d(?= |$)", text)]


def row(text: str) -> str:
    """The only row of the only matrix."""
    (line,) = (ln for ln in text.splitlines() if re.fullmatch(r" +[\d.]+ +[\d.–]+ +[\d.]+ +", ln))
    return line


def test_one_row_ends_with_its_sum():
    first, second, total = numbers(row(printed(factory.bench_run(cases=(HOST,), slow="g1"))))
    assert first == pytest.approx(2 * second, abs=0.02)
    assert total == pytest.approx(first + second, abs=0.02)


def test_means_have_the_sum_of_means():
    run = factory.bench_run(cases=(HOST,))
    median, mean = (numbers(row(printed(run, mean=m))) for m in (False, True))
    assert mean[0] < median[0]
    assert mean[2] == pytest.approx(2 * mean[0], abs=0.02)


def test_a_sum_leaves_out_what_was_not_measured():
    text = printed(factory.bench_run(cases=(HOST,), missing="g1"))
    assert re.search(r"^ +55\.67 +– +55\.67 +$", text, re.M)
    assert "h0 -> g1: " in text
    assert "exclusive-process mode" in text


def test_pairs_and_latencies_are_not_summed():
    run = factory.bench_run(cases=(PAIRS, BOTH, LATENCY))
    lines = printed(run).splitlines()
    assert not any(" sum" in line for line in lines)
    heads = [line.split()[:2] for line in lines if re.search(r" g0 +g1 +$", line)]
    assert heads == [
        ["GB/s", "g0"],
        ["write1,", "GB/s"],
        ["write2,", "GB/s"],
        ["total,", "GB/s"],
        ["ns", "g0"],
    ]
    assert sum(re.match(r" g[01] ", line) is not None for line in lines) == 2 * 4


def test_the_sum_over_copies_holds_the_worst_verdict():
    run = factory.bench_run(nvswitched(4), (ALL,), slow="g2")
    text = printed(run)
    assert "3 healthy; 1 slow" in text
    assert text.count("slow: ") == 1  # three copies are slow for one reason
    widths = [c.statistics.half_width for r in run.results for c in r.copies]
    assert f"95 % half-width ± {max(widths) * 100:.2f} % at most" in text


def test_what_does_not_apply_says_why():
    text = printed(factory.bench_run(nvswitched(1), (HOST, PAIRS)))
    assert f"{PAIRS}  Each GPU reads from each other, pair by pair.\n" in text
    assert text.count("Not applicable: it takes two GPUs or more") == 1


def test_an_unfinished_run_shows_what_it_has():
    whole = factory.bench_run(cases=(HOST,))
    text = printed(replace(whole, results=whole.results[:1]))
    assert re.search(r"^ +55\.67 +– +55\.67 +$", text, re.M)
    assert "the run ended before it" in text


def test_a_run_of_cases_shows_its_notes_and_with_verbose_every_copy():
    run = factory.bench_run(cases=(HOST, "host_to_device_bidirectional_memcpy_ce"))
    noted = replace(run, manifest=replace(run.manifest, notes=("Copies are smaller.",)))

    def shown(*, verbose: bool) -> str:
        console = Console(file=io.StringIO(), width=180)
        for part in run_tables(noted, verbose=verbose):
            console.print(part)
        return console.file.getvalue()  # type: ignore[attr-defined]

    assert "note: Copies are smaller." in shown(verbose=False)
    assert "g1 → h0" not in shown(verbose=False)  # it only interferes
    assert "g1 → h0" in shown(verbose=True)


def test_a_run_without_cases_prints_none():
    assert printed(factory.run_of([], factory.two_gpus())) == ""
    empty = factory.run_of([], factory.two_gpus())
    of_one = replace(empty, manifest=replace(empty.manifest, cases=(Case("a", "b", ()),)))
    assert list(renderables(case_blocks(of_one)))[1:] == [""]


def test_gpus_of_several_nodes_head_rows_and_columns():
    run = factory.bench_run(cases=(PAIRS,))
    several = cluster_of([run.manifest.machine])
    text = printed(replace(run, manifest=replace(run.manifest, machine=several)))
    assert "n0.g0" in text
    assert "n0.g1" in text
