"""Signals reach a program as often as without lanescope, whoever they were sent to."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lanescope.watching import signals
from lanescope.watching.signals import passing_on
from tests.patience import PATIENCE_S, until
from tests.terminals import AT_TERMINAL
from tests.watching.test_launcher import LAUNCH, launcher, python

# Takes signals out of the queue, so that none of them is lost, until SIGUSR2 comes.
QUEUE = f"""
import os, signal
taken = [signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGCONT, signal.SIGHUP,
         signal.SIGRTMIN + 3, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH]
signal.pthread_sigmask(signal.SIG_BLOCK, taken)
print(os.getpid(), flush=True)
got = []
while (came := signal.sigtimedwait(taken, {PATIENCE_S})) is not None:
    if came.si_signo == signal.SIGUSR2: break
    got.append(came.si_signo)
print(*got)
"""


@contextmanager
def running(*command: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a program that tells its process's number, and yield both."""
    with subprocess.Popen(
        launcher(*command), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as ran:
        assert ran.stdout is not None
        yield ran, int(ran.stdout.readline())


def end(ran: subprocess.Popen[str], pid: int) -> list[int]:
    """End a program of `QUEUE`, and return what it got."""
    os.kill(pid, signal.SIGUSR2)
    return [int(word) for word in ran.communicate(timeout=PATIENCE_S)[0].split()]


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGALRM, signal.SIGHUP, signal.SIGRTMIN + 3]
)
@pytest.mark.parametrize("to_group", [False, True])
def test_a_signal_comes_once(number: int, to_group: bool) -> None:
    with running(*python(QUEUE)) as (ran, pid):
        for _ in range(3):
            (os.killpg if to_group else os.kill)(ran.pid, number)
            _settle()
        assert end(ran, pid) == [number] * 3


def _settle() -> None:
    """Give what would come too often the time to come."""
    time.sleep(0.1)


def test_real_time_signals_are_not_made_one() -> None:
    number = signal.SIGRTMIN + 3
    with running(*python(QUEUE)) as (ran, pid):
        for _ in range(20):
            os.kill(ran.pid, number)
        _settle()
        assert end(ran, pid) == [number] * 20


