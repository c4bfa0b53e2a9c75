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
    modules = {
        "first": loops,
        "unseen": closed_loop.unseen,
        "later": closed_loop.later,
        "blind": closed_loop.blind,
        "fresh": closed_loop.fresh,
        "sixth": closed_loop.sixth,
        "seventh": closed_loop.seventh,
        "eighth": closed_loop.eighth,
        "ninth": closed_loop.ninth,
        "tenth": closed_loop.tenth,
        "eleventh": closed_loop.eleventh,
        "twelfth": closed_loop.twelfth,
        "thirteenth": closed_loop.thirteenth,
        "fourteenth": closed_loop.fourteenth,
        "fifteenth": closed_loop.fifteenth,
        "sixteenth": closed_loop.sixteenth,
        "literal": closed_loop.literal,
    }
    assert modules.keys() == closed_loop.SETS.keys()
    for name, module in modules.items():
        programs = closed_loop.SETS[name]
        assert programs.changes.keys() == {*module.PROGRAMS, *programs.in_cuda}
        text = (FOLDER / programs.source).read_text()
        assert all(f'"{name}"' in text for name in programs.in_cuda)
        assert set(programs.forked) <= programs.functions.keys()
        assert all(not programs.changes[name] for name in programs.tempting)


def test_no_program_is_in_two_sets(closed_loop):
    names = [name for programs in closed_loop.SETS.values() for name in programs.changes]
    assert len(names) == len(set(names)) == 173


def test_literal_programs_are_those_of_other_sets_in_another_form(closed_loop):
    sets = dict(closed_loop.SETS)
    literal = sets.pop("literal")
    others = {name: changes for one in sets.values() for name, changes in one.changes.items()}
    for name, (followed,) in literal.changes.items():
        assert followed not in others[name.removesuffix("-literal")]
    before = closed_loop.literal.either(lambda changed: iter([changed]), lambda: iter([None]))
    assert [*before(False), *before(True)] == [False, None]


def test_where_nothing_is_to_be_gained_a_tempting_change_is_run_too(closed_loop):
    later, unseen = closed_loop.SETS["later"], closed_loop.SETS["unseen"]
    blind, fresh = closed_loop.SETS["blind"], closed_loop.SETS["fresh"]
    sixth, seventh = closed_loop.SETS["sixth"], closed_loop.SETS["seventh"]
    ninth, tenth = closed_loop.SETS["ninth"], closed_loop.SETS["tenth"]
    assert closed_loop.SETS["sixteenth"].forms("mixer") == ("before", "after")
    assert closed_loop.SETS["sixteenth"].forms("screen") == ("before", "after")
    assert closed_loop.SETS["fifteenth"].forms("slides") == ("before", "after")
    assert closed_loop.SETS["fifteenth"].forms("phylo") == ("before", "after")
    assert closed_loop.SETS["fourteenth"].forms("upscale") == ("before", "after")
    assert closed_loop.SETS["fourteenth"].forms("parse") == ("before", "after")
    assert closed_loop.SETS["thirteenth"].forms("lbfgs") == ("before", "after")
    assert closed_loop.SETS["thirteenth"].forms("raymarch") == ("before", "after")
    assert closed_loop.SETS["twelfth"].forms("mcts") == ("before", "after")
    assert closed_loop.SETS["twelfth"].forms("lens") == ("before", "after")
    assert closed_loop.SETS["eleventh"].forms("distill") == ("before", "after")
    assert closed_loop.SETS["eleventh"].forms("parity") == ("before", "after")
    assert tenth.forms("speech") == tenth.forms("adaptive") == ("before", "after")
    assert ninth.forms("surveil") == ninth.forms("docking") == ("before", "after")
    assert closed_loop.SETS["eighth"].forms("gan") == ("before", "after")
    assert closed_loop.SETS["eighth"].forms("trace") == ("before", "after")
    assert seventh.forms("diffuse") == seventh.forms("scan") == ("before", "after")
    assert sixth.forms("loader") == sixth.forms("writer") == ("before", "after")
    assert fresh.forms("language") == fresh.forms("beam") == ("before", "after")
    assert blind.forms("sampler") == blind.forms("triple") == ("before", "after")
    assert later.forms("ring") == later.forms("decode") == ("before", "after")
    assert unseen.forms("steer") == ("before",)


def test_a_gain_as_predicted_is_close_and_in_its_interval(closed_loop):
    advice = [change(["pin"], 60e-3), change(["pin", "async"], 66e-3)]
    line, close, inside = closed_loop.compared(({"async", "pin"},), 3e-3, 2e-3, advice)
    assert line == "3.000, 2.000, +1.000; pin; async+pin; +1.100, +10.0%"
    assert close
    assert inside
    line, close, inside = closed_loop.compared(({"pin"},), 13e-3, 3e-3, advice)
    assert line.endswith("+1.000, -90.0%, off")
    assert not close
    assert not inside


def test_a_change_that_is_not_advised_counts_for_nothing(closed_loop):
    accepted, advice = ({"defer"}, {"pin", "batch"}), [change(["pin"], 1)]
    line, close, inside = closed_loop.compared(accepted, 3e-3, 2e-3, advice)
    assert line.endswith("pin; defer or batch+pin: not among the advice")
    assert not close
    assert not inside
    assert not closed_loop.leads(accepted, advice)


