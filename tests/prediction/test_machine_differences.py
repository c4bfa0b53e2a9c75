"""What machines of one kind differ by, which benchmarks/model/README.md compares errors with."""

import runpy
from pathlib import Path

import pytest

from lanescope.prediction.predictor import Method

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "benchmarks/model/machine_differences.py"))
PRINTED = ROOT / "benchmarks/results/h200-x1/machines/differences.txt"
MACHINE, ROUND = SCRIPT["Source"].MACHINE, SCRIPT["Source"].ROUND


def case(kernels, *seconds):
    """Return a case of one run, whose kernel took so long in one launch, in two, in four."""
    return {
        "workload": "made-up",
        "h2d_bytes": 1 << 20,
        "kernels": {str(1 << i): [took] for i, took in enumerate(kernels)},
        "runs": [{"method": "Explicit", "streams": 1, "seconds": list(seconds)}],
    }


def test_each_machine_is_compared_with_every_other_one_and_with_its_other_round():
    cases = {"slow": [case((), 4.0, 4.0, 2.0, 2.0)], "fast": [case((), 1.0, 1.0, 1.0, 1.0)]}
    found = list(SCRIPT["measured"](cases))
    assert {one.cell for one in found} == {(Method.EXPLICIT, 1, "made-up", 1)}
    others = {one.machines: one.error for one in found if one.source is MACHINE}
    assert others == {("slow", "fast"): 2.0, ("fast", "slow"): pytest.approx(-2 / 3)}
    rounds = [(one.machines[0], one.error) for one in found if one.source is ROUND]
    assert sorted(rounds) == [("fast", 0.0), ("fast", 0.0), ("slow", -0.5), ("slow", 1.0)]


def test_what_events_add_shows_where_parts_of_a_kernel_run_side_by_side():
    side_by_side = case((86.0, 166.0, 326.0))  # 80 each, and 6
    behind = case((84.0, 85.0, 87.0))  # parts of a kernel that fills the GPU
    few_parts = case((80.0, 160.0))
    assert SCRIPT["added_by_events"]([behind, side_by_side, few_parts]) == 6.0


def test_a_kernel_loses_what_events_add_once_however_many_launches_it_is():
    less = SCRIPT["without_events"](case((86.0, 166.0, 7.0)), 6.0)
    assert less["kernels"] == {"1": [80.0], "2": [160.0], "4": [1.75]}
    assert less["h2d_bytes"] == 1 << 20


def test_what_is_printed_of_the_stored_times_is_what_they_give(capsys):
    names = SCRIPT["NAMES"]
    SCRIPT["print_errors"](
        "all machines", SCRIPT["measured"]({name: SCRIPT["cases_of"](name) for name in names})
    )
    lines = capsys.readouterr().out.splitlines()[3:]
    assert len(lines) == 50  # five methods of five sizes, by another machine and another round
    assert set(lines) <= set(PRINTED.read_text().splitlines())
