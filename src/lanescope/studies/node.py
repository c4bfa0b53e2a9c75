"""The check of a node: what is measured, by how much time there is, and by which process.

A process of its own measures, which may crash or hang without taking this one along. A driver
that does not answer holds the process that called it, and no signal ends such a process in time.
So the process that somebody waits for measures nothing: it starts one that does, waits until the
deadline, ends it, and reports what its run folder holds.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

from lanescope import interruption
from lanescope._version import __version__
from lanescope.calls import checked
from lanescope.codec.fields import shown
from lanescope.codec.files import writing_to
from lanescope.copies import Copy, Experiment
from lanescope.copies.experiment import experiment_of
from lanescope.engine.sampling import Plan
from lanescope.errors import ExitCode, InputError, LanescopeError, argument
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.store.folder import MANIFEST, is_there, require_new
from lanescope.store.store import read_run
from lanescope.studies import Option
from lanescope.studies.check import CHECK_BYTES, EXPECT, EXPECT_GPUS, check_experiments
from lanescope.studies.node_report import (
    CheckContext,
    NodeReport,
    NodeState,
    is_host,
    report_of_failure,
    report_of_run,
)
from lanescope.studies.nvbandwidth_cases import CaseOptions, build_cases, choose
from lanescope.studies.running import machine_differences, resolve_machine
from lanescope.studies.study import Study, Work
from lanescope.units.values import OneOf
from lanescope.units.words import Seconds

#: From so many seconds on there is time for a level.
_FULL_SECONDS, _LONG_SECONDS = 45, 300
#: Of the time, for the interpreter's start and for the report.
_RESERVE_SECONDS = 1.0
#: How long a process that was ended is waited for. One that hangs in a driver is left behind.
_ENDING_SECONDS = 0.5
#: How long one that was interrupted may write its run folder: this process has 3 s to end.
_FINISHING_SECONDS = 2.0
_LEAST_SECONDS = 0.1
_MOST_OF_MESSAGE = 4000


class Level(StrEnum):
    """How much is measured."""

    QUICK = "quick"
    """Each GPU with the host in both directions, and with the next GPU: some seconds."""
    FULL = "full"
    """Every path that ``check`` measures, and all GPUs with the host at once: about a minute."""
    LONG = "long"
    """So, and all cases of nvbandwidth, each for its share of the time: ten minutes or more."""


_LEVEL = OneOf("--level", lambda: Level)


def level_within(seconds: float) -> Level:
    """Return the level that fits into a time."""
    if seconds < _FULL_SECONDS:
        return Level.QUICK
    return Level.FULL if seconds < _LONG_SECONDS else Level.LONG


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class NodeCheck(Study):
    """Say in one line whether this node may run jobs, and which part is broken if not.

    Attributes
    ----------
    level
        How much: ``quick``, ``full`` or ``long``.
    expected, expected_gpus
        As of ``check``.
    """

    verb: ClassVar[str] = "node"
    title: ClassVar[str] = "Node"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.5)

    level: Annotated[str, Option(_LEVEL, "How much is measured.", "full")] = "full"
    expected: Annotated[Machine | StrPath | None, EXPECT] = None
    expected_gpus: Annotated[int | None, EXPECT_GPUS] = None

    def work(self, machine: Machine) -> Work:
        """Return the experiments of the level, GPUs before the host's memory."""
        return Work(
            level_experiments(machine, Level(self.level)),
            missing=machine_differences(machine, self.expected, self.expected_gpus),
            unmeasured=() if machine.gpus else machine.notes[:1],
        )


