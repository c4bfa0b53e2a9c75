"""Runs the program that is watched, as if nobody watched it.

Its streams, its descriptors, its process group and its place in the shell's job are those of
lanescope, so that pipes, Ctrl-C and Ctrl-Z do what they would do without it. A signal to the group
reaches the program by itself; one to lanescope alone is passed on.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from lanescope._core import native
from lanescope.errors import InputError
from lanescope.watch.group_witness import GroupWitness
from lanescope.watch.signals import handling

#: Neither what cannot be handled, nor what says something of lanescope's own: faults, its writes to
#: closed pipes, its children, its use of a terminal from the background.
_OWN = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS),
    *(signal.SIGTTIN, signal.SIGTTOU),
}
_PASSED_ON = tuple(sorted(signal.valid_signals() - _OWN))

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_KILLED = 128


class CommandError(InputError):
    """The program to watch cannot be run.

    Attributes
    ----------
    exit_code
        What a shell would end with: 127 if there is no such program, 126 if it is none.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended.

    Attributes
    ----------
    exit_code
        As a shell tells it: the program's own, or 128 and the number of the signal.
    start_ns, end_ns
        Nanoseconds since 1970.
    signal
        The signal that ended it; None if it ended by itself.
    """

    exit_code: int
    start_ns: int
    end_ns: int
    pid: int
    signal: int | None


def resolve_command(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return a command that can be run, unchanged, or say at once why it cannot.

    Raises
    ------
    InputError
        If no command is given; a `CommandError` if it cannot be run.
    """
    if not command:
        raise InputError("no program to watch; name it after --")
    name = command[0]
    path = (os.environ if environment is None else environment).get("PATH", os.defpath)
    if shutil.which(name, path=path) is not None:
        return tuple(command)
    there = [folder for folder in path.split(os.pathsep) if os.path.isfile(_inside(folder, name))]
    if os.path.isdir(name) and os.sep in name:
        raise CommandError(f"{name} is a folder; name a program after --", _NOT_EXECUTABLE)
    if os.sep in name and os.path.exists(name):
        raise CommandError(
            f"{name} may not be executed; make it executable (chmod +x) or name its interpreter",
            _NOT_EXECUTABLE,
        )
    if os.sep not in name and there:
        raise CommandError(
            f"{_inside(there[0], name)} may not be executed; make it executable (chmod +x)",
            _NOT_EXECUTABLE,
        )
    where = "" if os.sep in name else " in PATH"
    hint = f"; to run the one in this folder write ./{name}" if os.path.isfile(name) else ""
    raise CommandError(
        f"there is no program {name}{where}{hint or '; check the name after --'}", _NOT_FOUND
    )


def launch(command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
    """Run a program until it ends; processes that it leaves behind are not waited for.

    Parameters
    ----------
    environment
        All of the program's environment.

    Raises
    ------
    CommandError
        If the system cannot run it.
    """
    signals = _Signals()
    with signals.passed_on():
        start_ns = native.watch_time_ns()
        program = _start(command, environment)
        signals.begin(program)
        code = _end_of(program)
        end_ns = native.watch_time_ns()
    killed_by = -code if code < 0 else None
    exit_code = code if killed_by is None else _KILLED + killed_by
    return Outcome(exit_code, start_ns, end_ns, program.pid, killed_by)


def _inside(folder: str, name: str) -> str:
    return os.path.join(folder, name)


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # Descriptors beyond the three streams are the program's, too: those of a make job, say.
    try:
        return subprocess.Popen(list(command), env=dict(environment), close_fds=False)
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script that names no interpreter: as execvp does it
            path = shutil.which(command[0], path=environment.get("PATH")) or command[0]
            return subprocess.Popen(
                ["/bin/sh", path, *command[1:]], env=dict(environment), close_fds=False
            )
        missing = error.errno == errno.ENOENT
        what = "its interpreter is missing" if missing else os.strerror(error.errno or 0)
        raise CommandError(
            f"{command[0]} cannot be run: {what}; try it without lanescope",
            _NOT_FOUND if missing else _NOT_EXECUTABLE,
        ) from error


def _end_of(program: subprocess.Popen[bytes]) -> int:
    """Wait for its end; at a terminal lanescope stops as it does, so that the shell takes over."""
    while True:
        _, status = os.waitpid(program.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            program.returncode = os.waitstatus_to_exitcode(status)
            return program.returncode
        if _is_shown_by_terminal() and _is_stopped(program.pid):
            os.kill(os.getpid(), signal.SIGSTOP)  # 'fg' continues both


def _is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] == b"T"


class _Signals:
    """Signals that lanescope gets while a program runs, and that are meant for the program."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._witness: GroupWitness | None = None

    @contextmanager
    def passed_on(self) -> Iterator[None]:
        """Let no signal end lanescope before the program has ended."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread gets signals
            return
        self._witness = GroupWitness()
        try:
            with handling(_PASSED_ON, self._arrived):
                yield
        finally:
            self._witness.close()

    def begin(self, program: subprocess.Popen[bytes]) -> None:
        """Hand on what came before the program was there, and all that comes."""
        self._program = program
        for number in self._early:
            self._pass_on(number)

    def _arrived(self, number: int, _: FrameType | None) -> None:
        if self._program is None:
            self._early.append(number)
            return
        assert self._witness is not None
        if not self._witness.saw(number):
            self._pass_on(number)
        if number == signal.SIGTSTP:
            _stop()

    def _pass_on(self, number: int) -> None:
        # its number is nobody else's before we have waited for it
        if self._program is not None and self._program.returncode is None:
            os.kill(self._program.pid, number)


def _stop() -> None:
    """Stop as a process does that does not handle SIGTSTP; returns when it is continued."""
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, handler)


def _is_shown_by_terminal() -> bool:
    """Return whether we are the job that a terminal shows now."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
