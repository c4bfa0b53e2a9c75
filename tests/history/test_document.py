"""What changed, since when, and what changed with it."""

import pytest

from lanescope.history.document import (
    against_history,
    changes,
    changes_headline,
    comparison_headline,
)
from lanescope.history.index import History
from tests.history.made_up import record, updated


@pytest.fixture
def history(tmp_path):
    with History(tmp_path / "history.sqlite", create=True) as made:
        yield made


def test_a_slow_gpu_is_named_since_its_day_with_the_driver_that_came_then(history):
    for day in range(12):
        slow = {"g3": 0.9} if day >= 8 else {}
        driver = "580.2" if day >= 8 else "570.1"
        history.add(updated(record(day, **slow), driver=driver))
    found = changes(history.series(), 0.02)
    paths = [one for one in found if one.newest]
    assert paths
    assert all("g3" in one.devices for one in paths)
    for one in paths:
        assert (one.last_before[:10], one.first_after[:10]) == ("2026-09-08", "2026-09-09")
        assert one.also_changed == ("driver 570.1 → 580.2",)
        assert one.effect == pytest.approx(-0.1, abs=0.02)
        assert one.runs == (8, 4)
        assert one.after < one.before
    said = changes_headline(found, 10, 10, 24)
    assert "slower than before" in said
    assert "since 2026-09-09 (driver 570.1 → 580.2 at the same time)" in said


def test_a_gpu_that_moved_says_so(history):
    for day in range(12):
        history.add(record(day, "n1" if day < 6 else "n2", **({"g0": 0.8} if day >= 6 else {})))
    found = [one for one in changes(history.series(), 0.02) if "g0" in one.devices]
    assert found
    assert all("host n1 → n2" in one.also_changed for one in found)


def test_unchanged_hosts_show_nothing(history):
    for day in range(10):
        for host in ("n1", "n2"):
            history.add(record(day, host, spread=0.004))
    assert changes(history.series(), 0.02) == []
    assert "3 paths: none is slower now" in changes_headline([], 3, 3, 20)
    some = "3 paths, 2 of them with the 4 runs that it takes: none is slower now than it was."
    assert some in changes_headline([], 2, 3, 20)
    none = changes_headline([], 0, 3, 3)
    assert none.startswith("3 runs, 3 paths: none can be judged, as it takes 4 runs of a path;")
    assert "slower" not in none


def test_only_what_concerns_a_part_is_shown(history):
    for day in range(12):
        history.add(record(day, **({"g3": 0.9} if day >= 8 else {})))
    slot = next(d.slot for d in record(0).devices if d.id == "g3")
    assert changes(history.series(), 0.02, slot)
    assert changes(history.series(), 0.02, "no such part") == []


def test_a_run_is_judged_by_its_own_past(history):
    for day in range(8):
        history.add(record(day))
    newest = record(20, g3=0.9)
    found = against_history(newest, history, 0.02)
    slower = {one.observation.label for one in found if one.slower}
    assert slower
    assert all("g3" in label for label in slower)
    assert "slower than their own history" in comparison_headline(found)
    sound = record(21)
    found = against_history(sound, history, 0.02)
    assert not any(one.slower for one in found)
    assert "without a certain loss" in comparison_headline(found)


def test_later_runs_are_no_past_of_an_earlier_one(history):
    runs = [record(day, **({"g3": 0.9} if day >= 6 else {})) for day in range(16)]
    for one in runs:
        history.add(one)
    first_slow = against_history(runs[6], history, 0.02)
    slower = {one.observation.label for one in first_slow if one.slower}
    assert slower
    assert all("g3" in label for label in slower)
    last_sound = against_history(runs[5], history, 0.02)
    assert {one.runs for one in last_sound} == {5}
    assert "without a certain loss" in comparison_headline(last_sound)


def test_too_few_runs_are_said(history):
    history.add(record(0))
    new = record(1)
    found = against_history(new, history, 0.02)
    assert all(one.shift is None for one in found)
    assert "it takes 4" in comparison_headline(found)
