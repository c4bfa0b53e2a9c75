"""A watch: what its sources saw, what became of boosted copies, and what it and tracing cost.

What tracing costs is measured once for a machine, and predicted for every watch.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lanescope.codec.fields import FieldError, Positive, Signed, build
from lanescope.codec.files import fields_of, read_json, write_atomically, writing_to
from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.results import median_interval
from lanescope.store.folder import default_runs_folder
from lanescope.trace.codes import OperationCode
from lanescope.trace.link_error_log import LinkErrors
from lanescope.trace.timeline import GPU_CLOCK, Timeline
from lanescope.trace.watch_folder import WATCH as WATCH
from lanescope.trace.watch_folder import SourceRecord as SourceRecord
from lanescope.trace.watch_folder import WatchManifest as WatchManifest

T = TypeVar("T")
TURNS = "turns.json"
#: With fewer turns their whole range is no 95 % interval of the median.
FEWEST_FOR_INTERVAL = 6
BOOST = "boost.json"
#: Among the runs.
_TRACING_COST = "tracing-cost.json"


@dataclass(frozen=True, slots=True)
class WatchTurns:
    """How long a program took from its start to its end, in seconds, turn by turn.

    Attributes
    ----------
    plain, watched
        Of each turn: without and with watching.
    """

    plain: tuple[Positive, ...]
    watched: tuple[Positive, ...]

    @property
    def slowdown(self) -> tuple[float, float, float]:
        """The median of the turns' slowdowns, and the 95 % interval of it, as shares."""
        pairs = zip(self.plain, self.watched, strict=True)
        shares = [watched / plain - 1 for plain, watched in pairs]
        return (statistics.median(shares), *median_interval(np.array(shares)))


def store_turns(folder: Path, turns: WatchTurns) -> None:
    """Write turns into a run's folder; raises InputError."""
    _store(folder / TURNS, turns)


def read_turns(folder: Path) -> WatchTurns | None:
    """Return the turns of a run; None where it has none.

    Raises
    ------
    InputError
        If they cannot be read or are damaged.
    """
    with fields_of(folder / TURNS, "name another run"):
        turns = _built(folder / TURNS, WatchTurns)
        if turns and not 0 < len(turns.plain) == len(turns.watched):
            raise FieldError("it has no turns, or not as many watched as plain", "watched")
        return turns


@dataclass(frozen=True, slots=True)
class BoostOutcome:
    """What became of copies that were to be carried.

    Attributes
    ----------
    lines
        In sentences.
    numbers
        As `lanescope boost --json` writes them; None where the program could not be boosted.
    """

    lines: tuple[str, ...]
    numbers: dict[str, Any] | None = None


def store_boost(folder: Path, boost: BoostOutcome) -> None:
    """Write it into a run's folder; raises InputError."""
    _store(folder / BOOST, boost)


def read_boost(folder: Path) -> BoostOutcome | None:
    """Return what is stored; None where the program was not to be boosted.

    Raises
    ------
    InputError
        If it cannot be read or is damaged.
    """
    with fields_of(folder / BOOST, "name another run"):
        return _built(folder / BOOST, BoostOutcome)


def _store(path: Path, value: WatchTurns | BoostOutcome) -> None:
    with writing_to(path.parent):
        write_atomically(path, json.dumps(dataclasses.asdict(value)).encode())


def _built(path: Path, kind: type[T]) -> T | None:
    return build(kind, read_json(path, inner=1)) if path.exists() else None


@dataclass(frozen=True, slots=True)
class TracingCost:
    """How much longer a thread takes for each operation that is traced.

    Attributes
    ----------
    copy_seconds, copy_low, copy_high
        For an asynchronous copy with its call: median of the turns, fastest and slowest.
    kernel_seconds, kernel_low, kernel_high
        What a kernel takes more where kernels are traced, too.
    gpu, driver
        Where it was measured.
    day
        When, such as 2026-11-21.
    """

    copy_seconds: Signed
    copy_low: Signed
    copy_high: Signed
    kernel_seconds: Signed
    kernel_low: Signed
    kernel_high: Signed
    gpu: str
    driver: str | None
    day: str


def store_cost(cost: TracingCost, runs: Path | None = None) -> Path:
    """Write what was measured among the runs.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    path = (runs or default_runs_folder()) / _TRACING_COST
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(dataclasses.asdict(cost), indent=1).encode())
    return path


def stored_cost(machine: Machine, runs: Path | None = None) -> TracingCost | None:
    """Return what was measured on this machine before; None when nothing was, or is damaged."""
    try:
        cost = build(TracingCost, read_json((runs or default_runs_folder()) / _TRACING_COST))
    except (InputError, FieldError):
        return None
    here = machine.gpus[0].name if machine.gpus else None
    return cost if (cost.gpu, cost.driver) == (here, machine.driver) else None


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Time that the program's calls took longer: predicted, and at most.

    Attributes
    ----------
    share
        Of the program's time, of the process with the most of it.
    seconds
        The same in seconds.
    copies, kernels
        How many that process had, which were traced.
    basis
        Where the figures come from, as half a sentence.
    """

    share: float
    seconds: float
    copies: int
    kernels: int
    basis: str


def slowdown(timeline: Timeline, cost: TracingCost | None) -> Slowdown | None:
    """Return what tracing may have cost the program; None where that is not known.

    Calls of several threads can overlap, and time that a thread waits for the GPU hides what
    its calls take longer: so it is the most that it can be.
    """
    traced = any(process.timed_by == GPU_CLOCK for process in timeline.processes)
    if cost is None or timeline.seconds <= 0 or not traced:
        return None
    counts: dict[int, tuple[int, int]] = {}
    for piece in timeline.timed_operations.pieces():
        for pid in np.unique(piece.pid).tolist():
            mine = piece.pid == pid
            copies, kernels = counts.get(pid, (0, 0))
            counts[pid] = (
                copies + int((piece.is_copy & mine).sum()),
                kernels + int((np.equal(piece.what, OperationCode.KERNEL) & mine).sum()),
            )
    taken = {
        pid: copies * max(cost.copy_seconds, 0.0) + kernels * max(cost.kernel_seconds, 0.0)
        for pid, (copies, kernels) in counts.items()
    }
    most = max(taken, key=lambda pid: taken[pid], default=None)
    copies, kernels = (0, 0) if most is None else counts[most]
    seconds = 0.0 if most is None else taken[most]
    basis = f"measured by 'lanescope doctor --cost' on {cost.day}"
    return Slowdown(seconds / timeline.seconds, seconds, copies, kernels, basis)


@dataclass(frozen=True, slots=True)
class WatchRun:
    """A watch in memory; `folder` is where it is stored.

    Attributes
    ----------
    link_errors
        By how much error counters rose, by GPU; empty where nobody looked.
    turns
        How long the program took with and without watching; None where that was not asked.
    boost
        What became of its copies that were to be carried; None where it was not boosted.
    """

    manifest: WatchManifest
    timeline: Timeline
    folder: Path | None = field(default=None)
    link_errors: tuple[LinkErrors, ...] = ()
    turns: WatchTurns | None = None
    boost: BoostOutcome | None = None
