"""What a watch waits for: the program that it runs, one that runs already, or somebody's wish.

A program runs in its own environment, as if nobody watched it. Its streams, its descriptors, its
process group and its place in the shell's job are those of lanescope, so that pipes, scripts,
Ctrl-C and Ctrl-Z do what they would do without it. Signals that lanescope gets are the program's:
signals.py.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol

from lanescope._core import native
from lanescope.errors import InputError, argument
from lanescope.interruption import ENDING
from lanescope.machine.part_names import ORDER_VARIABLE, order_is_ours
from lanescope.watching.signals import handling, passing_on

#: Python sets LC_CTYPE to one of these where the locale is that of C (PEP 538).
_COERCED = (b"C.UTF-8", b"C.utf8", b"UTF-8")
_OF_C = (None, b"", b"C", b"POSIX")
_LOCALE = b"LC_CTYPE"
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_KILLED = 128
_ZOMBIE, _DEAD = "Z", "X"
#: Of /proc/PID/stat, counted from the state on: when the process started.
_START_TIME = 19
#: How often is looked whether the end has come; each look takes some 30 µs.
_LOOK_SECONDS = 0.02
_ENDING = (signal.SIGINT, signal.SIGTERM)


def program_environment() -> dict[str, str]:
    """Return this process's environment as a program is to have it.

    What somebody has changed in ``os.environ`` since the start stays changed.
    """
    return without_ours(os.environb, _at_start())


def without_ours(now: Mapping[bytes, bytes], at_start: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return an environment without the locale that Python, and the order that we, have set.

    Parameters
    ----------
    now, at_start
        The variables of a process, and those that it was started with.
    """
    remaining = dict(now)
    before = at_start.get(_LOCALE)
    if remaining.get(_LOCALE) in _COERCED and before in _OF_C:
        del remaining[_LOCALE]
        if before is not None:
            remaining[_LOCALE] = before
    if order_is_ours():
        remaining.pop(ORDER_VARIABLE.encode(), None)
    return {os.fsdecode(name): os.fsdecode(value) for name, value in remaining.items()}


def _at_start() -> dict[bytes, bytes]:
    try:
        words = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:  # no /proc: what is there counts as the user's
        return dict(os.environb)
    return {name: value for name, equals, value in (w.partition(b"=") for w in words) if equals}


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
class ProgramExit:
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
        raise InputError(f"no program to run; name {argument.program}")
    name = command[0]
    if not name:
        raise CommandError(f"the program's name is empty; name {argument.program}", _NOT_FOUND)
    path = (os.environ if environment is None else environment).get("PATH", os.defpath)
    if shutil.which(name, path=path) is not None:
        return tuple(command)
    places = (os.path.join(folder, name) for folder in path.split(os.pathsep))
    there = [place for place in places if os.path.isfile(place)]
    if os.path.isdir(name) and os.sep in name:
        raise CommandError(f"{name} is a folder; name a program", _NOT_EXECUTABLE)
    if os.sep in name and os.path.exists(name):
        raise CommandError(
            f"{name} may not be executed; make it executable (chmod +x) or name its interpreter",
            _NOT_EXECUTABLE,
        )
    if os.sep not in name and there:
        raise CommandError(
            f"{there[0]} may not be executed; make it executable (chmod +x)",
            _NOT_EXECUTABLE,
        )
    where = "" if os.sep in name else " in PATH"
    hint = f"; to run the one in this folder write ./{name}" if os.path.isfile(name) else ""
    raise CommandError(f"there is no program {name}{where}{hint or '; check its name'}", _NOT_FOUND)


def launch(command: Sequence[str], environment: Mapping[str, str]) -> ProgramExit:
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
    with passing_on() as signals:
        start_ns = native.watch_time_ns()
        program = _start(command, environment)
        code = signals.wait(program)
        end_ns = native.watch_time_ns()
    killed_by = -code if code < 0 else None
    exit_code = code if killed_by is None else _KILLED + killed_by
    return ProgramExit(exit_code, start_ns, end_ns, program.pid, killed_by)


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


class Stopped:
    """Whether somebody has asked for the end, and what is to be ended then."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.running: subprocess.Popen[bytes] | None = None

    def listening(self) -> AbstractContextManager[None]:
        """Have Ctrl-C and SIGTERM ask for the end; a watch takes them for itself otherwise."""
        return handling(ENDING, self.ask)

    def ask(self, number: int, _: FrameType | None) -> None:
        """Take a signal: the program that runs ends, and no other one begins."""
        self.signal = number
        if self.running is not None:
            self.running.terminate()


@dataclass
class Captured:
    """A program that a watch waits for, with what it printed.

    Attributes
    ----------
    output, errors
        What it printed, after its end.
    exit_code, seconds
        How it ended, and how long it ran.
    """

    program: tuple[str, ...]
    stopped: Stopped
    output: str = ""
    errors: str = ""
    exit_code: int | None = None
    seconds: float | None = None
    traceable: bool = field(default=True, init=False)
    notes: tuple[str, ...] = field(default=(), init=False)

    def wait(self, environment: Mapping[str, str] | None = None) -> ProgramExit:
        """Run it until it ends; at once, when the end has been asked for already.

        Raises
        ------
        InputError
            If it cannot be run, or there is no place for what it prints.
        """
        try:
            return self._run(environment)
        except OSError as error:
            raise InputError(
                f"{self.program[0]} cannot be run, or its output not be kept in temporary files: "
                f"{error.strerror}; look at it, and at TMPDIR"
            ) from error

    def _run(self, environment: Mapping[str, str] | None) -> ProgramExit:
        files = tempfile.TemporaryFile
        with self.stopped.listening(), files() as output, files() as errors:
            start_ns = native.watch_time_ns()
            running = subprocess.Popen(
                self.program,
                env=dict(os.environ if environment is None else environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
            self.stopped.running = running
            if self.stopped.signal is not None:
                running.terminate()
            code = running.wait()
            self.stopped.running = None
            end_ns = native.watch_time_ns()
            for file, name in ((output, "output"), (errors, "errors")):
                file.seek(0)
                setattr(self, name, file.read().decode(errors="replace"))
        signal = -code if code < 0 else None
        self.seconds = (end_ns - start_ns) * 1e-9
        self.exit_code = code if signal is None else _KILLED + signal
        return ProgramExit(self.exit_code, start_ns, end_ns, running.pid, signal)


def start_of(pid: int) -> str | None:
    """Return when a process started, in ticks, which tells it from a later one of its number.

    None when there is none that runs and may be seen.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # its name may hold anything
    return None if fields[0] in (_ZOMBIE, _DEAD) else fields[_START_TIME]


