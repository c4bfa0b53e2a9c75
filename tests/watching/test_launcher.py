import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lanescope.errors import InputError
from lanescope.watching.launcher import CommandError, launch, resolve_command
from tests.patience import PATIENCE_S, until
from tests.terminals import AT_TERMINAL

PYTHON = sys.executable

# A program that runs another as lanescope does, and ends with what became of it.
LAUNCH = """
import os, sys
from lanescope.watching.launcher import launch
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


# Tells that it is ready, then how often it was interrupted.
COUNT = f"""
import signal, sys, time
got = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda n, _: got.append(n))
print("ready", flush=True)
end = time.monotonic() + {PATIENCE_S}
while not got and time.monotonic() < end: time.sleep(.01)
time.sleep(.3)
print(*map(int, got), flush=True)
sys.exit(9)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_passed_on_once(number: signal.Signals) -> None:
    # a session of its own: no terminal, as in a job of a cluster
    with subprocess.Popen(
        launcher(*python(COUNT)), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(number)
        assert program.stdout.read() == f"{int(number)}\n"
        assert program.wait(PATIENCE_S) == 9


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


def test_ctrl_c_at_a_terminal_reaches_the_program_once() -> None:
    ours, its = pty.openpty()
    with subprocess.Popen(
        [PYTHON, "-c", AT_TERMINAL, *launcher(*python(COUNT))],
        stdin=its,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        os.write(ours, b"\x03")
        assert program.stdout.read() == "2\n"
        assert program.wait(PATIENCE_S) == 9
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
    with pytest.raises(InputError, match="no program to run; name program"):
        resolve_command([])


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("no-such-program", 127, "there is no program no-such-program in PATH"),
        ("./no-such-program", 127, "there is no program ./no-such-program;"),
        ("", 127, "the program's name is empty; name program"),
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
        (child,) = until(lambda: _children(program.pid))
        until(lambda: _is_stopped(child))
        time.sleep(0.5)
        assert program.poll() is None
        os.kill(child, signal.SIGCONT)
        assert program.communicate(timeout=PATIENCE_S)[0] == "on\n"


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    witness = "lanescope-group\n"  # of where signals were sent; it names itself a moment later
    names = {int(part): Path(f"/proc/{part}/comm").read_text() for part in text.split()}
    return [pid for pid in names if names[pid] != witness] if witness in names.values() else []
