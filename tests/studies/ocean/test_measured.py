"""A validation as a file: what is written reads back, and what is broken is one sentence."""

import json

import pytest

from lanescope.errors import InputError
from lanescope.prediction.predictor import Method
from lanescope.studies.ocean.measured import FILE, find, load
from tests.studies.link_parameters import fitted
from tests.studies.ocean.stored import FOLDER, case, check, h200, saved, timed, validation


def stored(tmp_path, **changes):
    whole = validation(case(timed(Method.EXPLICIT, 1, 10.0, 0.1), checks=[check(), check(None)]))
    saved(whole, tmp_path)
    table = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps(table | changes))
    return tmp_path / FILE


@pytest.mark.parametrize("parameters", [None, fitted()], ids=["without", "with"])
def test_what_is_written_reads_back(tmp_path, parameters):
    whole = validation(
        case(timed(Method.STREAMS, 3, 10.0, 0.1), checks=[check(2e-14), check(None)]),
        parameters=parameters,
        machine_key="a GPU; a CPU",
        finished=False,
    )
    assert load(saved(whole, tmp_path / "new" / "run")) == whole


def test_the_stored_h200_has_what_the_paper_has():
    found = h200()
    assert found.grid == (1024, 1024, 42)
    names = [one.name for one in found.cases]
    assert {"state mwjf, 1 output", "state mwjf, 3 outputs", "buoydiff mwjf"} <= set(names)
    for one in found.cases:
        assert {each.method for each in one.timed} == set(Method)
    assert not found.wrong


def test_wrong_outputs_are_those_beyond_the_tolerance_and_no_numbers():
    one = case(checks=[check(1e-13), check(2e-13), check(None)])
    assert [found.largest for _, found in validation(one).wrong] == [2e-13, None]


def test_a_run_is_found_by_its_folder_its_file_and_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path))
    path = saved(validation(case()), tmp_path / "one")
    for name in (str(tmp_path / "one"), str(path), "one"):
        assert find(name) == path
    with pytest.raises(InputError, match=r"'two' is no run of lanescope.validate\(\)"):
        find("two")
    with pytest.raises(InputError, match="no run"):
        find(str(FOLDER.parent))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": 9}, "has version 9 of its schema"),
        ({"grid": [64, 48]}, "must have 3 entries"),
        ({"grid": [64, 0, 10]}, "'grid' has 0 points"),
        ({"grid": [2**53, 64, 10]}, "'grid' has .* not 1 to"),
        ({"cases": [{"kernel": "sort"}]}, "'sort', not one of state"),
        ({"cases": 3}, "must be a list"),
        ({"speed": 3}, "unknown field 'speed'"),
        ({"parameters": {"schema": 1, "name": "x"}}, "missing"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_broken_file_is_one_sentence(tmp_path, changes, words):
    with pytest.raises(InputError, match=words) as caught:
        load(stored(tmp_path, **changes))
    assert str(tmp_path) in str(caught.value)


def test_times_that_cannot_be_are_refused(tmp_path):
    path = stored(tmp_path)
    table = json.loads(path.read_text())
    for seconds in ([], [0.0], [-1.0], ["fast"]):
        table["cases"][0]["timed"][0]["seconds"] = seconds
        path.write_text(json.dumps(table))
        with pytest.raises(InputError, match=FILE):
            load(path)
    for text in ("", "{", "[]", '{"schema": 1}'):
        path.write_text(text)
        with pytest.raises(InputError, match=FILE):
            load(path)