def level_experiments(machine: Machine, level: Level) -> tuple[Experiment, ...]:
    """Return what a level measures; what matters most comes first, as time may run out."""
    every = check_experiments(machine, CHECK_BYTES)
    of_gpus = [e for e in every if e.copies[0].executing_gpu]
    alone = {e.copies[0]: e for e in of_gpus if len(e.copies) == 1}
    to_gpus, from_gpus = (_with_host(alone, machine, down=down) for down in (True, False))
    if level is Level.QUICK:
        quick = [*to_gpus, *from_gpus, *_in_a_ring(alone, machine)]
        return tuple(alone[copy] for copy in quick) or every[-1:]  # by all cores of a node
    more = []
    if len(machine.gpus) > 1:
        more = [experiment_of(c) for c in (to_gpus, from_gpus, [*to_gpus, *from_gpus])]
    if level is Level.LONG and machine.gpus:
        more += build_cases(machine, choose(), CaseOptions(bytes=CHECK_BYTES)).experiments
    known = {e.copies for e in of_gpus}
    extra = {e.name: e for e in more if e.copies not in known}
    of_host = [e for e in every if e not in of_gpus]
    return (*of_gpus, *extra.values(), *of_host)


def _with_host(alone: Iterable[Copy], machine: Machine, *, down: bool) -> list[Copy]:
    """Return the copies between each GPU and the memory next to it, to the GPUs or from them."""
    near = {gpu.id: machine.nearest_node(gpu).id for gpu in machine.gpus}
    found = []
    for copy in alone:
        ends = copy.source.part, copy.destination.part
        host, gpu = ends if down else reversed(ends)
        if near.get(gpu) == host:
            found.append(copy)
    return found


def _in_a_ring(alone: Iterable[Copy], machine: Machine) -> list[Copy]:
    """Return the copies from each GPU to the next one: each GPU sends once, and receives once."""
    gpus = [gpu.id for gpu in machine.gpus]
    following = set(zip(gpus, [*gpus[1:], *gpus[:1]], strict=True))
    return [copy for copy in alone if (copy.source.part, copy.destination.part) in following]


@dataclass(frozen=True, slots=True)
class Request:
    """How a node is to be checked.

    Attributes
    ----------
    within_seconds
        When the report is there, counted from `began`, whatever happens.
    arguments
        Of the command that measures, such as ``--expect``.
    began
        On the monotonic clock.
    """

    within_seconds: float
    arguments: tuple[str, ...]
    began: float


def require_time(seconds: float) -> None:
    """Refuse a time in which nothing can be measured.

    Raises
    ------
    InputError
        If it is shorter than the start of two interpreters.
    """
    if seconds < 3:
        raise InputError(
            f"{argument.within} {seconds:g}s leaves no time to measure; give 3s or more"
        )


def node_arguments(
    expect: str | None, expect_gpus: int | None, *, allow_busy: bool
) -> tuple[str, ...]:
    """Return the options of the process that measures.

    Raises
    ------
    InputError
        If there is no machine file or name as `expect`.
    """
    if expect is not None:
        resolve_machine(expect)
    return (
        *([f"--expect={expect}"] if expect is not None else ()),
        *([f"--expect-gpus={expect_gpus}"] if expect_gpus is not None else ()),
        *(["--allow-busy"] if allow_busy else ()),
    )


def make_folder(folder: Path) -> None:
    """Make a new folder for a run: what is wrong with it is said now, by whoever named it.

    Raises
    ------
    InputError
        If it is not new or empty, or cannot be written.
    """
    require_new(folder)
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)


def node(
    *,
    within: Seconds = 60.0,
    expected: StrPath | None = None,
    expected_gpus: int | None = None,
    allow_busy: bool = False,
    out: StrPath | None = None,
) -> NodeReport:
    """Check this node as ``lanescope node`` does, in a process of its own, which may hang.

    Parameters
    ----------
    within
        Seconds, or text such as ``"15s"``: the report is there by then, whatever happens. Below
        45 s each GPU with the host and the next GPU, below 5 min all paths, else all cases.
    expected
        Machine file, or name of a machine that ships with lanescope.
    expected_gpus
        How many GPUs there have to be.
    allow_busy
        Measure GPUs that other processes use, too.
    out
        New run folder; None stores nothing.

    Returns
    -------
    NodeReport
        ``str()`` of it is the line that the command prints.

    Raises
    ------
    InputError
        If there is no such machine, too little time, or the folder cannot be written.
    """
    require_time(within)
    name = None if expected is None else os.fspath(expected)
    arguments = node_arguments(name, expected_gpus, allow_busy=allow_busy)
    folder = None if out is None else Path(out)
    if folder is not None:
        make_folder(folder)
    return check_node(Request(within, arguments, time.monotonic()), folder)