def command_line(pid: int) -> tuple[str, ...]:
    """Return a process's arguments; of those that have none, the name in brackets."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return (f"[process {pid}]",)
    return tuple(words.rstrip("\0").split("\0")) if words.strip("\0") else (f"[{name}]",)


class Waited(Protocol):
    """What ends a watch.

    Attributes
    ----------
    program
        What is watched, with its arguments; empty for the whole machine.
    traceable
        Whether it can be traced: only what is started with a tracer in it.
    notes
        What follows from that, for the record, in sentences.
    """

    @property
    def program(self) -> tuple[str, ...]:
        """What is watched."""

    @property
    def traceable(self) -> bool:
        """Whether it can be traced."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What follows from that."""

    def wait(self, environment: Mapping[str, str]) -> ProgramExit | None:
        """Return at its end; None where it has no outcome that we can know.

        Parameters
        ----------
        environment
            All of the environment of what is started.

        Raises
        ------
        CommandError
            If the system cannot run it.
        """


@dataclass(frozen=True, slots=True)
class Launched:
    """A program that is run, unchanged.

    Raises
    ------
    InputError
        If there is none; a `CommandError` if it cannot be run.
    """

    program: tuple[str, ...]
    traceable: bool = field(default=True, init=False)
    notes: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        resolve_command(self.program)

    def wait(self, environment: Mapping[str, str]) -> ProgramExit:
        """Run it until it ends."""
        return launch(self.program, environment)


@dataclass(frozen=True, slots=True)
class WholeMachine:
    """Whatever the machine does, for some seconds; None is until Ctrl-C or SIGTERM."""

    seconds: float | None = None
    program: tuple[str, ...] = field(default=(), init=False)
    traceable: bool = field(default=False, init=False)
    notes: tuple[str, ...] = field(
        default=("The whole machine was watched; only programs that lanescope runs are traced.",),
        init=False,
    )

    def wait(self, environment: Mapping[str, str]) -> None:
        """Wait for the end of the time, or for the wish to end."""
        _wait_until(lambda: False, self.seconds)


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process that runs already, until it ends, for some seconds at most.

    It is neither stopped nor traced, only looked at in /proc.

    Raises
    ------
    InputError
        If there is no such process, or we may not see it.
    """

    pid: int
    seconds: float | None = None
    program: tuple[str, ...] = field(init=False)
    traceable: bool = field(default=False, init=False)
    born: str = field(init=False)

    def __post_init__(self) -> None:
        born = start_of(self.pid)
        if born is None:
            raise InputError(
                f"there is no process {self.pid} that can be seen here; check the number given to "
                f"{argument.pid} (ps -e), or watch as root if the process is another user's"
            )
        object.__setattr__(self, "born", born)
        object.__setattr__(self, "program", command_line(self.pid))

    @property
    def notes(self) -> tuple[str, ...]:
        """Tell what counters of a link do not."""
        return (
            f"Process {self.pid} ran already and was not traced: only programs that lanescope "
            "runs are. Counters tell what all processes moved while it ran.",
        )

    def wait(self, environment: Mapping[str, str]) -> None:
        """Wait for its end; how it ended is told to its parent only."""
        _wait_until(lambda: start_of(self.pid) != self.born, self.seconds)


def waited_for(
    program: Sequence[str], *, everything: bool, pid: int | None, seconds: float | None
) -> Waited:
    """Return what a watch of a program, of everything or of a process waits for.

    Raises
    ------
    InputError
        Unless exactly one of them is asked for and can be watched.
    """
    if (bool(program), everything, pid is not None).count(True) != 1:
        raise InputError(
            f"name one thing to watch: {argument.program}, {argument.everything} or {argument.pid}"
        )
    if seconds is not None and not (0 < seconds < math.inf):
        raise InputError(
            f"{argument.seconds} {seconds:g} is no length of time; give a number above 0"
        )
    if everything:
        return WholeMachine(seconds)
    if pid is not None:
        return RunningProcess(pid, seconds)
    if seconds is not None:
        raise InputError(
            f"a program is watched until it ends; use {argument.seconds} with "
            f"{argument.everything} or {argument.pid}, or run the "
            "program by timeout"
        )
    return Launched(tuple(program))


def _wait_until(ended: Callable[[], bool], seconds: float | None) -> None:
    """Wait for an end, for Ctrl-C or SIGTERM, or for some seconds to be over."""
    signals: list[int] = []

    def arrived(number: int, _: FrameType | None) -> None:
        signals.append(number)

    end = math.inf if seconds is None else time.monotonic() + seconds
    with handling(_ENDING, arrived):
        while not signals and not ended() and (left := end - time.monotonic()) > 0:
            time.sleep(min(_LOOK_SECONDS, left))
