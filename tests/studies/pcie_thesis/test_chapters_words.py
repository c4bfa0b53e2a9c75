"""Sentences of a reproduction, from numbers alone."""

from dataclasses import replace

import pytest

from lanescope.store.folder import State
from lanescope.studies.pcie_thesis.evaluate import program_sentences
from lanescope.studies.pcie_thesis.reproduction import (
    Mode,
    Reproduction,
    ReproductionRequest,
    programs_for,
)
from lanescope.studies.pcie_thesis.results import (
    NoticedResults,
    ProgramResults,
    Quantity,
    ReproductionResults,
    SourceResults,
    StepResults,
)
from lanescope.trace.limits import LinkLimit
from tests.studies.pcie_thesis.reproductions import MACHINE


def q(value: float, unit: str = "s", n: int = 3) -> Quantity:
    return Quantity(value, unit, "By hand.", value, value, n)


LIMIT = LinkLimit(50.0, "by hand")
PLAIN = ProgramResults(
    programs_for(("matmul",))[0], (10**9, 0), 1, (q(40.0), None), {}, {}, (), (), ()
)


def results_of(folder) -> ReproductionResults:
    asked = ReproductionRequest(
        "x", "2026", "0.3.0", MACHINE, 0, 1, (PLAIN.program,), State.COMPLETE
    )
    idle = (q(5e-6), None)
    return ReproductionResults(
        Reproduction(asked, (), folder), 1, (LIMIT, LIMIT), (None, None), idle, ()
    )


COUNTED = SourceResults(
    "throughput",
    used=True,
    deviation=(q(-0.01, "share"), None),
    interval_seconds=q(0.02),
    shaped=1,
    copying=4,
    samples=1000,
    lost=0,
)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (COUNTED, "differ from the program's by -1.00 % to the GPU."),
        (COUNTED, "sees the shape of 1 of the 4 steps that copy; the others are shorter"),
        (replace(COUNTED, shaped=4), "sees the shape of all 4 steps that copy."),
        (
            replace(COUNTED, highest_gbs=(q(9.0), None)),
            "9.00 GB/s, where a step copied at 40.0 GB/s",
        ),
        (replace(COUNTED, highest_gbs=(q(55.0), None)), "more than the link carries (50.0 GB/s)"),
        (replace(COUNTED, lost=7), "throughput lost 7 samples of 1,000."),
        (replace(COUNTED, deviation=(None, None)), "does not know enough of the steps that copy"),
        (SourceResults("pm", used=False, reason="No right."), "pm could not watch: No right."),
        (SourceResults("trace", used=True), "no process told of its copies"),
        (
            SourceResults("trace", used=True, copies=q(3), deviation=(q(0), q(0))),
            "has 3 copies by the nanosecond and agrees with the program to the byte",
        ),
        (
            SourceResults("trace", used=True, copies=q(3), deviation=(q(0.5), None)),
            "with +50.00 % of difference",
        ),
    ],
)
def test_what_a_source_saw_follows_from_its_numbers(tmp_path, source, words):
    found = program_sentences(replace(PLAIN, sources=(source,)), results_of(tmp_path))
    assert any(words in sentence for sentence in found.sources), found.sources


def test_what_is_within_the_link_and_not_diluted_is_not_worth_a_sentence(tmp_path):
    fine = replace(COUNTED, highest_gbs=(q(41.0), None))
    found = program_sentences(replace(PLAIN, sources=(fine,)), results_of(tmp_path))
    assert not any("fastest record" in sentence for sentence in found.sources)


@pytest.mark.parametrize(
    ("delay", "words"),
    [(20e-6, "and 20.0 µs during 'compute'"), (6e-6, "in no step more than 6.00 µs")],
)
def test_a_raised_delay_is_told_with_its_step(tmp_path, delay, words):
    steps = (StepResults("compute", 0, 0, 0, {}, probe_delay_seconds=(q(delay), None)),)
    noticed = (NoticedResults("h2d", 2, 3, 1, q(0.25)),)
    one = replace(
        PLAIN, steps=steps, noticed=noticed, slowdown={Mode.PROBE: replace(q(0.1), low=0.05)}
    )
    found = program_sentences(one, results_of(tmp_path)).probe
    assert any(words in sentence for sentence in found), found
    assert "noticed 2 of 3 steps that copy to the GPU" in found[0]
    assert "once took something else for use of the link; it was blind for up to 250 ms" in found[0]
    assert found[-1].endswith("+10.00 % (+5.00 to +10.00 % in 3 repetitions).")


def test_what_concurrent_steps_cost_each_other_is_told_of_unwatched_runs(tmp_path):
    times = {
        "copies to the device": 1.0,
        "copies to the host": 2.0,
        "copies both ways": 2.4,
        "copies alone": 1.0,
        "load alone": 2.0,
        "copies with the load": 1.1,
        "load with the copies": 2.0,
    }
    steps = tuple(StepResults(n, 0, 0, 0, {Mode.PLAIN: q(t)}) for n, t in times.items())
    found = program_sentences(replace(PLAIN, steps=steps), results_of(tmp_path)).program
    assert "1.20 times what the slower direction took alone, and 0.80 times both" in found[0]
    assert found[1:] == (
        "'copies with the load' took +10.0 % against 'copies alone'.",
        "'load with the copies' took +0.0 % against 'load alone'.",
    )
    assert program_sentences(PLAIN, results_of(tmp_path)).program == ()
