"""What a reproduction runs, in which order, and the steps that programs tell."""

import json

import pytest

from lanescope.errors import InputError
from lanescope.studies.pcie_thesis.reproduction import (
    NAMES,
    SIZES,
    Mode,
    ProgramStep,
    moving,
    parse_steps,
    programs_for,
    steps_json,
    turns,
    work_seconds,
)
from lanescope.studies.pcie_thesis.results import quantity


def test_all_programs_of_the_thesis_and_its_outlook_are_run():
    programs = programs_for()
    assert [p.key for p in programs if p.arguments[0] == "vector-add"] == [
        f"vector-add-{size}" for size in SIZES
    ]
    assert {p.arguments[0] for p in programs} == set(NAMES)
    assert {p.key for p in programs if p.part == "outlook"} == {
        "concurrent-copies",
        "load-with-copies",
    }


def test_each_program_runs_in_each_direction_and_the_order_turns():
    programs = programs_for(("matmul", "vector-add"), ("25MB", "25 MB"))
    planned = turns(programs, 3)
    assert len(planned) == len({turn.folder for turn in planned}) == 3 * (1 + 2 * 3)
    for repetition, order in ((1, list(Mode)), (2, list(Mode)[::-1]), (3, list(Mode))):
        mine = [t for t in planned if t.repetition == repetition]
        assert mine[0].program is None
        assert mine[0].mode is Mode.PROBE
        for program in programs:
            assert [t.mode for t in mine if t.program == program] == order


@pytest.mark.parametrize(
    ("names", "sizes", "words"),
    [
        (("vector",), ("1MB",), "there is no program 'vector'"),
        (("vector-add",), ("1q",), "'1q' is not a size"),
        (("vector-add",), (), "no program is named"),
        ((), ("1MB",), "no program is named"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(names, sizes, words):
    with pytest.raises(InputError, match=words):
        programs_for(names, sizes)


def test_nothing_is_repeated_less_than_once():
    with pytest.raises(InputError, match="too few"):
        turns(programs_for(), 0)


STEPS = (
    ProgramStep("allocate", 10, 20, 0, 0, 0),
    ProgramStep("copies", 20, 1_000_000_020, 10**9, 2 * 10**9, 7),
    ProgramStep("check", 1_000_000_020, 2_000_000_010, 0, 8, 1),
)


def test_steps_read_back_as_they_were_told():
    text = f"a warning\n{json.dumps({'steps': steps_json(STEPS), 'wrong': 0})}\n"
    assert parse_steps(text) == STEPS


@pytest.mark.parametrize("text", ["", "no JSON", "{}", '{"steps": [{"name": "x"}]}', "[1]"])
def test_a_program_that_tells_no_steps_is_one_sentence(text):
    with pytest.raises(InputError, match="has not told its steps"):
        parse_steps(text)


def test_work_is_from_the_first_step_to_the_last():
    assert work_seconds(STEPS) == pytest.approx(2.0)
    assert STEPS[1].gbs == pytest.approx((1.0, 2.0))
    assert moving(STEPS, 1 << 20) == STEPS[1:2]
    assert moving(STEPS) == STEPS[1:]


def test_a_quantity_keeps_the_range_and_what_is_not_known_stays_out():
    found = quantity([3.0, None, 1.0, float("nan")], "s", "By hand.")
    assert found is not None
    assert (found.value, found.low, found.high, found.n) == (2.0, 1.0, 3.0, 2)
    assert quantity([None], "s", "By hand.") is None
