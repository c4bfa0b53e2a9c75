"""Measures what tracing costs a program on this machine."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from lanescope.errors import NotMeasuredError
from lanescope.machine import Machine
from lanescope.trace.tracing_cost import TracingCost
from lanescope.watching.sources.trace import DEFAULT_KINDS, TraceSource

#: Rounds of a copy, a kernel and a wait: half a second to a second.
COUNT = 50_000
TURNS = 5


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
        for traced in list(times)[:: 1 if turn % 2 == 0 else -1]:
            times[traced].append(_seconds_of_a_round(kinds.get(traced), count))
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
