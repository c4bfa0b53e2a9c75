"""Runs all turns of a reproduction on this machine."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lanescope.errors import InputError
from lanescope.interruption import Interrupted
from lanescope.machine import Gpu
from lanescope.store.folder import State
from lanescope.studies.pcie_thesis.reproduction import (
    IDLE_SECONDS,
    FinishedTurn,
    Mode,
    Program,
    ReproductionFolder,
    ReproductionRequest,
    Turn,
    parse_steps,
    turns,
)
from lanescope.watching.launcher import Captured, Stopped
from lanescope.watching.session import NotStoredError, Watch
from lanescope.watching.session import watch as run_watch
from lanescope.watching.sources import WatchSource
from lanescope.watching.sources.counters import CountersSource, ThroughputSource
from lanescope.watching.sources.pm import PmSource
from lanescope.watching.sources.probe import ProbeSource
from lanescope.watching.sources.trace import DEFAULT_KINDS, TraceSource

_LOOK_SECONDS = 0.05


def command_of(program: Program, gpu: int) -> tuple[str, ...]:
    """Return the command line of a program on a GPU."""
    return (
        *(_python(), "-m", "lanescope.examples"),
        *program.arguments,
        *("--gpu", str(gpu), "--json"),
    )


def _python() -> str:
    """Return this interpreter: by its short name where the shell finds the same."""
    found = shutil.which("python3")
    same = found is not None and Path(found).parent == Path(sys.executable).parent
    return "python3" if same else sys.executable


@dataclass
class Idle:
    """Some time in which no program runs, or until the end is asked for."""

    seconds: float
    stopped: Stopped
    program: tuple[str, ...] = field(default=(), init=False)
    traceable: bool = field(default=False, init=False)
    notes: tuple[str, ...] = field(default=("No program ran: the link was idle.",), init=False)

    def wait(self, environment: Mapping[str, str] | None = None) -> None:
        """Wait for the end of the time."""
        end = time.monotonic() + self.seconds
        with self.stopped.listening():
            while self.stopped.signal is None and (left := end - time.monotonic()) > 0:
                time.sleep(min(_LOOK_SECONDS, left))


Progress = Callable[[Turn, int, int], None]


def carry_out(folder: ReproductionFolder, progress: Progress | None = None) -> int | None:
    """Run everything that was asked for, and store each turn when it is over.

    Ctrl-C and SIGTERM end the program that runs, and keep what was done.

    Returns
    -------
    int | None
        The signal that ended it before its time; None when all was done.

    Raises
    ------
    InputError
        If the folder cannot be written, or nothing of any program could be run.
    """
    request, stopped = folder.asked, Stopped()
    planned = turns(request.programs, request.repetitions)
    done: list[FinishedTurn] = []
    with stopped.listening():
        for number, turn in enumerate(planned, 1):
            if stopped.signal is not None:
                break
            if progress is not None:
                progress(turn, number, len(planned))
            over = _run(turn, folder.place(turn), request, stopped)
            if stopped.signal is None:  # else it was cut off, and tells nothing
                folder.finish(over)
                done.append(over)
        state = State.COMPLETE if stopped.signal is None else State.INTERRUPTED
        notes = tuple(dict.fromkeys(one.error for one in done if one.error is not None))
        folder.update(dataclasses.replace(request, state=state, notes=notes))
    return stopped.signal


def sources_of(mode: Mode, gpu: Gpu, folder: Path) -> Sequence[WatchSource]:
    """Return what watches one GPU in one way, whether or not it works here."""
    if mode is Mode.PROBE:
        return (ProbeSource(gpu, folder),)
    return (
        PmSource(gpu, folder),
        CountersSource((gpu,), folder),
        ThroughputSource(gpu, folder),
        TraceSource(folder, (*DEFAULT_KINDS, "kernel")),
    )


def _run(turn: Turn, place: Path, request: ReproductionRequest, stopped: Stopped) -> FinishedTurn:
    gpu = next(gpu for gpu in request.machine.gpus if gpu.index == request.gpu)

    def sources(folder: Path) -> Sequence[WatchSource]:
        return sources_of(turn.mode, gpu, folder)

    def watched(waited: Idle | Captured) -> None:
        try:
            run_watch(Watch(request.machine, waited, request.command, sources, place))
        except NotStoredError as error:
            if not isinstance(error.__cause__, Interrupted):
                raise
            stopped.signal = error.__cause__.number

    if turn.program is None:
        watched(Idle(IDLE_SECONDS, stopped))
        return FinishedTurn(turn, place)
    program = Captured(command_of(turn.program, request.gpu), stopped)
    if turn.mode is Mode.PLAIN:
        program.wait()
    else:
        watched(program)
    if program.exit_code:
        last = (program.errors.strip().splitlines() or ["it said nothing"])[-1]
        error = f"{turn.program.title} ended with {program.exit_code}: {last}"
        return FinishedTurn(turn, place, error=error)
    try:
        return FinishedTurn(turn, place, parse_steps(program.output))
    except InputError as error:
        return FinishedTurn(turn, place, error=str(error))
