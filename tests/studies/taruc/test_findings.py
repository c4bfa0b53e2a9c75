"""Planted effects are found with the right numbers, and a flat machine has none."""

from dataclasses import replace
from functools import cache

import pytest

from lanescope.copies import Memory
from lanescope.document.contents import Finding
from lanescope.results import Source
from lanescope.store.run import Run
from lanescope.studies.taruc.findings import findings
from tests.taruc_plan import contention, host, paper_machine
from tests.taruc_suite import FLAT, PLANTED, Speeds, suite_run


@cache
def planted_findings() -> tuple[Finding, ...]:
    run = suite_run()
    return tuple(findings(run.manifest.machine, run.results))


def found(kind: str, run: Run | None = None) -> list[Finding]:
    """Those of a kind; of the suite with everything planted where no run is named."""
    all_found = findings(run.manifest.machine, run.results) if run else planted_findings()
    return [f for f in all_found if f.kind == kind]


def first(kind: str, run: Run | None = None) -> str:
    return found(kind, run)[0].sentence


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(paper_machine(), marks=pytest.mark.native),
        paper_machine(1, 1),
        paper_machine(1, 0),
    ],
)
def test_a_flat_machine_has_none(machine):
    run = suite_run(machine, FLAT)
    assert findings(machine, run.results) == ()


@pytest.mark.native  # five seconds
def test_each_kind_comes_before_the_second_of_any():
    kinds = [f.kind for f in planted_findings()]
    assert kinds[0] == "far-host-memory"
    assert len(set(kinds[:12])) == 12


@pytest.mark.native
def test_every_finding_has_numbers_evidence_and_a_command():
    names = {r.experiment.name for r in suite_run().results}
    for one in planted_findings():
        assert any(unit in one.sentence for unit in (" GB/s", " ns", " µs", " ms")), one.sentence
        assert one.evidence
        assert set(one.evidence) <= names
        assert one.confirm.startswith("lanescope bench ")


@pytest.mark.native  # four seconds
def test_far_memory_costs_pageable_copies_alone():
    sentences = sorted(f.sentence for f in found("far-host-memory"))
    assert len(sentences) == 2
    assert sentences[1] == (
        "Memory of node 1 costs 38 % of copy bandwidth from socket 0: 12.0 GB/s to 7.43 GB/s with "
        "pageable memory, 64 MiB; pinned and write-combined are unaffected."
    )


def test_pinned_memory_takes_longer_to_allocate_and_less_to_touch():
    assert first("allocate-pinned") == (
        "Allocating 64 MiB of pinned memory takes 20.5 ms, 300 times as long as pageable memory "
        "(68.2 µs), but its first touch takes 68.2 µs and not 3.41 ms."
    )
    assert "98 % of allocation and touch" in first("first-touch")


def test_the_tlb_has_its_share_at_random_alone():
    assert "145 ns and not 100 ns a load" in first("tlb-random-chase")
    assert "31 % of the time is the TLB's" in first("tlb-random-chase")
    assert found("tlb-chase") == []


def test_random_loads_against_loads_in_order():
    assert "145 ns, 4.83 times as long as one in order (30.0 ns" in first("random-loads")


def test_copies_fall_out_of_a_cache():
    assert "40.0 GB/s at 4 MiB; above 4 MiB it falls to 12.0 GB/s (16 MiB)" in first("cache-steps")


def test_directions_of_copying_to_gpus():
    assert "copies of 64 KiB get 5.06 GB/s, 15 % less than asynchronous ones" in first("sync-async")
    assert "5.49 GB/s, 33 % less than of pinned memory" in first("pageable-device-copies")
    assert "5.49 GB/s, 50 % less than peer to peer (11.0 GB/s)" in first("staged-peers")


def test_a_pair_shares_the_link_that_saturates_first():
    pairs = found("shared-link")
    assert [p.evidence[0].split("/")[2] for p in pairs] == ["g2+g3"]
    assert "get 12.5 GB/s (to the GPU, near memory" in pairs[0].sentence
    assert "48 % less than alone in sum (24.0 GB/s)" in pairs[0].sentence
    assert "PCIe 3.0 x16 between h1 and s0 saturates first" in pairs[0].sentence


def test_far_memory_of_gpus():
    assert "40 %: 12.0 GB/s to 7.19 GB/s" in first("far-pcie")


def test_an_unfair_thread_is_named():
    unfair = [f.sentence for f in found("unfair") if "on h0 (" in f.sentence]
    assert unfair == [
        "4 threads on h0 (triad) share unfairly, Jain's index 0.86: the thread on CPU 3 gets "
        "2.50 GB/s, the others 9.99 GB/s on average."
    ]


def test_threads_that_fill_the_memory():
    speeds = replace(PLANTED, unfair_cpu=None)
    run = suite_run(paper_machine(1, 0), speeds, (contention,))
    assert first("saturation", run) == (
        "4 threads fill the memory of h0: 40.0 GB/s of triad; 8 threads get 40.0 GB/s, 78 % of "
        "the limit (memory of h0: 4 modules of 1600 MT/s)."
    )


@pytest.mark.parametrize("cost", [0.029, 0.05])
def test_differences_up_to_three_percent_are_not_told(cost: float):
    run = suite_run(paper_machine(2, 0), Speeds(remote=((Memory.PINNED, cost),)), (host,))
    assert bool(found("far-host-memory", run)) == (cost > 0.03)


def test_differences_within_the_intervals_are_not_told():
    run = suite_run(paper_machine(2, 0), Speeds(remote=((Memory.PINNED, 0.1),)), (host,))
    assert found("far-host-memory", run)
    wide = [
        replace(
            r,
            copies=tuple(
                replace(c, statistics=replace(c.statistics, half_width=0.08)) for c in r.copies
            ),
        )
        for r in run.results
    ]
    assert findings(run.manifest.machine, wide) == ()


def test_predictions_are_no_findings():
    run = suite_run()
    predicted = [replace(r, source=Source.PREDICTED) for r in run.results]
    assert findings(run.manifest.machine, predicted) == ()
