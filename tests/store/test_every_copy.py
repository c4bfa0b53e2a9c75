"""Whatever can be copied is written and read back as it was."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lanescope.copies import (
    Access,
    Caches,
    Copy,
    Engine,
    Experiment,
    Memory,
    Operation,
    Pattern,
    Place,
    Route,
    Submission,
    Timing,
)
from lanescope.copies.experiment import needs_host_clock
from lanescope.copies.terms import HOST_MEMORIES
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import NotMeasuredError
from lanescope.results import LinkEvidence
from lanescope.store.folder import State
from lanescope.store.run import Manifest
from lanescope.store.store import RunWriter, read_run
from lanescope.studies.nvbandwidth_cases import CaseOptions, build_cases, choose
from lanescope.studies.runs.export import run_csv, run_json
from lanescope.studies.runs.rows import case_values
from tests.fake_backend import FakeBackend
from tests.findings.machine.simulator import nvswitched

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
GPUS = tuple(Place(f"g{i}", Memory.DEVICE) for i in (0, 1))
EVIDENCE = (LinkEvidence("g0", 5, 16, 3), LinkEvidence("g1", 5, 8, None))
SIZE = 1 << 20


def plain_copies():
    hosts = [Place("h0", memory) for memory in HOST_MEMORIES]
    for engine, host in itertools.product((Engine.CE, Engine.SM), hosts):
        if engine is Engine.CE or host.memory not in (Memory.PAGEABLE, Memory.SMALL_PAGES):
            yield Copy(host, GPUS[0], SIZE, engine, cpus=(1, 3))
            yield Copy(GPUS[0], host, SIZE, engine)
    for engine, executor in itertools.product((Engine.CE, Engine.SM), (None, "g0", "g1")):
        yield Copy(*GPUS, SIZE, engine, executor=executor)
    yield Copy(*GPUS, SIZE, Engine.SM, sms=9, chunk_bytes=16 << 10, pace_gbs=392.5)
    yield Copy(GPUS[0], GPUS[0], SIZE, Engine.SM, sms=132, chunk_bytes=0)
    for operation in (Operation.READ, Operation.WRITE):
        yield Copy(GPUS[0], GPUS[0], SIZE, Engine.SM, operation)
    for route in Route:
        yield Copy(*GPUS, SIZE, Engine.CE, route=route)


def host_work():
    pageable, huge = Place("h0", Memory.PAGEABLE), Place("h0", Memory.HUGE)
    pool = Place("g0", Memory.POOL)
    for operation in (Operation.COPY, Operation.SCALE, Operation.ADD, Operation.TRIAD):
        yield Copy(pageable, huge, SIZE, Engine.CPU, operation, cpus=(0, 1))
    for pattern, caches in itertools.product(Pattern, Caches):
        access = Access(pattern, span_bytes=2 * SIZE, caches=caches)
        yield Copy(pageable, huge, SIZE, Engine.CPU, cpus=(0,), access=access)
    for operation in (Operation.GATHER, Operation.CHASE, Operation.CHASE_RANDOM):
        access = Access(stride_bytes=4096)
        yield Copy(huge, huge, SIZE, Engine.CPU, operation, cpus=(0,), access=access)
    for operation in filter(lambda o: o.is_of_memory, Operation):
        yield Copy(pool, pool, SIZE, Engine.CPU, operation, cpus=(0,))


def pieces():
    ends = (Place("h0", Memory.PINNED), GPUS[0])
    for submission, directions in itertools.product(Submission, (ends, ends[::-1])):
        engine = Engine.SM if submission.by_kernel else Engine.CE
        yield Copy(*directions, SIZE, engine, pieces=64, submission=submission)


def latencies():
    for operation in filter(lambda o: o.is_latency and not o.is_of_memory, Operation):
        ends = [Place("h0", Memory.PINNED), GPUS[0]]
        engine = Engine.CE if operation.is_call_of_copy else Engine.SM
        if operation is Operation.COPY_SPIN:
            ends.reverse()
        yield Copy(*ends, 4, engine, operation)


def experiments():
    copies = [*plain_copies(), *pieces(), *latencies(), *host_work()]
    for number, copy in enumerate(copies):
        by_host = copy.engine is Engine.CPU or needs_host_clock(copy)
        timing = Timing.HOST if by_host else Timing.GATE
        yield Experiment(f"case {number}", f"title of {number}", (copy,), timing)
    down, up = copies[2], copies[3]
    yield Experiment("both", "both ways at once", (down, up))
    for operation in (Operation.COPY, Operation.ALL_REDUCE):
        ring = tuple(
            Copy(*ends, SIZE, Engine.NCCL, operation) for ends in (GPUS, tuple(reversed(GPUS)))
        )
        yield Experiment(f"nccl {operation}", f"{operation} by NCCL", ring, Timing.PROCESSES)


def seconds(copy, batch):
    if copy.pieces > 1 and copy.destination.is_host:
        raise NotMeasuredError("This driver is too old for the call.", "Install a newer one.")
    return [1e-3, 1.1e-3, 1.2e-3] * 3


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    machine = nvswitched(4)
    built = build_cases(machine, choose(prefixes=["device_to"]), CaseOptions(SIZE, pairs=2))
    manifest = Manifest(
        "bench",
        "lanescope bench",
        "2026-11-21T10:00:00+00:00",
        "0.2.0",
        machine,
        notes=("Copies are smaller.", "Pairs were drawn."),
        cases=built.cases,
        parameters="tag = 'test'",
    )
    writer = RunWriter(tmp_path_factory.mktemp("runs") / "run", manifest)
    backend = FakeBackend(seconds, EVIDENCE)
    plan = Plan(budget_seconds=0, samples=9)
    found = []
    measure_all([*experiments(), *built.experiments], backend, machine, plan, found.append)
    for result in found:
        copies = tuple(
            replace(c, submit_seconds=1e-6 * i, clock_seconds=1e-9 * i)
            for i, c in enumerate(result.copies)
        )
        writer.add(replace(result, copies=copies))
    return writer.finish(State.COMPLETE)


def test_everything_reads_back(stored):
    again = read_run(stored.folder)
    assert again.manifest == stored.manifest
    for mine, theirs in zip(stored.results, again.results, strict=True):
        assert theirs == mine, mine.experiment.name
        for a, b in zip(mine.copies, theirs.copies, strict=True):
            assert np.array_equal(a.seconds, b.seconds)


def test_nothing_was_left_out(stored):
    copies = [c for r in stored.results for c in r.experiment.copies]
    assert {c.engine for c in copies} == set(Engine)
    assert {c.submission for c in copies} == set(Submission)
    assert {c.operation for c in copies} == set(Operation)
    accesses = {c.access for c in copies} - {None}
    assert {a.pattern for a in accesses} == set(Pattern)
    assert {a.caches for a in accesses} == set(Caches)
    assert {c.route for c in copies} == {*Route, None}
    assert {p.memory for c in copies for p in (c.source, c.destination)} == set(Memory)
    assert any(r.not_measured for r in stored.results)
    assert any(len(r.copies) > 1 for r in stored.results)
    cells = [c for case in stored.manifest.cases for m in case.matrices for c in m.cells]
    assert any(c.not_applicable for c in cells)
    assert any(c.experiment for c in cells)


def test_cases_have_the_same_numbers_afterwards(stored):
    again = read_run(stored.folder)

    def values(run):
        results = {r.experiment.name: r for r in run.results}
        return [v for case in run.manifest.cases for v in case_values(case, results)]

    assert values(again) == values(stored)
    assert any(v.median for v in values(again))


def test_every_copy_is_a_row_of_json_and_csv(stored):
    rows = json.loads(run_json(stored))["results"]
    copies = [c for r in stored.results for c in r.experiment.copies]
    assert len(rows) == len(copies) == len(run_csv(stored).splitlines()) - 1
    assert [row["submission"] for row in rows] == [str(c.submission) for c in copies]
    latency = next(row for row in rows if row["operation"] == "chase")
    assert (latency["gbs"], latency["limit_gbs"]) == (None, None)
    assert latency["median_seconds"] == pytest.approx(1.1e-3)


@pytest.mark.parametrize(
    "folder",
    sorted(path.parent for path in RESULTS.glob("*/*/manifest.json")),
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_runs_of_every_age_are_read(folder):
    run = read_run(folder)
    assert run.results
    assert all(c.copy.pieces >= 1 for r in run.results for c in r.copies)
    assert json.loads(run_json(run))["results"]
