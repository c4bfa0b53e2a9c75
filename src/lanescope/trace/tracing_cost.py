"""What tracing costs: measured once for a machine, predicted for every watch."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lanescope.codec.atomic import write_atomically, writing_to
from lanescope.codec.fields import FieldError, Signed, build
from lanescope.codec.files import read_json
from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.store.folders import default_runs_folder
from lanescope.trace.codes import What
from lanescope.trace.timeline import GPU_CLOCK, Timeline

_FILE = "tracing-cost.json"


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
    path = (runs or default_runs_folder()) / _FILE
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(dataclasses.asdict(cost), indent=1).encode())
    return path


def stored_cost(machine: Machine, runs: Path | None = None) -> TracingCost | None:
    """Return what was measured on this machine before; None when nothing was, or is damaged."""
    try:
        cost = build(TracingCost, read_json((runs or default_runs_folder()) / _FILE))
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
                kernels + int((np.equal(piece.what, What.KERNEL) & mine).sum()),
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
