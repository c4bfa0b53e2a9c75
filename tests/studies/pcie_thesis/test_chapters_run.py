"""Runs a reproduction with programs and sources that only pretend."""

import json
import os
import signal
import sys
import threading
import time

import pytest

from lanescope.store.folder import State
from lanescope.studies.pcie_thesis import carry_out as carrying
from lanescope.studies.pcie_thesis.reproduction import (
    Mode,
    ReproductionFolder,
    ReproductionRequest,
    programs_for,
    read_reproduction,
    turns,
)
from lanescope.watching.launcher import Captured, Stopped
from tests.patience import PATIENCE_S
from tests.studies.pcie_thesis.reproductions import MACHINE

PROGRAMS = programs_for(("matmul", "vector-add"), ("25MB",))
TELLS = """
import json, sys, time
begin = time.time_ns()
time.sleep(float(sys.argv[1]))
step = {"name": "copy", "begin_ns": begin, "end_ns": time.time_ns()}
print(json.dumps({"steps": [step | {"h2d_bytes": 4, "d2h_bytes": 0, "copies": 1}]}))
"""


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch):
    """Let programs sleep for a while, and nothing watch."""
    lasts = {"seconds": 0.01}
    command = lambda program, gpu: (sys.executable, "-c", TELLS, str(lasts["seconds"]))  # noqa: E731
    monkeypatch.setattr(carrying, "command_of", command)
    monkeypatch.setattr(carrying, "sources_of", lambda direction, gpu, folder: ())
    monkeypatch.setattr(carrying, "IDLE_SECONDS", 0.01)
    return lasts


def folder_in(path):
    asked = ReproductionRequest(
        "lanescope", "2026-11-21T18:21:14+00:00", "0.3.0", MACHINE, 0, 1, PROGRAMS
    )
    return ReproductionFolder(path / "run", asked)


@pytest.mark.usefixtures("pretended")
def test_every_turn_is_run_and_stored(tmp_path):
    seen = []
    folder = folder_in(tmp_path)
    ended = carrying.carry_out(folder, lambda turn, number, total: seen.append((turn, total)))
    assert ended is None
    planned = turns(PROGRAMS, 1)
    assert [turn for turn, _ in seen] == list(planned)
    found = read_reproduction(folder.folder)
    assert found.asked.state is State.COMPLETE
    assert [done.turn for done in found.done] == list(planned)
    for done in found.done:
        if done.turn.program is not None:
            assert [step.name for step in done.steps] == ["copy"]
        assert (done.watch() is None) == (done.turn.mode is Mode.PLAIN)


@pytest.mark.parametrize("asleep", ["program", "idle"])
def test_a_signal_ends_it_and_keeps_what_was_done(tmp_path, pretended, monkeypatch, asleep):
    pretended["seconds"] = 2 * PATIENCE_S
    if asleep == "idle":
        monkeypatch.setattr(carrying, "IDLE_SECONDS", 2 * PATIENCE_S)
    kind = carrying.Idle if asleep == "idle" else carrying.Captured
    whole = kind.wait

    def wait(*given):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return whole(*given)

    monkeypatch.setattr(kind, "wait", wait)
    folder = folder_in(tmp_path)
    begin = time.monotonic()
    assert carrying.carry_out(folder) == signal.SIGTERM
    assert time.monotonic() - begin < PATIENCE_S
    found = read_reproduction(folder.folder)
    assert found.asked.state is State.INTERRUPTED
    assert len(found.done) == (asleep == "program")  # the idle link, or nothing


def test_a_program_that_fails_is_told_and_the_others_run(tmp_path, pretended, monkeypatch):
    whole = carrying.command_of

    def command(program, gpu):
        if program.key != "matmul":
            return whole(program, gpu)
        return (sys.executable, "-c", "import sys; sys.exit('no memory left')")

    monkeypatch.setattr(carrying, "command_of", command)
    folder = folder_in(tmp_path)
    assert carrying.carry_out(folder) is None
    found = read_reproduction(folder.folder)
    assert found.asked.notes == ("matmul ended with 1: no memory left",)
    assert sum(bool(done.steps) for done in found.done) == 3
    assert json.loads((folder.folder / "matmul/plain-1/steps.json").read_text())["steps"] == []


def test_a_program_does_not_begin_when_the_end_was_asked_for():
    stopped = Stopped()
    stopped.ask(signal.SIGTERM, None)
    text = f"import time; time.sleep({2 * PATIENCE_S})"
    program = Captured((sys.executable, "-c", text), stopped)
    begin = time.monotonic()
    assert program.wait().exit_code == 128 + signal.SIGTERM
    assert time.monotonic() - begin < PATIENCE_S
