"""Checks a node by a process of its own, which may crash or hang without taking this one along.

A driver that does not answer holds the process that called it, and no signal ends such a process
in time. So the process that somebody waits for measures nothing: it starts one that does, waits
until the deadline, ends it, and reports what its run folder holds.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from lanescope import interruption
from lanescope._version import __version__
from lanescope.argument_names import argument
from lanescope.codec.atomic import writing_to
from lanescope.codec.fields import shown
from lanescope.errors import ExitCode, InputError, LanescopeError
from lanescope.kinds import StrPath
from lanescope.store.folders import MANIFEST, is_there, require_new
from lanescope.store.store import read_run
from lanescope.studies.node.report import (
    Check,
    NodeReport,
    State,
    is_host,
    report_of_failure,
    report_of_run,
)
from lanescope.studies.node.study import level_within
from lanescope.studies.running import resolve_machine
from lanescope.units.words import Seconds

#: Of the time, for the interpreter's start and for the report.
_RESERVE_SECONDS = 1.0
#: How long a process that was ended is waited for. One that hangs in a driver is left behind.
_ENDING_SECONDS = 0.5
#: How long one that was interrupted may write its run folder: this process has 3 s to end.
_FINISHING_SECONDS = 2.0
_LEAST_SECONDS = 0.1
_MOST_OF_MESSAGE = 4000


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
            f"$LANESCOPE_HOST is {shown(name)}, which is no node's name; give one in one line, "
            "without quotation marks and commas"
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
    about = Check(__version__, host, started, seconds, level)
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


def _nothing(code: int | None, why: str, about: Check) -> NodeReport:
    if code is None or code < 0:
        return report_of_failure(f"{why}; nothing was measured", about, State.NOT_MEASURED)
    if code == ExitCode.NOT_AS_EXPECTED:
        return report_of_failure(why, about, State.MISSING)
    return report_of_failure(why, about, code=code or ExitCode.FAULT)


def _last_line(descriptor: int) -> str:
    """Return the last thing that a process said, without the program's name."""
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, _MOST_OF_MESSAGE, max(size - _MOST_OF_MESSAGE, 0))
    lines: Sequence[str] = text.decode(errors="replace").strip().splitlines() or [""]
    return lines[-1].removeprefix("lanescope: ").strip()