def host_name() -> str:
    """Return the node's name: ``$LANESCOPE_HOST`` where that says it, as in containers.

    Raises
    ------
    InputError
        If that is no name.
    """
    name = os.environ.get("LANESCOPE_HOST")
    if name and not is_host(name):
        raise InputError(
            f"$LANESCOPE_HOST is {shown(name)}, which is no node's name; give one "
            "without blanks, quotation marks and commas"
        )
    return name or socket.gethostname()


def check_node(request: Request, out: Path | None) -> NodeReport:
    """Check this node and return what it comes to, in time.

    Parameters
    ----------
    out
        New run folder; None stores nothing.
    """
    if out is not None:
        try:
            return _checked(request, out, stored=True)
        except (KeyboardInterrupt, SystemExit):
            if is_there(out / MANIFEST):
                interruption.note_run_folder(str(out))
            else:  # nothing was measured
                with suppress(OSError):
                    out.rmdir()
            raise
    with tempfile.TemporaryDirectory(prefix="lanescope-node-") as folder:
        return _checked(request, Path(folder) / "run", stored=False)


def _checked(request: Request, out: Path, *, stored: bool) -> NodeReport:
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    host = host_name()  # what is wrong with it is said before anything is measured
    level = level_within(request.within_seconds)
    with tempfile.TemporaryFile() as messages:
        code = _measure(request, level, out, messages.fileno())
        said = _last_line(messages.fileno())
    seconds = round(time.monotonic() - request.began, 3)
    about = CheckContext(__version__, host, started, seconds, level)
    why = _why(code, said, request.within_seconds)
    try:
        run = read_run(out)
    except LanescopeError:  # it did not come so far
        return _nothing(code, why, about)
    report = report_of_run(run, about, interrupted=why if code != ExitCode.OK else "")
    return report if stored else replace(report, folder=None)


def _measure(request: Request, level: str, out: Path, messages: int) -> int | None:
    """Let a process measure until the deadline; return its exit code, None where it was late."""
    deadline = request.began + request.within_seconds
    left = max(deadline - time.monotonic() - _RESERVE_SECONDS, _LEAST_SECONDS)
    process = subprocess.Popen(
        _command(level, f"--within={left:.3f}s", f"--out={out}", *request.arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=messages,
        start_new_session=True,
    )
    try:
        return process.wait(timeout=max(deadline - time.monotonic() - _ENDING_SECONDS, 0.1))
    except subprocess.TimeoutExpired:
        return None
    except (KeyboardInterrupt, SystemExit):
        _interrupt(process)
        raise
    finally:
        _end(process)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "lanescope", "node", "--measure", *arguments]


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Let a process finish its run folder, which then says that it was interrupted."""
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_FINISHING_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started, as far as the kernel can."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDING_SECONDS)


def _why(code: int | None, said: str, within: float) -> str:
    """Return why a process that measured did not end well, in words."""
    if code is None:
        return f"the check did not end within {within:g} s and was ended"
    if code < 0:
        return f"the process that measured was ended by signal {-code}"
    return said or f"the process that measured ended with exit code {code}"


def _nothing(code: int | None, why: str, about: CheckContext) -> NodeReport:
    """Return the report of a process that measured nothing.

    An interpreter that finds no lanescope ends with 1, which says *sick* of a node.
    """
    if code is None or code < 0:
        return report_of_failure(f"{why}; nothing was measured", about, NodeState.NOT_MEASURED)
    if code == ExitCode.NOT_AS_EXPECTED:
        return report_of_failure(why, about, NodeState.MISSING)
    return report_of_failure(
        why, about, code=ExitCode.INPUT if code == ExitCode.INPUT else ExitCode.FAULT
    )


def _last_line(descriptor: int) -> str:
    """Return the last thing that a process said, without the program's name."""
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, _MOST_OF_MESSAGE, max(size - _MOST_OF_MESSAGE, 0))
    lines: Sequence[str] = text.decode(errors="replace").strip().splitlines() or [""]
    return lines[-1].removeprefix("lanescope: ").strip()
