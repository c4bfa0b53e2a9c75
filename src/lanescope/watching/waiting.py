"""What a watch waits for: a program that it runs, a process that runs, or somebody's wish."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol

from lanescope.errors import InputError, argument
from lanescope.watching.launcher import Outcome, launch, resolve_command
from lanescope.watching.signals import handling

_ZOMBIE, _DEAD = "Z", "X"
#: Of /proc/PID/stat, counted from the state on: when the process started.
_START_TIME = 19


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


#: How often is looked whether the end has come; each look takes some 30 µs.
_LOOK_SECONDS = 0.02
_ENDING = (signal.SIGINT, signal.SIGTERM)


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

    def wait(self, environment: Mapping[str, str]) -> Outcome | None:
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

    def wait(self, environment: Mapping[str, str]) -> Outcome:
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
