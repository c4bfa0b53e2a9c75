"""What tracing may have cost a program."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lanescope.errors import InputError, NotMeasuredError
from lanescope.findings.trace import evaluate_watch
from lanescope.studies.watch_blocks import end_lines
from lanescope.trace.run import TracingCost, slowdown, store_cost, stored_cost
from lanescope.trace.store import read_watch
from lanescope.trace.timeline import Operations, Process, Timeline
from lanescope.watching import cost as tracing_cost
from lanescope.watching.cost import measure_tracing_cost

COST = TracingCost(2e-6, 1e-6, 3e-6, 5e-7, 4e-7, 6e-7, "NVIDIA H200", "580.1", "2026-11-21")


def seen(copies: int, kernels: int, pids: tuple[int, ...] = (7,)) -> Timeline:
    count = (copies + kernels) * len(pids)
    what = np.tile(np.repeat([0, 2], [copies, kernels]), len(pids))
    operations = Operations.of(
        ("k",),
        what=what,
        pid=np.repeat(pids, copies + kernels),
        start_ns=np.arange(count),
        end_ns=np.arange(count) + 1,
    )
    return Timeline(0, 1_000_000_000, (), operations, tuple(Process(p, "x", 0) for p in pids))


def test_it_is_that_of_the_process_with_the_most():
    told = slowdown(seen(1000, 4000, (7, 8)), COST)
    assert told is not None
    assert (told.copies, told.kernels) == (1000, 4000)
    assert told.seconds == pytest.approx(1000 * 2e-6 + 4000 * 5e-7)
    assert told.share == pytest.approx(0.004)
    assert "2026-11-21" in told.basis


def test_without_a_measured_cost_or_a_trace_it_is_not_known():
    assert slowdown(seen(10, 0), None) is None
    assert slowdown(Timeline(0, 10), COST) is None


def test_a_cost_below_zero_is_none():
    told = slowdown(seen(1000, 0), dataclasses.replace(COST, copy_seconds=-1e-7))
    assert told is not None
    assert told.seconds == 0


def test_it_is_kept_for_the_same_gpu_and_driver(tmp_path, two_gpus):
    runs = tmp_path / "runs"
    machine = dataclasses.replace(two_gpus, driver="580.1")
    own = dataclasses.replace(COST, gpu=machine.gpus[0].name)
    assert stored_cost(machine, runs) is None
    assert store_cost(own, runs) == runs / "tracing-cost.json"
    assert stored_cost(machine, runs) == own
    assert stored_cost(dataclasses.replace(machine, driver="590.1"), runs) is None
    (runs / "tracing-cost.json").write_text("{")
    assert stored_cost(machine, runs) is None
    with pytest.raises(InputError):
        store_cost(own, Path("/proc/nowhere/runs"))


def test_turns_are_compared_with_their_own_plain_run(monkeypatch, two_gpus):
    rounds = {None: 10e-6, 3: 11e-6, 4: 11.5e-6}
    drift = iter(np.arange(100) // 3 * 1e-6)  # the same in all ways of a turn
    seconds = lambda kinds, count: rounds[kinds and min(len(kinds), 5) - 1] + next(drift)  # noqa: E731
    assert len(tracing_cost.DEFAULT_KINDS) == 4
    monkeypatch.setattr(tracing_cost, "_seconds_of_a_round", seconds)
    told = measure_tracing_cost(two_gpus, turns=5)
    assert told.copy_seconds == pytest.approx(1e-6)
    assert told.kernel_seconds == pytest.approx(0.5e-6)
    assert told.copy_low == pytest.approx(1e-6)


def test_a_program_that_fails_says_why(monkeypatch, two_gpus):
    failed = subprocess.CompletedProcess([], 2, "", "lanescope: no GPU\n")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: failed)
    with pytest.raises(NotMeasuredError, match="no GPU"):
        measure_tracing_cost(two_gpus)


def test_the_round_is_the_time_of_a_copy_of_the_step(monkeypatch):
    steps = [
        {"name": "warm up", "begin_ns": 0, "end_ns": 9, "copies": 3},
        {"name": "copies", "begin_ns": 100, "end_ns": 2100, "copies": 4},
    ]
    done = subprocess.CompletedProcess([], 0, json.dumps({"steps": steps}), "")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: done)
    assert tracing_cost._seconds_of_a_round(None, 4) == pytest.approx(500e-9)


def test_the_summary_says_it_or_how_to_know_it(tmp_path, monkeypatch):
    run = read_watch(Path("benchmarks/results/h200-x1/watch/vector-add").resolve())
    unknown = evaluate_watch(run, tmp_path / "runs").summary
    assert any("lanescope doctor --cost" in note for note in unknown.notes)
    monkeypatch.setattr("lanescope.findings.trace.stored_cost", lambda machine, runs: COST)
    known = evaluate_watch(run, tmp_path / "runs").summary
    assert not any("lanescope doctor --cost" in note for note in known.notes)
    (line,) = [line for line in end_lines(known) if "Slowdown" in line]
    assert "predicted: at most" in line
    assert "4 copies" in line
