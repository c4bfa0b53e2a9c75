"""What watching costs a program, by running it again and again."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import sys
import tempfile
import threading

import pytest

from lanescope.errors import InputError
from lanescope.studies.watch_blocks import turns_text
from lanescope.studies.watch_report import turns_json
from lanescope.trace.run import WatchTurns, read_turns, store_turns
from lanescope.watching import cost as taking
from lanescope.watching.cost import take_turns
from lanescope.watching.launcher import Launched
from lanescope.watching.session import Watch
from tests.patience import PATIENCE_S
from tests.studies.pcie_thesis.reproductions import MACHINE


class Gone(Launched):
    """A program that was there when it was run first."""

    def __init__(self, program: tuple[str, ...]) -> None:
        object.__setattr__(self, "program", program)


def asked(code: str) -> Watch:
    program = Launched((sys.executable, "-c", code))
    return Watch(MACHINE, program, "lanescope watch", lambda folder: ())


def test_the_program_runs_in_turns_and_prints_nothing(tmp_path, capfd):
    seen = tmp_path / "seen"
    code = f"open({str(seen)!r}, 'a').write('x'); print('again')"
    told = take_turns(asked(code), 2, tmp_path)
    assert told is not None
    assert (len(told.plain), len(told.watched)) == (2, 2)
    assert min(told.plain + told.watched) > 0
    assert seen.read_text() == "xxxx"
    assert capfd.readouterr() == ("", "")
    assert read_turns(tmp_path) == told


def test_every_other_turn_begins_with_the_other_direction(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(taking, "_seconds", lambda a, p, watching, s: order.append(watching) or 1.0)
    take_turns(asked(""), 3, tmp_path)
    assert order == [False, True, True, False, False, True]


def test_a_program_that_fails_the_second_time_is_told(tmp_path):
    with pytest.raises(InputError, match="ended with 3 when it was run again for --turns"):
        take_turns(asked("raise SystemExit(3)"), 1, tmp_path)


def test_a_signal_keeps_whole_turns(tmp_path, monkeypatch):
    whole = taking._seconds
    done = []

    def seconds(what, place, watching, stopped):
        if len(done) == 2:  # in the second turn the program sleeps, until somebody interrupts
            what = asked(f"import time; time.sleep({2 * PATIENCE_S})")
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        done.append(watching)
        return whole(what, place, watching, stopped)

    monkeypatch.setattr(taking, "_seconds", seconds)
    told = take_turns(asked(""), 5, tmp_path)
    assert told is not None
    assert len(told.plain) == len(told.watched) == 1
    assert read_turns(tmp_path) == told


@pytest.mark.parametrize("at", ["lanescope.trace.store.write_columns", "pathlib.Path.mkdir"])
def test_a_full_disk_of_temporary_files_is_told_with_what_helps(tmp_path, monkeypatch, at):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(at, full)
    with pytest.raises(InputError, match=r"temporary files: No space left.*TMPDIR") as caught:
        take_turns(asked(""), 1, tmp_path)
    # the folder of the turn is gone, and is not the one that --out names
    assert "is kept" not in str(caught.value)
    assert "--out" not in str(caught.value)


@pytest.mark.parametrize("kind", ["TemporaryDirectory", "TemporaryFile"])
def test_without_temporary_files_there_is_a_sentence(tmp_path, monkeypatch, kind):
    def missing(*_, **__):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, kind, missing)
    with pytest.raises(InputError, match=r"No usable temporary directory.*TMPDIR"):
        take_turns(asked(""), 1, tmp_path)


def test_a_program_that_has_gone_is_told(tmp_path):
    gone = dataclasses.replace(asked(""), waited=Gone((str(tmp_path / "gone"),)))
    with pytest.raises(InputError, match=r"gone cannot be run.*No such file"):
        take_turns(gone, 1, tmp_path)


def test_slowdowns_are_of_the_turns_own_plain_run():
    told = WatchTurns((1.0, 2.0, 4.0), (1.1, 2.2, 4.4))
    assert told.slowdown == pytest.approx((0.1, 0.1, 0.1))
    uneven = WatchTurns((1.0,) * 10, tuple(1 + i / 100 for i in range(10)))
    median, low, high = uneven.slowdown
    assert median == pytest.approx(0.045)
    assert (low, high) == pytest.approx((0.01, 0.08))  # second and ninth of ten: 97.9 %


def test_they_are_told_with_their_interval():
    one = turns_text(WatchTurns((0.017,), (0.007,)))
    assert "17.0 ms unwatched, 7.00 ms watched; one turn of each does not tell" in one
    few = turns_text(WatchTurns((1.0, 1.0), (1.01, 1.03)))
    assert "+2.00 % (range +1.00 % to +3.00 %)" in few
    many = turns_text(WatchTurns((1.0,) * 8, (1.01,) * 8))
    assert "95 % interval" in many
    assert turns_json(WatchTurns((1.0,), (1.5,)))["median_share"] == pytest.approx(0.5)


def test_damaged_turns_do_not_read(tmp_path):
    store_turns(tmp_path, WatchTurns((1.0,), (2.0,)))
    (tmp_path / "turns.json").write_text("{}")
    with pytest.raises(InputError, match=r"turns\.json: field 'plain' is missing"):
        read_turns(tmp_path)


def test_a_run_has_its_turns_and_its_page_tells_them(tmp_path):
    from lanescope.findings.trace import evaluate_watch
    from lanescope.trace.store import read_watch
    from lanescope.watching.session import watch

    run = watch(dataclasses.replace(asked(""), out=tmp_path / "run"))
    take_turns(asked(""), 1, tmp_path / "run")
    back = read_watch(tmp_path / "run")
    assert run.turns is None
    assert back.turns is not None
    assert json.loads((tmp_path / "run" / "turns.json").read_text())["plain"]
    assert evaluate_watch(back).summary.turns == back.turns