def test_of_several_accepted_names_the_one_advised_first_counts(closed_loop):
    both = {"pin", "async"}, {"pin"}
    plain, more = change(["pin"], 60e-3), change(["pin", "async"], 300e-3)
    line, close, _ = closed_loop.compared(both, 3e-3, 2e-3, [plain, more])
    assert line.endswith("; pin; pin; +1.000, +0.0%")
    assert close
    assert closed_loop.following(both, [more, plain]) == (both[0], [more])
    spurned = more | {"worth": False}
    assert closed_loop.following(both, [spurned, plain]) == (both[1], [plain])
    assert closed_loop.following(both, [spurned]) == (both[0], [spurned])
    assert closed_loop.leads(both, [spurned, plain])
    assert not closed_loop.leads(both, [change(["defer"], 1), plain])
    assert not closed_loop.leads(both, [spurned])


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


def stored(folder, rows):
    lines = ["program,turn,form,seconds,checksum", *rows]
    (folder / "steps.csv").write_text("\n".join(lines) + "\n")


def test_programs_whose_forms_print_different_checksums_count_for_nothing(
    closed_loop, monkeypatch, tmp_path, capsys
):
    stored(
        tmp_path,
        [
            "decode,0,before,0.003,12.5",
            "decode,0,after,0.002,12.5",
            "solver,0,before,0.003,7.25",
            "solver,0,after,0.002,7.5",
            "ring,0,before,0.002,1",
            "ring,0,after,0.003,1",
            "rollout,0,before,0.002,1",
            "rollout,0,after,,",
        ],
    )
    monkeypatch.setattr(closed_loop, "advised", lambda *_: [change(["defer"], 60e-3)])
    closed_loop.compare(tmp_path, "h100")
    lines = capsys.readouterr().out.splitlines()
    assert "decode: 3.000, 2.000, +1.000; defer; defer; +1.000, +0.0%" in lines
    assert "solver: checksums differ (7.25, 7.5), so it counts for nothing" in lines
    assert "rollout: not measured" in lines
    assert (
        "ring: 2.000, nothing is to be gained; defer for +1.000, wrong; batch takes 3.000, -1.000"
        in lines
    )
    assert lines[-4:] == [
        "1 of 6 gains within 25 % of the prediction or 2 % of a step",
        "1 of 6 gains within the interval of the prediction",
        "1 of 6 changes are the first advice",
        "0 of 2 programs in which nothing is to be gained got no advice",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
def test_intervals_are_as_wide_as_errors_are(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    intervals = importlib.import_module("intervals")
    lines = ["$ python closed_loop.py compare results/advise/one-contents"]
    for number in range(20):  # a tenth of a round of 10 ms off, one way and the other
        off = 1.0 if number % 2 else -1.0
        lines.append(f"a{number}: 10.000, 1.0, {5 + off:+.3f}; pin; pin; +5.000, +20.0%")
    lines.append("b: 10.0, 9.0, +1.0; defer; mapped+pin; +6.0, +500%, off")
    lines.append("c: 10.0, 9.0, +1.0; pin; keep: not among the advice")
    lines.append("d: 10.0, nothing is to be gained; nothing advised")
    gains = intervals.read("\n".join(lines))
    assert len(gains) == 20
    assert {one.of_set for one in gains} == {"one"}
    shares = intervals.best(gains)
    assert intervals.half_width(gains[0], shares) == pytest.approx(1.0, abs=0.05)
    assert intervals.count(gains, shares) == 20


def test_a_forked_program_that_fails_or_hangs_ends(closed_loop, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "torch", sys)  # only its import matters here
    counts = {"counts": lambda after: iter(range(60)), "fails": lambda after: iter([])}
    assert closed_loop.forked(counts, "counts", "after").endswith("checksum 59")
    assert closed_loop.step_of(closed_loop.forked(counts, "counts", "before"))[1] == "59"
    assert closed_loop.forked(counts, "fails", "before") == "fails: failed"
    assert "StopIteration" in capfd.readouterr().err
    monkeypatch.setattr(closed_loop, "LIMIT", 0)
    monkeypatch.setattr(closed_loop, "send_outcome", lambda *_: time.sleep(60))
    assert closed_loop.forked(counts, "hangs", "before") == "hangs: over 0 s"


def test_gains_that_differ_from_turn_to_turn_are_named(closed_loop):
    def rows(name, *turns):
        return [
            {"program": name, "turn": str(turn), "form": form, "seconds": str(seconds)}
            for turn, both in enumerate(turns)
            for form, seconds in zip(("before", "after"), both, strict=True)
        ]

    steady = rows("steady", (10e-3, 6e-3), (11e-3, 6e-3))  # 4 and 5 ms, 1.1 ms off at most
    differing = rows("differing", (10e-3, 8e-3), (14e-3, 8e-3))  # 2 and 6
    nothing = rows("nothing", (10e-3, 10.1e-3), (10e-3, 9.9e-3))  # within 2 % of a step
    names = ["steady", "differing", "nothing", "not measured"]
    assert closed_loop.unsteady([*steady, *differing, *nothing], names) == ["differing"]
    assert closed_loop.tolerance(4e-3, 10e-3) == 1e-3
    assert closed_loop.tolerance(-0.1e-3, 10e-3) == 0.2e-3