def test_timeout_sends_what_it_sends_without_lanescope() -> None:
    text = QUEUE.replace("signal.SIGUSR2: break", "signal.SIGCONT: break")
    command = ["timeout", str(PATIENCE_S), *launcher(*python(text))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ran:
        assert ran.stdout is not None
        ran.stdout.readline()
        ran.terminate()  # what it does then is what it does when the time is over
        assert ran.communicate(timeout=PATIENCE_S)[0] == f"{int(signal.SIGTERM)}\n"


def test_a_signal_that_is_sent_to_every_process_one_by_one_comes_once() -> None:
    with running(*python(QUEUE)) as (ran, pid):
        children = Path(f"/proc/{ran.pid}/task/{ran.pid}/children").read_text().split()
        for process in (ran.pid, *map(int, children)):  # as systemd and Slurm do
            os.kill(process, signal.SIGTERM)
        _settle()
        assert end(ran, pid) == [signal.SIGTERM]


def test_the_program_goes_on_when_lanescope_is_killed(tmp_path: Path) -> None:
    with running(*python(QUEUE)) as (ran, pid):
        witness = _witness_of(ran.pid)
        ran.kill()
        ran.wait(PATIENCE_S)
        until(lambda: not _runs(witness))
        os.kill(pid, signal.SIGUSR1)
        os.kill(pid, signal.SIGUSR2)
        assert ran.stdout is not None
        assert ran.stdout.read() == f"{int(signal.SIGUSR1)}\n"


def _witness_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    def named() -> list[int]:  # it names itself a moment after its start
        names = {int(c): Path(f"/proc/{c}/comm").read_text() for c in children}
        return [child for child in names if names[child] == "lanescope-group\n"]

    return until(named)[0]


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and _state(pid) != "Z"


@contextmanager
def at_terminal(*command: str) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """Run a program at a terminal; yield it, its process's number and our end of the terminal."""
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", AT_TERMINAL, *launcher(*command)],
        stdin=its,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as ran:
        assert ran.stdout is not None
        yield ran, int(ran.stdout.readline()), ours
    os.close(ours)
    os.close(its)


def test_at_a_terminal_a_direct_interrupt_is_passed_on_and_ctrl_c_is_not() -> None:
    with at_terminal(*python(QUEUE)) as (ran, pid, terminal):
        ran.send_signal(signal.SIGINT)
        _settle()
        os.write(terminal, b"\x03")
        _settle()
        assert end(ran, pid) == [signal.SIGINT] * 2


# A shell's part: starts a job in a group of its own, in the foreground of the terminal, waits until
# it stops, and continues it.
JOB = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
_, status = os.waitpid(job, os.WUNTRACED)
print("stopped", os.WIFSTOPPED(status), flush=True)
os.tcsetpgrp(0, job)
os.killpg(job, signal.SIGCONT)
_, status = os.waitpid(job, 0)
print("ended", os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.mark.parametrize("stops_itself", [False, True])
def test_a_program_that_stops_at_a_terminal_stops_lanescope_and_both_go_on(
    stops_itself: bool,
) -> None:
    text = "import os, signal\nprint('ready', flush=True)\n"
    text += "os.kill(os.getpid(), signal.SIGSTOP)\n" if stops_itself else ""
    text += "print(input(), flush=True)\n"
    ours, its = pty.openpty()
    shell = [sys.executable, "-c", JOB, *launcher(*python(text))]
    with subprocess.Popen(
        [sys.executable, "-c", AT_TERMINAL, *shell],
        stdin=its,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline() == "ready\n"
        if not stops_itself:
            os.write(ours, b"\x1a")
        assert ran.stdout.readline() == "stopped True\n"
        os.write(ours, b"words\n")
        assert ran.stdout.readline() == "words\n"
        assert ran.stdout.readline() == "ended 0\n"
    os.close(ours)
    os.close(its)


def test_a_program_that_takes_no_notice_of_ctrl_z_keeps_the_terminal() -> None:
    text = QUEUE.replace("taken =", "signal.signal(signal.SIGTSTP, signal.SIG_IGN); taken =")
    with at_terminal(*python(text)) as (ran, pid, terminal):
        os.write(terminal, b"\x1a")
        _settle()
        assert _state(ran.pid) != "T"
        assert end(ran, pid) == []


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_signal_that_is_blocked_from_the_start_waits_in_the_program() -> None:
    text = f"""
import signal
print(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))), flush=True)
print(int(signal.sigtimedwait([signal.SIGUSR1], {PATIENCE_S}).si_signo), flush=True)
"""
    start = (
        "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", start, *launcher(*python(text))], stdout=subprocess.PIPE, text=True
    ) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline() == f"[{int(signal.SIGUSR1)}]\n"
        ran.send_signal(signal.SIGUSR1)
        assert ran.stdout.readline() == f"{int(signal.SIGUSR1)}\n"


def test_a_signal_that_is_ignored_from_the_start_reaches_a_program_that_takes_it() -> None:
    text = QUEUE.replace("print(os", "signal.signal(1, lambda *_: None); print(os")
    start = "import os, signal, sys; signal.signal(1, signal.SIG_IGN); exec(sys.argv.pop(1))"
    command = [sys.executable, "-c", start, LAUNCH, *python(text)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as ran:
        assert ran.stdout is not None
        pid = int(ran.stdout.readline())
        ran.send_signal(signal.SIGHUP)
        _settle()
        assert end(ran, pid) == [signal.SIGHUP]


def test_a_handler_of_another_thread_may_write_after_the_end() -> None:
    with passing_on():
        pipe = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(pipe)
    os.write(pipe, bytes([signal.SIGTERM]))  # it had looked for the pipe before the end
    with passing_on() as signals:
        assert signals._arrived() == []


def test_the_signal_of_the_end_is_awaited_where_another_thread_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signals, "_SETTLED_SECONDS", PATIENCE_S)
    with passing_on() as passing, subprocess.Popen(["sleep", "60"]) as program:
        try:
            monkeypatch.setattr(passing, "_look", lambda one: setattr(one, "returncode", 0))
            _, pipe = signals._pipe(os.getpid())
            late = threading.Timer(0.05, os.write, (pipe, bytes([signal.SIGCHLD])))
            late.start()
            assert passing.wait(program) == 0
            assert passing._arrived() == [signal.SIGCHLD]
        finally:
            program.returncode = None
            program.kill()
