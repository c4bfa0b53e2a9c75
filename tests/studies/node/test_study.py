"""What a level of ``lanescope node`` measures, and a process of its own that measures it."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import replace

import pytest

from lanescope import interruption
from lanescope.errors import InputError
from lanescope.studies import node
from lanescope.studies.node import (
    Level,
    Request,
    check_node,
    level_experiments,
    level_within,
    require_time,
)
from lanescope.studies.node_report import NodeState
from tests.patience import PATIENCE_S
from tests.report import factory


@pytest.mark.parametrize(
    ("seconds", "level"), [(10, "quick"), (44, "quick"), (60, "full"), (600, "long")]
)
def test_time_decides_how_much_is_measured(seconds, level):
    assert level_within(seconds) is Level(level)


@pytest.mark.parametrize("machine", [factory.two_gpus(), factory.eight_gpus()], ids=["2", "8"])
def test_quick_reaches_every_gpu_in_every_direction_once(machine):
    copies = [e.copies for e in level_experiments(machine, Level.QUICK)]
    assert all(len(one) == 1 for one in copies)
    ends = [(c.source, c.destination) for (c,) in copies]
    for gpu in machine.gpus:
        into = [s for s, d in ends if d.part == gpu.id]
        out_of = [d for s, d in ends if s.part == gpu.id]
        for others in (into, out_of):
            assert sorted(place.is_host for place in others) == [False, True]
    assert len(copies) == 4 * len(machine.gpus) - len(machine.gpus)


def test_one_gpu_has_no_next_one():
    machine = factory.two_gpus()
    alone = replace(machine, gpus=machine.gpus[:1], switches=(), links=machine.links[:1])
    names = [e.name for e in level_experiments(alone, Level.QUICK)]
    assert names == ["h2d/g0", "d2h/g0"]


def test_full_measures_gpus_first_then_all_at_once_then_the_host():
    machine = factory.eight_gpus()
    full = level_experiments(machine, Level.FULL)
    counts = [len(e.copies) for e in full]
    assert sorted(counts)[-3:] == [8, 8, 16]
    is_host = [e.copies[0].executing_gpu is None for e in full]
    assert is_host == sorted(is_host), "memory of the host comes last"
    assert len({e.name for e in full}) == len(full)


def test_long_holds_full_and_every_case_of_nvbandwidth():
    machine = factory.two_gpus()
    full, long = (level_experiments(machine, level) for level in (Level.FULL, Level.LONG))
    assert {e.name for e in full} < {e.name for e in long}
    assert any(c.operation.is_latency for e in long for c in e.copies)
    assert len({e.name for e in long}) == len(long)


def test_without_gpus_the_memory_of_the_host_is_measured():
    machine = factory.host_only()
    for level in Level:
        assert {e.copies[0].executing_gpu for e in level_experiments(machine, level)} == {None}


@pytest.fixture
def measured_by(monkeypatch):
    """Let a program in Python measure instead; it gets the arguments of the real one."""

    def let(program):
        command = lambda *arguments: [sys.executable, "-c", program, *map(str, arguments)]  # noqa: E731
        monkeypatch.setattr(node, "_command", command)

    return let


def checked(tmp_path, within=20.0, arguments=()):
    return check_node(Request(within, arguments, time.monotonic()), tmp_path / "run")


def test_a_process_that_hangs_is_ended_at_the_deadline(measured_by, tmp_path):
    measured_by(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    )
    begun = time.monotonic()
    report = checked(tmp_path, within=3.0)
    assert time.monotonic() - begun < 3 + PATIENCE_S
    assert report.state is NodeState.NOT_MEASURED
    assert report.exit_code == 3
    assert report.sentence == (
        "the check did not end within 3 s and was ended; nothing was measured"
    )


def test_a_process_that_is_stopped_does_not_hold_the_report_up(measured_by, tmp_path):
    measured_by("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
    assert checked(tmp_path, within=3.0).state is NodeState.NOT_MEASURED


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_crash_is_not_measured_and_not_sick(measured_by, tmp_path, number):
    measured_by(f"import os; os.kill(os.getpid(), {int(number)})")
    report = checked(tmp_path)
    assert (report.state, report.exit_code) == (NodeState.NOT_MEASURED, 3)
    assert f"signal {int(number)}" in report.sentence


def test_its_children_end_with_it(measured_by, tmp_path):
    alive = tmp_path / "alive"
    measured_by(
        "import subprocess, sys, time\n"
        f"beat = 'open({str(alive)!r}, \"w\").close(); time.sleep(.01)'\n"
        "inner = f'import time\\nwhile 1:\\n {beat}'\n"
        "subprocess.Popen([sys.executable, '-c', inner]); time.sleep(60)"
    )
    checked(tmp_path, within=4.0)
    alive.unlink(missing_ok=True)
    time.sleep(0.2)
    assert not alive.exists()


@pytest.mark.parametrize(
    ("code", "state"), [(2, NodeState.FAILED), (70, NodeState.FAILED), (4, NodeState.MISSING)]
)
def test_what_it_says_and_its_code_are_passed_on(measured_by, tmp_path, code, state):
    measured_by(
        "import sys; print('note: x\\nlanescope: the file is broken', file=sys.stderr); "
        f"sys.exit({code})"
    )
    report = checked(tmp_path)
    assert (report.state, report.exit_code) == (state, code)
    assert report.sentence == "the file is broken"


@pytest.mark.parametrize("code", [0, 1, 3, 5, 127])
def test_a_broken_installation_says_nothing_of_the_node(measured_by, tmp_path, code):
    measured_by(
        f"import sys; print('No module named lanescope', file=sys.stderr); sys.exit({code})"
    )
    report = checked(tmp_path)
    assert (report.state, report.exit_code) == (NodeState.FAILED, 70)
    assert report.sentence == "No module named lanescope"


def test_a_file_that_cannot_be_read_is_a_failure_and_no_verdict(tmp_path):
    report = checked(tmp_path, within=60, arguments=("--expect=nowhere.toml",))
    assert (report.state, report.exit_code) == (NodeState.FAILED, 2)
    assert "nowhere.toml" in report.sentence


def test_no_time_is_bad_input():
    require_time(3)
    with pytest.raises(InputError, match="3s or more"):
        require_time(2.9)


#: Begins a run folder, sends Ctrl-C to the process that waits, and finishes when it is ended.
_INTERRUPTED = """
import os, pathlib, signal, sys, time
out = next(pathlib.Path(one[6:]) for one in sys.argv if one.startswith("--out="))
def finish(*_):
    if BEGUN:
        (out / "state").write_text("interrupted")
    sys.exit(143)
signal.signal(signal.SIGTERM, finish)
out.mkdir()
if BEGUN:
    (out / "manifest.json").touch()
os.kill(os.getppid(), signal.SIGINT)
time.sleep(60)
"""


@pytest.mark.parametrize("begun", [True, False])
def test_an_interrupted_run_is_finished_and_an_empty_one_goes(
    measured_by, tmp_path, monkeypatch, begun
):
    monkeypatch.setattr(interruption._process, "run_folder", None)
    measured_by(f"BEGUN = {begun}\n{_INTERRUPTED}")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            checked(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    folder = tmp_path / "run"
    assert interruption.run_folder() == (str(folder) if begun else None)
    assert folder.exists() is begun
    if begun:
        assert (folder / "state").read_text() == "interrupted"
