"""What can be watched beside a program: the whole machine, and what runs already."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from tests.terminals import AT_TERMINAL

ONE_THING = "name one thing to watch: a program after --, --all or --pid PID"


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def wait_for_sources(folder):
    """Return when the watch has begun to wait."""
    deadline = time.monotonic() + 60
    while not (folder / "spool").is_dir():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ONE_THING),
        (("--all", "--", "true"), ONE_THING),
        (("--all", "--pid", "1"), ONE_THING),
        (("--pid", "1", "--", "true"), ONE_THING),
        (("--pid", "-5"), "there is no process -5"),
        (("--pid", "4194305"), "there is no process 4194305"),  # beyond what kernels give
        (("--seconds", "1", "--", "true"), "use --seconds with --all or --pid"),
        (("--all", "--seconds", "0"), "--seconds 0 is no length of time"),
        (("--all", "--seconds", "nan"), "--seconds nan is no length of time"),
        (("--all", "--source", "trace"), "only programs that lanescope runs can be traced"),
        (("--pid", "1", "--kernels"), "only programs that lanescope runs can be traced"),
    ],
    ids=str,
)
def test_wrong_combinations_are_one_sentence(lanescope, tmp_path, arguments, words):
    done = lanescope("watch", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert words in done.stderr


def test_the_whole_machine_is_watched_for_some_time(lanescope, tmp_path):
    out = tmp_path / "run"
    done = lanescope("watch", "--all", "--seconds", 0.2, "--out", out)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "The whole machine was watched" in done.stderr
    told = manifest(out)
    assert (told["program"], told["exit_code"], told["state"]) == ([], None, "complete")
    assert 0.2e9 <= told["end_ns"] - told["start_ns"] < 10e9
    assert not [source for source in told["sources"] if source["name"] == "trace"]
    assert lanescope("report", out, "--json").returncode == 0


def test_a_process_that_runs_is_watched_until_it_ends(lanescope, tmp_path):
    out = tmp_path / "run"
    # its parent must not keep the dead one waiting: lanescope sees a zombie as ended, too
    with subprocess.Popen(["sleep", "3"]) as sleeping:
        done = lanescope("watch", "--pid", sleeping.pid, "--out", out)
        assert sleeping.wait(10) == 0
    assert done.returncode == 0, done.stderr
    assert f"Process {sleeping.pid} ran already and was not traced" in done.stderr
    told = manifest(out)
    assert (told["program"], told["exit_code"]) == (["sleep", "3"], None)
    assert "was not traced" in told["notes"][0]


def test_a_process_may_outlive_its_watch(lanescope, tmp_path):
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        done = lanescope("watch", "--pid", sleeping.pid, "--seconds", 0.2, "--out", tmp_path / "r")
        assert sleeping.poll() is None
        sleeping.kill()
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_watch_of_the_machine_in_order(lanescope, tmp_path, number):
    out = tmp_path / "run"
    with lanescope.start("watch", "--all", "--out", out) as watching:
        wait_for_sources(out)
        watching.send_signal(number)
        _, told = watching.communicate(timeout=60)
        assert watching.returncode == 0, told
    assert (manifest(out)["state"], (out / "report.html").exists()) == ("complete", True)


def test_ctrl_c_at_a_terminal_ends_it_in_order(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "lanescope", "watch", "--all", "--out", str(out)]
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", AT_TERMINAL, *command],
        stdin=its,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell that started the tests in the background has Ctrl-C ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as watching:
        wait_for_sources(out)
        os.write(ours, b"\x03")
        _, told = watching.communicate(timeout=60)
        assert watching.returncode == 0, told
    os.close(ours)
    os.close(its)
    assert "The whole machine was watched" in told
    assert manifest(out)["state"] == "complete"
