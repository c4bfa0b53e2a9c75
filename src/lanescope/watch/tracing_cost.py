"""What tracing costs: measured once for a machine, predicted for every watch."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from lanescope.codec.atomic import write_atomically, writing_to
from lanescope.codec.fields import FieldError, Signed, build
from lanescope.codec.files import read_json
from lanescope.errors import InputError, NotMeasuredError
from lanescope.machine import Machine
from lanescope.run.folders import default_runs_folder
from lanescope.watch.codes import What
from lanescope.watch.sources.trace import DEFAULT_KINDS, TraceSource
from lanescope.watch.timeline import Timeline

_FILE = "tracing-cost.json"
#: Rounds of a copy, a kernel and a wait: half a second to a second.
COUNT = 50_000
TURNS = 5


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


def measure_tracing_cost(machine: Machine, turns: int = TURNS, count: int = COUNT) -> TracingCost:
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
        for way in list(times)[:: 1 if turn % 2 == 0 else -1]:
            times[way].append(_seconds_of_a_round(kinds.get(way), count))
    copy = [b - a for a, b in zip(times["plain"], times["copies"], strict=True)]
    kernel = [b - a for a, b in zip(times["copies"], times["kernels"], strict=True)]
    return TracingCost(
        *_spread(copy),
        *_spread(kernel),
        machine.gpus[0].name,
        machine.driver,
        f"{date.today():%Y-%m-%d}",
    )


def keep(cost: TracingCost, runs: Path | None = None) -> Path:
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


def kept(machine: Machine, runs: Path | None = None) -> TracingCost | None:
    """Return what was measured on this machine before; None when nothing was, or is damaged."""
    try:
        cost = build(TracingCost, read_json((runs or default_runs_folder()) / _FILE))
    except (InputError, FieldError):
        return None
    here = machine.gpus[0].name if machine.gpus else None
    return cost if (cost.gpu, cost.driver) == (here, machine.driver) else None


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
    if cost is None or timeline.seconds <= 0 or not timeline.processes:
        return None
    counts: dict[int, tuple[int, int]] = {}
    for piece in timeline.operations.pieces():
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
