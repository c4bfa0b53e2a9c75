"""Runs of suites with planted effects."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from lanescope.copies import (
    Caches,
    Copy,
    Engine,
    Experiment,
    Memory,
    Operation,
    Pattern,
    Route,
    Timing,
)
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import NotMeasuredError
from lanescope.machine import Machine
from lanescope.results import Result
from lanescope.store.folder import State
from lanescope.store.run import Manifest, Run
from tests.fake_backend import FakeBackend
from tests.taruc_plan import MIB, PARTS, paper_machine


@dataclass(frozen=True)
class Speeds:
    """What is planted. The default is a machine on which nothing costs anything."""

    #: Share of bandwidth that other nodes' memory costs, by kind of memory.
    remote: tuple[tuple[Memory, float], ...] = ()
    #: Seconds that a page walk adds to a load at random, on small pages.
    walk_seconds: float = 0.0
    #: Seconds that a load at random takes longer than one in order.
    random_seconds: float = 0.0
    #: GB/s that all threads of a node, or GPUs behind the switch, share.
    node_gbs: float | None = None
    shared_gbs: float | None = None
    #: Share of what others get that the thread on this CPU gets.
    unfair_cpu: int | None = None
    unfair_share: float = 0.25
    #: Above so many bytes a warm copy falls out of the caches, to a share.
    cache_bytes: int | None = None
    cache_share: float = 0.3
    #: How much longer pinned memory takes to allocate; first touches take that of pageable.
    pinned_allocation: float = 1.0
    touch: float = 1.0
    sync_share: float = 1.0
    staged_share: float = 1.0
    far_share: float = 1.0
    pageable_share: float = 1.0


FLAT = Speeds()
PLANTED = Speeds(
    remote=((Memory.PAGEABLE, 0.38),),
    walk_seconds=45e-9,
    random_seconds=70e-9,
    node_gbs=40.0,
    shared_gbs=12.5,
    unfair_cpu=3,
    cache_bytes=4 * MIB,
    pinned_allocation=300.0,
    touch=50.0,
    sync_share=0.75,
    staged_share=0.5,
    far_share=0.6,
    pageable_share=0.5,
)
WOBBLE = (1.0, 1.004, 0.997, 1.006, 0.999, 1.002, 1.001, 1.008, 0.998, 1.0, 1.003)


def suite_run(
    machine: Machine | None = None,
    speeds: Speeds = PLANTED,
    parts: tuple[Callable[[Machine], Iterator[Experiment]], ...] = PARTS,
    missing: str = "",
) -> Run:
    """A suite, made once for all tests; experiments named with `missing` are not measured."""
    return _suite_run(machine or paper_machine(), speeds, parts, missing)


@cache
def _suite_run(
    machine: Machine,
    speeds: Speeds,
    parts: tuple[Callable[[Machine], Iterator[Experiment]], ...],
    missing: str,
) -> Run:
    results: list[Result] = []
    for experiment in itertools.chain.from_iterable(part(machine) for part in parts):
        backend = FakeBackend(_player(machine, experiment, speeds, missing))
        plan = Plan(budget_seconds=0.0, samples=len(WOBBLE))
        measure_all([experiment], backend, machine, plan, results.append)
    manifest = Manifest(
        verb="suite",
        command="lanescope bench --params suite.toml",
        started="2026-11-20T14:03:11.482+01:00",
        tool_version="0.3.0",
        machine=machine,
        state=State.COMPLETE,
        parameters="tag = 'paper'\n",
    )
    return Run(manifest, tuple(results))


def _player(
    machine: Machine, experiment: Experiment, speeds: Speeds, missing: str
) -> Callable[[Copy, int], list[float]]:
    def seconds(copy: Copy, batch: int) -> list[float]:
        if missing and missing in experiment.name:
            raise NotMeasuredError("Locked memory is limited to 64 KiB.", "Raise ulimit -l.")
        time = _seconds(machine, experiment, copy, speeds)
        return [time * w for w in WOBBLE]

    return seconds


def _seconds(machine: Machine, experiment: Experiment, copy: Copy, speeds: Speeds) -> float:
    if copy.operation.is_of_memory:
        return _memory_seconds(copy, speeds)
    if copy.by_single_loads:
        return _load_seconds(machine, copy, speeds)
    if experiment.name.startswith("contention/"):
        return copy.counted_bytes / _contended_gbs(machine, experiment, copy, speeds) / 1e9
    if copy.engine is Engine.CPU:
        gbs = 12.0 * (1 - _remote_cost(machine, copy, speeds))
        access = copy.access
        assert access is not None
        warm = access.caches is Caches.WARM and access.pattern is Pattern.REPEATED
        if speeds.cache_bytes and warm and copy.bytes <= speeds.cache_bytes:
            gbs /= speeds.cache_share
        return 4e-8 + copy.counted_bytes / gbs / 1e9
    return 5e-6 + copy.bytes / _link_gbs(machine, experiment, copy, speeds) / 1e9


def _memory_seconds(copy: Copy, speeds: Speeds) -> float:
    base = 1e-6 + copy.bytes / 1e12
    pinned = copy.source.memory in (Memory.PINNED, Memory.WRITE_COMBINED)
    if copy.operation is Operation.ALLOCATE and pinned:
        return base * speeds.pinned_allocation
    if copy.operation is Operation.TOUCH and not pinned:
        return base * speeds.touch
    return base


def _load_seconds(machine: Machine, copy: Copy, speeds: Speeds) -> float:
    time = 30e-9
    if copy.operation is Operation.CHASE_RANDOM:
        time += speeds.random_seconds
        if copy.source.memory is not Memory.HUGE:
            time += speeds.walk_seconds
    time /= 1 - _remote_cost(machine, copy, speeds)
    return time * copy.bytes / 8 / 4 if copy.operation is Operation.GATHER else time


def _remote_cost(machine: Machine, copy: Copy, speeds: Speeds) -> float:
    home = next(n.id for n in machine.nodes if copy.cpus in n.cores)
    away = {copy.source.part, copy.destination.part} != {home}
    return dict(speeds.remote).get(copy.source.memory, 0.0) if away else 0.0


def _contended_gbs(machine: Machine, experiment: Experiment, copy: Copy, speeds: Speeds) -> float:
    copies = experiment.copies
    if copy.engine is not Engine.CPU:
        return _pcie_gbs(machine, copies, copy, speeds)
    gbs = 11.0
    if speeds.node_gbs is not None:
        users = sum(c.source.part == copy.source.part for c in copies)
        gbs = min(gbs, speeds.node_gbs / users)
    if speeds.unfair_cpu in copy.cpus and len(copies) > 1:
        gbs *= speeds.unfair_share
    return gbs


def _pcie_gbs(machine: Machine, copies: tuple[Copy, ...], copy: Copy, speeds: Speeds) -> float:
    gpu, host_part = _ends(copy)
    mine = [c for c in copies if _ends(c)[0] == gpu and c.source.is_host == copy.source.is_host]
    gbs = 12.0
    if speeds.shared_gbs is not None and gpu in ("g2", "g3"):
        behind = {_ends(c)[0] for c in copies} & {"g2", "g3"}
        gbs = min(gbs, speeds.shared_gbs / len(behind))
    if host_part != machine.nearest_node(machine.gpu(int(gpu[1:]))).id:
        gbs *= speeds.far_share
    return gbs / len(mine)


def _ends(copy: Copy) -> tuple[str, str]:
    ends = (
        (copy.destination, copy.source) if copy.source.is_host else (copy.source, copy.destination)
    )
    return ends[0].part, ends[1].part


def _link_gbs(machine: Machine, experiment: Experiment, copy: Copy, speeds: Speeds) -> float:
    if copy.source.part == copy.destination.part:
        return 150.0
    gbs = 11.0
    if copy.route is Route.STAGED:
        return gbs * speeds.staged_share
    if Memory.PAGEABLE in (copy.source.memory, copy.destination.memory):
        return gbs * speeds.pageable_share
    if not (copy.source.is_host or copy.destination.is_host):
        return gbs
    return gbs * (speeds.sync_share if experiment.timing is Timing.HOST else 1.0)


def unresolved(run: Run, largest: int) -> Run:
    """The same run, but with a clock too coarse for host copies up to a size."""
    from lanescope.results import Status, Verdict

    verdict = Verdict(Status.UNRESOLVED, "reading the clock takes 40 % of the time")
    results = [
        replace(r, copies=tuple(replace(c, verdict=verdict) for c in r.copies))
        if r.experiment.name.startswith("host/") and r.experiment.copies[0].bytes <= largest
        else r
        for r in run.results
    ]
    return replace(run, results=tuple(results))
