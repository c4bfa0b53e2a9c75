"""What is stored of all sets of programs is what the present `advise` comes to."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

import lanescope

ROOT = Path(__file__).parents[2]
PRINTED = ROOT / "benchmarks/results/h100-x1/advise"
ANEW = "advise changed: 'closed_loop.py compare' each set again, and store what it prints"


@pytest.fixture
def script(monkeypatch):
    """Import a script of benchmarks/advise by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks/advise"))
    return importlib.import_module


def printed_of(name):
    """Return what `compare` printed of a set."""
    text = (PRINTED / "all-sets.txt").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^\$ python \S+ compare \S+/{name}\n(.*?)(?=^\$|\Z)", text, re.M | re.S)
    return found


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("blind", "wave"),  # pin
        ("tenth", "seismic"),  # prefetch
        ("first", "search"),  # defer
        ("unseen", "steer"),  # nothing
    ],
)
def test_the_line_of_a_program_is_what_advise_comes_to(script, name, program):
    closed_loop = script("closed_loop")
    folder = PRINTED / name
    advice = lanescope.advise(
        run=folder / "watches" / program, parameters=folder / "link-parameters.json"
    )
    phases = json.loads(advice.to_json())["phases"]
    changes = [change for phase in phases for change in phase["changes"]]
    forms = closed_loop.median_steps(closed_loop.measured(folder))[program]
    if accepted := closed_loop.SETS[name].changes[program]:
        line, *_ = closed_loop.compared(accepted, forms["before"], forms["after"], changes)
    else:
        line, _ = closed_loop.unchanged(forms["before"], changes)
    assert f"{program}: {line}" in printed_of(name).splitlines(), ANEW


def test_totals_are_those_of_what_was_printed(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["totals.py", str(PRINTED)])
    script("totals").main()
    assert capsys.readouterr().out == (PRINTED / "totals.txt").read_text(encoding="utf-8")


def test_intervals_are_those_of_what_was_printed(script):
    """The first lines: each set left out takes longer."""
    intervals = script("intervals")
    gains = list(intervals.read((PRINTED / "all-sets.txt").read_text(encoding="utf-8")))
    share, of_round = intervals.best(gains)
    first, within, *_ = (PRINTED / "intervals.txt").read_text(encoding="utf-8").splitlines()
    assert first == f"{len(gains)} gains: {share:.2f} of the gain and {of_round:.3f} of a round"
    held = intervals.count(gains, (share, of_round))
    assert within == f"within: {held}; {intervals.missed(gains, (share, of_round))} not"
