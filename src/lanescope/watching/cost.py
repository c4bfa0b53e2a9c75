"""What watching costs a program, and what tracing does: measured with and without, in turns."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import date
from pathlib import Path

from lanescope.errors import InputError, NotMeasuredError
from lanescope.interruption import Interrupted
from lanescope.machine import Machine
from lanescope.trace.run import TracingCost, WatchTurns, store_turns
from lanescope.watching.launcher import Captured, Stopped, program_environment
from lanescope.watching.session import NotStoredError, Watch, watch
from lanescope.watching.sources.trace import DEFAULT_KINDS, TraceSource

#: Rounds of a copy, a kernel and a wait: half a second to a second.
TRACING_ROUNDS = 50_000
TRACING_TURNS = 5


def take_turns(request: Watch, count: int, folder: Path) -> WatchTurns | None:
    """Run a program so often without and with watching, in turns, and store how long it took.

    What it prints is dropped, and it has no input.

    Parameters
    ----------
    folder
        The run's; what was measured is there after each turn.

    Returns
    -------
    Turns | None
        Those that were done when somebody interrupted; None if there was none.

    Raises
    ------
    InputError
        If the program ends with an error, or the folder or temporary files cannot be written.
    """
    plain: list[float] = []
    watched: list[float] = []
    stopped = Stopped()
    turns_so_far = None
    with stopped.listening(), _temporary_folder() as place:
        for number in range(count):
            seconds: dict[bool, float] = {}
            for watching in (False, True) if number % 2 == 0 else (True, False):
                lasted = _seconds(request, place / "run", watching, stopped)
                if lasted is None:
                    return turns_so_far
                seconds[watching] = lasted
            plain.append(seconds[False])
            watched.append(seconds[True])
            turns_so_far = WatchTurns(tuple(plain), tuple(watched))
            store_turns(folder, turns_so_far)
    return turns_so_far


def _not_stored(error: InputError) -> InputError:
    """Return why a turn was not stored: its folder goes, and --out does not name it."""
    cause = error.__cause__ if isinstance(error, NotStoredError) else error
    system = getattr(cause, "__cause__", None)
    if not isinstance(system, OSError):
        return InputError(f"a turn of --turns could not be stored: {cause}")
    return InputError(
        "a turn of --turns could not be stored among temporary files: "
        f"{system.strerror or system}; name another place by TMPDIR"
    )


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Make a folder for the runs of the turns; raises InputError."""
    try:
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    except OSError as error:
        raise InputError(
            f"--turns has no place for temporary files: {error.strerror}; name one by TMPDIR"
        ) from error
    with folder as place:
        yield Path(place)


def _seconds(request: Watch, place: Path, watching: bool, stopped: Stopped) -> float | None:
    """Run the program once; None where somebody asked for the end."""
    if stopped.signal is not None:
        return None
    program = Captured(request.waited.program, stopped)
    if watching:
        again = dataclasses.replace(request, waited=program, out=place, beside=nullcontext)
        try:
            run = watch(again)
        except InputError as error:
            if isinstance(error, NotStoredError) and isinstance(error.__cause__, Interrupted):
                stopped.signal = error.__cause__.number
                return None
            raise _not_stored(error) from error
        assert run.folder is not None
        shutil.rmtree(run.folder, ignore_errors=True)
    else:
        program.wait(program_environment())
    if stopped.signal is not None:
        return None
    if program.exit_code or program.seconds is None:
        raise InputError(
            f"{program.program[0]} ended with {program.exit_code} when it was run again for "
            "--turns: what watching costs can be measured only where it can run again and again"
        )
    return program.seconds


def measure_tracing_cost(machine: Machine, turns: int = TRACING_TURNS) -> TracingCost:
    """Run ``many-copies`` with and without a trace, in turns.

    Each round of it copies 4 KiB, starts a kernel and waits, so that nothing hides what a call
    takes more.

    Raises
    ------
    NotMeasuredError
        If programs cannot be traced here, or the program fails.
    """
    times: dict[str, list[float]] = {"plain": [], "copies": [], "kernels": []}
    kinds = {"copies": DEFAULT_KINDS, "kernels": (*DEFAULT_KINDS, "kernel")}
    for turn in range(turns):
        for traced in list(times)[:: 1 if turn % 2 == 0 else -1]:
            times[traced].append(_seconds_of_a_round(kinds.get(traced), TRACING_ROUNDS))
    copy = [b - a for a, b in zip(times["plain"], times["copies"], strict=True)]
    kernel = [b - a for a, b in zip(times["copies"], times["kernels"], strict=True)]
    return TracingCost(
        *_spread(copy),
        *_spread(kernel),
        machine.gpus[0].name,
        machine.driver,
        f"{date.today():%Y-%m-%d}",
    )


def _seconds_of_a_round(kinds: tuple[str, ...] | None, count: int) -> float:
    program = ["many-copies", "--rate", "0", "--count", str(count), "--json"]
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if kinds is not None:
            source = TraceSource(Path(folder), kinds)
            source.start()
            environment |= source.environment()
        done = subprocess.run(
            [sys.executable, "-m", "lanescope.examples", *program],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        why = done.stderr.strip().splitlines()
        raise NotMeasuredError(f"the program that copies failed: {why[-1] if why else 'no word'}")
    (step,) = [s for s in json.loads(done.stdout)["steps"] if s["name"] == "copies"]
    return float((step["end_ns"] - step["begin_ns"]) * 1e-9 / step["copies"])


def _spread(values: list[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)
