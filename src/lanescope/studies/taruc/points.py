"""Measured points of a suite, gathered into series that differ in size alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place, Purpose, Timing
from lanescope.copies.operation import PLAIN
from lanescope.machine import Machine
from lanescope.results.result import CopyResult, Result, Status, Verdict
from lanescope.studies.taruc.parameters import WORD_BYTES, Benchmark
from lanescope.units.bandwidth import bandwidth_gbs

#: By name: a suite asks for them a million times.
_BENCHMARKS = {
    **{Purpose(bench): bench for bench in Benchmark},
    Purpose.SOCKETS: Benchmark.CONTENTION,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What the points of a series have in common: everything but the size.

    Attributes
    ----------
    source, destination
        Parts of the machine, such as ``h0`` and ``g1``.
    memory
        Kind of host memory; between GPUs that of the source.
    thread
        Node whose core does it or tells the GPU to, such as ``h1``; None when
        the experiment does not say.
    operation, pattern, caches, route
        As text; see `Copy`. An empty route is the driver's own choice.
    stride
        Bytes from one single load to the next; 0 for all others.
    timing
        ``sync`` (until the call has returned and the stream is idle) or ``async``.
    """

    bench: Benchmark
    source: str
    destination: str
    memory: Memory
    thread: str | None
    operation: Operation
    pattern: str
    caches: str
    stride: int
    route: str
    timing: str

    @property
    def path(self) -> str:
        """Such as ``h0 → h1``."""
        return f"{self.source} → {self.destination}"

    @property
    def gpu(self) -> str | None:
        """The GPU of a copy from or to the host; the source between GPUs."""
        return next((p for p in (self.source, self.destination) if p.startswith("g")), None)

    @property
    def node(self) -> str | None:
        """The NUMA node whose memory it is."""
        return next((p for p in (self.source, self.destination) if p.startswith("h")), None)

    @property
    def direction(self) -> str:
        """``h2d``, ``d2h``, or else the path."""
        kinds = self.source[0] + self.destination[0]
        return {"hg": "h2d", "gh": "d2h"}.get(kinds, self.path)

    @property
    def pair(self) -> str:
        """Both parts in order, whatever the direction."""
        return " ⇄ ".join(sorted({self.source, self.destination}))

    @property
    def local(self) -> bool:
        """Whether the thread uses memory of its own node alone, or nobody knows."""
        return self.thread is None or {self.source, self.destination} == {self.thread}


@dataclass(frozen=True, slots=True)
class Point:
    """One size of a series.

    Attributes
    ----------
    measured
        None when it was not measured; `verdict` says why.
    """

    bytes: int
    experiment: str
    measured: CopyResult | None
    verdict: Verdict

    @property
    def unresolved(self) -> bool:
        """Whether the clock is too coarse for it."""
        return self.verdict.status is Status.UNRESOLVED

    @property
    def gbs(self) -> float | None:
        """Bandwidth in GB/s; None where there is none to show."""
        return None if self.measured is None else self.measured.gbs

    @property
    def interval_gbs(self) -> tuple[float, float] | None:
        """Bandwidth at the 95th and the 5th percentile of the time, in GB/s."""
        if self.measured is None or self.gbs is None:
            return None
        times, counted = self.measured.statistics, self.measured.copy.counted_bytes
        return bandwidth_gbs(counted, times.p95_seconds), bandwidth_gbs(counted, times.p5_seconds)

    @property
    def seconds(self) -> tuple[float, float, float] | None:
        """Median, 5th and 95th percentile; of one load for single loads."""
        if self.measured is None:
            return None
        times = self.measured.statistics
        parts = 1.0
        if self.measured.copy.operation is Operation.GATHER:
            parts = self.bytes / WORD_BYTES
        found = (times.median_seconds, times.p5_seconds, times.p95_seconds)
        low, middle, high = sorted(value / parts for value in found)
        return middle, low, high


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one setting by ascending size."""

    setting: Setting
    points: tuple[Point, ...]

    @property
    def measured(self) -> tuple[Point, ...]:
        """The points that have a time that the clock resolves."""
        return tuple(p for p in self.points if p.measured is not None and not p.unresolved)

    def at(self, size: int) -> Point | None:
        """Return the resolved point of a size; None when there is none."""
        return next((p for p in self.measured if p.bytes == size), None)


def bench_of(experiment: Experiment) -> Benchmark | None:
    """Return the micro-benchmark of an experiment; None when it is part of none."""
    bench = _BENCHMARKS.get(experiment.purpose)
    if bench is None:
        return None
    return bench if all(_fits(bench, copy) for copy in experiment.copies) else None


def is_suite(result: Result) -> bool:
    """Whether a result is part of a micro-benchmark."""
    return bench_of(result.experiment) is not None


def plain_results(results: Iterable[Result]) -> list[Result]:
    """Return what is no part of a suite, which loads paths in ways that say nothing of health."""
    return [result for result in results if not is_suite(result)]


def series_of(machine: Machine, results: Iterable[Result]) -> tuple[Series, ...]:
    """Return the series of all micro-benchmarks but contention."""
    found: dict[Setting, dict[int, Point]] = defaultdict(dict)
    nodes = node_of_cpus(machine)
    for result in results:
        bench = bench_of(result.experiment)
        if bench is None or bench is Benchmark.CONTENTION:
            continue
        for number, copy in enumerate(result.experiment.copies):
            measured = result.copies[number] if result.copies else None
            verdict = measured.verdict if measured else result.not_measured
            verdict = verdict or Verdict(Status.NOT_MEASURED, "no samples were taken")
            point = Point(copy.bytes, result.experiment.name, measured, verdict)
            found[_setting(bench, copy, result.experiment, nodes)].setdefault(copy.bytes, point)
    return tuple(
        Series(setting, tuple(points[size] for size in sorted(points)))
        for setting, points in found.items()
    )


def node_of_cpus(machine: Machine) -> dict[int, str]:
    """Return the node of each CPU that the machine names."""
    return {cpu: node.id for node in machine.nodes for core in node.cores for cpu in core}


def _fits(bench: Benchmark, copy: Copy) -> bool:
    """Whether a copy is of the kind that a micro-benchmark makes."""
    match bench:
        case Benchmark.OVERHEAD:
            return copy.operation.is_of_memory
        case Benchmark.NURMA:
            return copy.by_single_loads
        case Benchmark.HOST:
            return copy.engine is Engine.CPU and not copy.operation.is_latency
        case Benchmark.CONTENTION:
            return not copy.operation.is_latency
    hosts = copy.source.is_host + copy.destination.is_host
    return copy.engine is Engine.CE and hosts == (1 if bench is Benchmark.HOSTDEV else 0)


def _setting(
    bench: Benchmark, copy: Copy, experiment: Experiment, nodes: dict[int, str]
) -> Setting:
    access = copy.access or PLAIN
    return Setting(
        bench,
        copy.source.part,
        copy.destination.part,
        _memory(copy.source, copy.destination),
        nodes.get(copy.cpus[0]) if copy.cpus else None,
        copy.operation,
        str(access.pattern),
        str(access.caches),
        (access.stride_bytes or 0) if copy.by_single_loads else 0,
        str(copy.route or ""),
        "sync" if experiment.timing is Timing.HOST else "async",
    )


def _memory(source: Place, destination: Place) -> Memory:
    return source.memory if source.is_host or not destination.is_host else destination.memory
