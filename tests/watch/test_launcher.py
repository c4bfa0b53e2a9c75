import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lanescope.errors import InputError
from lanescope.watch.launcher import CommandError, launch, resolve_command
from tests.patience import PATIENCE_S, until
from tests.terminals import AT_TERMINAL, JOB_AT_TERMINAL

PYTHON = sys.executable

# A program that runs another as lanescope does, and ends with what became of it.
LAUNCH = """
import os, sys
from lanescope.watch.launcher import launch
sys.exit(launch(sys.argv[1:], os.environ).exit_code)
"""


# Whoever runs the tests may ignore signals (nohup, a shell's background): this one does not.
HEED = """
import signal
for number in (signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_DFL)
"""


def launcher(*command: str) -> list[str]:
    return [PYTHON, "-c", HEED + LAUNCH, *command]


def python(text: str) -> list[str]:
    return [PYTHON, "-c", text]


@pytest.mark.parametrize("code", [0, 1, 3, 77, 255])
def test_the_exit_code_is_the_programs(code: int) -> None:
    outcome = launch(python(f"import sys; sys.exit({code})"), os.environ)
    assert (outcome.exit_code, outcome.signal) == (code, None)
    assert outcome.start_ns < outcome.end_ns


def test_a_signal_that_ends_it_is_told_as_shells_do() -> None:
    outcome = launch(python("import os; os.kill(os.getpid(), 9)"), os.environ)
    assert (outcome.exit_code, outcome.signal) == (137, signal.SIGKILL)


def test_streams_descriptors_and_environment_are_its_own() -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    text = f"import os, sys; os.write({writing}, b'3'); print(sys.stdin.read() + os.environ['ME'])"
    done = subprocess.run(
        launcher(*python(text)),
        input="in ",
        capture_output=True,
        text=True,
        env={**os.environ, "ME": "mine"},
        close_fds=False,
        check=True,
    )
    os.close(writing)
    assert os.read(reading, 10) == b"3"
    os.close(reading)
    assert (done.stdout, done.stderr) == ("in mine\n", "")


def test_the_first_argument_is_as_it_was_written() -> None:
    done = subprocess.run(
        launcher("sh", "-c", "echo $0 $1", "zero", "one two"), capture_output=True, text=True
    )
    assert done.stdout == "zero one two\n"


# Says that it is ready, then each signal that it gets, until nobody writes to it any more; so does
# a child of its own, which says "child" before each.
COUNT = """
import os, signal, sys
who = "child " if os.fork() == 0 else ""
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, lambda n, _: os.write(1, f"{who}{n}\\n".encode()))
os.write(1, f"{who}ready\\n".encode())
sys.stdin.read()
sys.exit(9)
"""
DIRECT = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM]
DIRECT += [signal.SIGUSR1, signal.SIGCONT, signal.SIGWINCH, signal.SIGRTMIN + 3, signal.SIGABRT]
#: Longer than a signal takes from lanescope to its program.
_A_WHILE_S = 0.3


