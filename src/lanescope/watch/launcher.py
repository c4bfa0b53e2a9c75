"""Runs the program that is watched, as if nobody watched it.

Its streams, its descriptors, its process group and its place in the shell's job are those of
lanescope, so that pipes, Ctrl-C and Ctrl-Z do what they would do without it.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from lanescope._core import native
from lanescope.errors import InputError
from lanescope.watch.signals import handling

#: A terminal sends these to every process of the job that it shows, the program among them.
_OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
#: These are sent to one process: the program is to have them, too.
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)

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
        code = program.wait()
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


class _Signals:
    """Signals that lanescope gets while a program runs, and that are meant for the program."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    @contextmanager
    def passed_on(self) -> Iterator[None]:
        """Let no signal end lanescope before the program has ended."""
        with handling((*_OF_TERMINAL, *_PASSED_ON), self._arrived):
            yield

    def begin(self, program: subprocess.Popen[bytes]) -> None:
        """Hand on what came before the program was there, and all that comes."""
        self._program = program
        for number in self._early:
            program.send_signal(number)

    def _arrived(self, number: int, _: FrameType | None) -> None:
        if number in _OF_TERMINAL and _is_shown_by_terminal():
            return  # the terminal has sent it to the program as well
        if self._program is None:
            self._early.append(number)
        else:
            self._program.send_signal(number)


def _is_shown_by_terminal() -> bool:
    """Return whether a terminal sends its signals to our process group now."""
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
