"""The closed loop of advise: its programs can be run, and what it says of advice is right."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

import pytest

from lanescope.examples import loops

FOLDER = Path(__file__).parents[2] / "benchmarks/advise"


@pytest.fixture
def closed_loop(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("closed_loop")


def change(steps, gain, worth=True):
    return {
        "kind": "+".join(steps),
        "steps": steps,
        "worth": worth,
        "why_not": "" if worth else "too little",
        "predicted_run_gain_seconds": {"value": gain, "low": gain / 2, "high": gain * 2},
    }


def test_each_program_is_a_loop_or_in_cuda(closed_loop):
    for name, module in (("first", loops), ("unseen", closed_loop.unseen)):
        programs = closed_loop.SETS[name]
        assert programs.changes.keys() == {*module.PROGRAMS, *programs.in_cuda}
        text = (FOLDER / programs.source).read_text()
        assert all(f'"{name}"' in text for name in programs.in_cuda)
    assert set(closed_loop.unseen.IN_PYTORCH) < closed_loop.unseen.PROGRAMS.keys()


def test_a_gain_as_predicted_is_close_and_in_its_interval(closed_loop):
    advice = [change(["pin"], 60e-3), change(["pin", "async"], 66e-3)]
    line, close, inside = closed_loop.compared({"async", "pin"}, 3e-3, 2e-3, advice)
    assert line == "3.000, 2.000, +1.000; pin; async+pin; +1.100, +10.0%"
    assert close
    assert inside
    line, close, inside = closed_loop.compared({"pin"}, 13e-3, 3e-3, advice)
    assert line.endswith("+1.000, -90.0%, off")
    assert not close
    assert not inside


def test_a_change_that_is_not_advised_counts_for_nothing(closed_loop):
    line, close, inside = closed_loop.compared({"defer"}, 3e-3, 2e-3, [change(["pin"], 1)])
    assert line.endswith("not among the advice")
    assert not close
    assert not inside


def test_what_waits_once_does_the_same_without_a_step_of_its_own(closed_loop):
    pin, both = change(["pin"], 60e-3), change(["pin", "async"], 66e-3)
    once = pin | {"waits_once": True}
    assert closed_loop.doing({"pin", "async"}, [pin]) == []
    assert closed_loop.doing({"pin", "async"}, [once]) == [once]
    assert closed_loop.doing({"pin", "async"}, [once, both]) == [both]
    assert closed_loop.doing({"pin"}, [once, both]) == [once]
    assert closed_loop.doing({"defer", "async"}, [once, both]) == []


def test_advice_where_nothing_is_to_be_gained_is_wrong(closed_loop):
    small = change(["pin"], 1e-3, worth=False)
    assert closed_loop.unchanged(2e-3, [small]) == (
        "2.000, nothing is to be gained; nothing advised",
        True,
    )
    line, right = closed_loop.unchanged(2e-3, [small, change(["defer"], 60e-3)])
    assert line == "2.000, nothing is to be gained; defer for +1.000, wrong"
    assert not right


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
def test_a_forked_program_that_fails_or_hangs_ends(closed_loop, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "torch", sys)  # only its import matters here
    counts = {"counts": lambda after: iter(range(60)), "fails": lambda after: iter([])}
    monkeypatch.setattr(closed_loop.unseen, "PROGRAMS", counts)
    assert closed_loop.forked("counts", "after").endswith("checksum 59")
    assert closed_loop.step_of(closed_loop.forked("counts", "before"))[1] == "59"
    assert closed_loop.forked("fails", "before") == "fails: failed"
    assert "StopIteration" in capfd.readouterr().err
    monkeypatch.setattr(closed_loop, "LIMIT", 0)
    monkeypatch.setattr(closed_loop, "send_outcome", lambda *_: time.sleep(60))
    assert closed_loop.forked("hangs", "before") == "hangs: over 0 s"