class Counting:
    """A program run by lanescope that says which signals it gets."""

    def __init__(self, *before: str, **options: object) -> None:
        self.process = subprocess.Popen(
            [*before, *launcher(*python(COUNT))],
            **({"stdin": subprocess.PIPE, "start_new_session": True} | options),
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        lines = {self.process.stdout.readline() for _ in range(2)}
        assert lines == {b"ready\n", b"child ready\n"}
        self.heard: list[str] = []

    def hear(self, count: int) -> None:
        """Wait until the two have said so many signals, all in all."""
        assert self.process.stdout is not None
        while len(self.heard) < count:
            line = self.process.stdout.readline().decode().strip()
            assert line, "it has ended"
            self.heard.append(line)

    def end(self, count: int) -> tuple[str, list[str]]:
        """What the program was told, in order, and what its child was; so many at least."""
        self.hear(count)
        time.sleep(_A_WHILE_S)  # for one too many
        if self.process.stdin is not None:
            self.process.stdin.close()
        assert self.process.stdout is not None
        with self.process.stdout:
            self.heard += self.process.stdout.read().decode().splitlines()
        assert self.process.wait(PATIENCE_S) == 9
        of_child = [line.split()[1] for line in self.heard if line.startswith("child ")]
        return " ".join(line for line in self.heard if not line.startswith("child ")), of_child


@pytest.mark.parametrize("number", DIRECT)
def test_a_signal_to_lanescope_reaches_the_program_once_and_nobody_else(number: int) -> None:
    # a session of its own: no terminal, as in a job of a cluster
    counting = Counting()
    counting.process.send_signal(number)
    assert counting.end(1) == (f"{int(number)}", [])


def test_a_signal_to_the_group_reaches_each_process_once() -> None:
    counting = Counting()
    os.killpg(counting.process.pid, signal.SIGUSR1)
    counting.hear(2)
    os.killpg(counting.process.pid, signal.SIGTERM)
    assert counting.end(4) == ("10 15", ["10", "15"])


def test_signals_of_timeout_come_as_often_as_without_lanescope() -> None:
    counting = Counting()
    for number in (signal.SIGTERM, signal.SIGCONT):  # as it sends them
        counting.process.send_signal(number)
        os.killpg(counting.process.pid, number)
    told, of_child = counting.end(4)
    assert sorted(told.split()) == sorted(of_child) == ["15", "18"]


def test_signals_come_twice_where_they_are_sent_twice() -> None:
    counting = Counting()
    counting.process.send_signal(signal.SIGUSR1)
    counting.hear(1)
    os.killpg(counting.process.pid, signal.SIGUSR1)
    counting.hear(3)
    time.sleep(_A_WHILE_S)  # lanescope has found out by then that it was for all
    counting.process.send_signal(signal.SIGUSR1)
    assert counting.end(4) == ("10 10 10", ["10"])


def test_a_killed_lanescope_ends_no_program() -> None:
    counting = Counting()
    witness, program = _children(counting.process.pid)
    counting.process.kill()
    counting.process.wait(PATIENCE_S)
    until(lambda: not _runs(witness))
    assert _runs(program)
    assert counting.process.stdin is not None
    counting.process.stdin.close()
    until(lambda: not _runs(program))
    counting.process.stdout.close()  # type: ignore[union-attr]


def test_a_program_that_takes_no_notice_of_ctrl_c_goes_on_and_one_that_does_ends() -> None:
    with subprocess.Popen(
        launcher("sh", "-c", f"echo ready; exec sleep {2 * PATIENCE_S}"),
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        time.sleep(0.1)
        program.send_signal(signal.SIGINT)
        assert program.wait(PATIENCE_S) == 130


@pytest.mark.parametrize("key", ["\x03", None])
def test_at_a_terminal_ctrl_c_and_kill_reach_the_program_once(key: str | None) -> None:
    ours, its = pty.openpty()
    counting = Counting(PYTHON, "-c", AT_TERMINAL, stdin=its)
    if key is not None:
        os.write(ours, key.encode())
    else:
        counting.process.send_signal(signal.SIGINT)
    counting.hear(2 if key else 1)
    time.sleep(_A_WHILE_S)
    os.write(ours, b"\x04\x04")  # the end of its input, and of its child's
    told, of_child = counting.end(0)
    assert (told, of_child) == ("2", ["2"] if key else [])
    os.close(ours)
    os.close(its)


def test_an_ignored_signal_stays_ignored() -> None:
    text = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    done = subprocess.run(
        ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", PYTHON, "-c", LAUNCH, *python(text)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"


def test_the_callers_handlers_come_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    launch(["true"], os.environ)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_processes_left_behind_are_not_waited_for(tmp_path: Path) -> None:
    left = tmp_path / "left"
    text = f"sleep {2 * PATIENCE_S} >/dev/null 2>&1 & echo $! >{left}; exit 4"
    outcome = launch(["sh", "-c", text], os.environ)
    assert outcome.exit_code == 4
    os.kill(int(left.read_text()), signal.SIGKILL)  # it goes on, else there were none to be killed


def test_a_command_is_left_as_it_is() -> None:
    assert resolve_command(["sh", "-c", "true"]) == ("sh", "-c", "true")


def test_no_command_is_no_program() -> None:
    with pytest.raises(InputError, match="name it after --"):
        resolve_command([])


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("no-such-program", 127, "there is no program no-such-program in PATH"),
        ("./no-such-program", 127, "there is no program ./no-such-program;"),
        ("", 127, "there is no program"),
        ("/etc/passwd", 126, "may not be executed"),
        ("/etc/", 126, "is a folder"),
    ],
)
def test_what_cannot_be_run_is_told_beforehand(name: str, code: int, words: str) -> None:
    with pytest.raises(CommandError, match=words) as caught:
        resolve_command([name])
    assert caught.value.exit_code == code


def test_a_file_in_path_or_here_that_may_not_be_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tool").touch()
    with pytest.raises(CommandError, match="may not be executed") as caught:
        resolve_command(["tool"], {"PATH": str(tmp_path)})
    assert caught.value.exit_code == 126
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError, match=r"write \./tool"):
        resolve_command(["tool"], {"PATH": "/nowhere"})


def test_a_script_without_an_interpreter_is_run_by_the_shell(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("exit 6\n")
    script.chmod(0o755)
    assert launch([str(script)], os.environ).exit_code == 6


def test_a_missing_interpreter_is_told(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/nowhere/sh\n")
    script.chmod(0o755)
    with pytest.raises(CommandError, match="its interpreter is missing"):
        launch([str(script)], os.environ)


def test_a_program_that_stops_itself_goes_on_later() -> None:
    text = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); print('on')"
    with subprocess.Popen(launcher(*python(text)), stdout=subprocess.PIPE, text=True) as program:
        _, child = until(lambda: two if len(two := _children(program.pid)) == 2 else ())
        until(lambda: _is_stopped(child))
        time.sleep(0.5)
        assert program.poll() is None
        os.kill(child, signal.SIGCONT)
        assert program.communicate(timeout=PATIENCE_S)[0] == "on\n"


def test_ctrl_z_at_a_terminal_stops_both_and_both_go_on() -> None:
    ours, its = pty.openpty()
    counting = Counting(PYTHON, "-c", JOB_AT_TERMINAL, stdin=its)
    (lanescope,) = _children(counting.process.pid)
    _, program = _children(lanescope)
    os.write(ours, b"\x1a")
    until(lambda: _is_stopped(lanescope))
    os.killpg(lanescope, signal.SIGCONT)  # as 'fg' does
    until(lambda: not _is_stopped(lanescope))
    os.kill(program, signal.SIGSTOP)  # as it may stop itself
    until(lambda: _is_stopped(lanescope))
    os.killpg(lanescope, signal.SIGCONT)
    until(lambda: not _is_stopped(program) and not _is_stopped(lanescope))
    os.write(ours, b"\x04\x04")
    told, of_child = counting.end(0)
    assert told.split().count("20") == of_child.count("20") == 1
    os.close(ours)
    os.close(its)


def _is_stopped(pid: int) -> bool:
    return _state(pid) == "T"


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and _state(pid) != "Z"


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(part) for part in text.split()]
