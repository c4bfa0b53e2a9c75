"""What can be watched beside a program: the whole machine, and what runs already."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from tests.native.test_gpu import GPUS
from tests.patience import PATIENCE_S, longer_and_longer, until
from tests.terminals import AT_TERMINAL

#: What ends a watch of no program: without a GPU nothing is counted.
COUNTED = 0 if GPUS else 4
ONE_THING = "name one thing to watch: a program after --, --all or --pid"


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def ended(start, folder, end):
    """A watch that is ended while it waits, with its code and what it told.

    When it begins to wait does not show: where the end comes too early there is no folder, and it
    is tried again.
    """
    for seconds in longer_and_longer(0.5):
        with start() as watching:
            until((folder / "spool").is_dir)
            time.sleep(seconds)
            end(watching)
            _, told = watching.communicate(timeout=PATIENCE_S)
        if folder.is_dir():
            break
    return watching.returncode, told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ONE_THING),
        (("--all", "--", "true"), ONE_THING),
        (("--all", "--pid", "1"), ONE_THING),
        (("--pid", "1", "--", "true"), ONE_THING),
        (("--pid", "-5"), "--pid takes a whole number from 1"),
        (("--pid", "4194305"), "from 1 to 4194304"),  # beyond what kernels give
        (("--seconds", "1", "--", "true"), "use --seconds with --all or --pid"),
        (("--all", "--seconds", "0"), "--seconds takes seconds above 0"),
        (("--all", "--seconds", "nan"), "--seconds takes seconds above 0"),
        (("--all", "--source", "trace"), "only programs that lanescope runs can be traced"),
        (("--pid", "1", "--kernels"), "only programs that lanescope runs can be traced"),
        (("--all", "--keep", "1h", "--", "true"), ONE_THING),
        (("--all", "--keep", "1h", "--metrics", "0.0.0.0"), "--metrics 0.0.0.0 is no address"),
        (("--all", "--keep", "1h", "--hash"), "only programs that lanescope runs can be traced"),
        (("--all", "--keep", "1h", "--gentle"), "--gentle is of source probe"),
        (("--all", "--keep", "1h", "--source", "probe"), "source probe counts nothing"),
    ],
    ids=str,
)
def test_wrong_combinations_are_one_sentence(lanescope_here, tmp_path, arguments, words):
    done = lanescope_here("watch", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert words in done.stderr


def test_the_whole_machine_is_watched_for_some_time(lanescope, lanescope_here, tmp_path):
    out = tmp_path / "run"
    done = lanescope("watch", "--all", "--seconds", 0.2, "--out", out)
    assert (done.returncode, done.stdout) == (COUNTED, ""), done.stderr
    assert "The whole machine was watched" in done.stderr
    told = manifest(out)
    assert (told["program"], told["exit_code"], told["state"]) == ([], None, "complete")
    assert 0.2e9 <= told["end_ns"] - told["start_ns"] < PATIENCE_S * 1e9
    assert not [source for source in told["sources"] if source["name"] == "trace"]
    assert lanescope_here("report", out, "--json").returncode == 0


@pytest.mark.skipif(COUNTED == 0, reason="counters work here")
def test_that_nothing_will_be_counted_is_said_before(lanescope, tmp_path):
    done = lanescope("watch", "--all", "--seconds", 0.2, "--out", tmp_path / "run")
    assert done.stderr.startswith("no counters work here: nothing will be counted; ")
    quiet = lanescope("watch", "--all", "--seconds", 0.2, "--quiet", "--out", tmp_path / "quiet")
    assert (quiet.returncode, quiet.stderr) == (COUNTED, "")


def test_a_process_that_runs_is_watched_until_it_ends(lanescope, tmp_path):
    out = tmp_path / "run"
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as reading,
        lanescope.start("watch", "--pid", reading.pid, "--out", out) as watching,
    ):
        until((out / "spool").is_dir)
        time.sleep(1)
        reading.stdin.close()
        # its parent must not keep the dead one waiting: lanescope sees a zombie as ended, too
        _, errors = watching.communicate(timeout=PATIENCE_S)
    assert (reading.returncode, watching.returncode) == (0, COUNTED), errors
    assert f"Process {reading.pid} ran already and was not traced" in errors
    told = manifest(out)
    assert (told["program"], told["exit_code"]) == (["cat"], None)
    assert "was not traced" in told["notes"][0]


def test_a_process_may_outlive_its_watch(lanescope, tmp_path):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as reading:
        done = lanescope("watch", "--pid", reading.pid, "--seconds", 0.2, "--out", tmp_path / "r")
        assert reading.poll() is None
    assert done.returncode == COUNTED, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_watch_of_the_machine_in_order(lanescope, tmp_path, number):
    out = tmp_path / "run"
    code, told = ended(
        lambda: lanescope.start("watch", "--all", "--out", out),
        out,
        lambda watching: watching.send_signal(number),
    )
    assert code == COUNTED, told
    assert (manifest(out)["state"], (out / "report.html").exists()) == ("complete", True)


def test_ctrl_c_at_a_terminal_ends_it_in_order(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "lanescope", "watch", "--all", "--out", str(out)]
    ours, its = pty.openpty()

    def start():
        return subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL, *command],
            stdin=its,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # a shell that started the tests in the background has Ctrl-C ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    code, told = ended(start, out, lambda _: os.write(ours, b"\x03"))
    assert code == COUNTED, told
    os.close(ours)
    os.close(its)
    assert "The whole machine was watched" in told
    assert manifest(out)["state"] == "complete"


def test_each_process_of_a_job_has_a_folder_of_its_own(lanescope, tmp_path):
    shared, own = tmp_path / "run", tmp_path / "run-%q{PMI_RANK}-%p-5%"
    for rank, out, code in (("0", shared, 0), ("1", shared, 2), ("2", own, 0), ("", own, 2)):
        job = lanescope.environment | {"PMI_RANK": rank}
        done = lanescope("watch", "-q", "--out", out, "--", "true", env=job)
        assert done.returncode == code, done.stderr
        if rank == "1":
            assert done.stderr.endswith(f": --out '{shared}-%q{{PMI_RANK}}'\n")
        if rank == "":
            assert "the variable PMI_RANK is empty; name another in %q{PMI_RANK}" in done.stderr
    (found,) = tmp_path.glob("run-2-*-5%")
    assert (found / "manifest.json").exists()
