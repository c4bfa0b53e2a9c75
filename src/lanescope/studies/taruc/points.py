"""Measured points of a suite, gathered into series that differ in size alone; both in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place, Purpose, Timing
from lanescope.copies.terms import PLAIN
from lanescope.machine import Machine
from lanescope.results import CopyResult, Result, Status, Verdict
from lanescope.studies.taruc.parameters import WORD_BYTES, Benchmark
from lanescope.units.sizes import bandwidth_gbs, size_text

#: By name: a suite asks for them a million times.
_BENCHMARKS = {
    **{Purpose(bench): bench for bench in Benchmark},
    Purpose.SOCKETS: Benchmark.CONTENTION,
}
_OPERATIONS = {
    Operation.ALLOCATE: "allocation",
    Operation.TOUCH: "first touch",
    Operation.RELEASE: "release",
    Operation.CHASE: "dependent loads in order",
    Operation.CHASE_RANDOM: "dependent loads at random",
    Operation.GATHER: "independent loads",
}

_FIELDS = {
    "source": "place",
    "gpu": "GPU",
    "memory": "kind of memory",
    "who": "participants",
    "where": "near and far memory",
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
class SizePoint:
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
    points: tuple[SizePoint, ...]

    @property
    def measured(self) -> tuple[SizePoint, ...]:
        """The points that have a time that the clock resolves."""
        return tuple(p for p in self.points if p.measured is not None and not p.unresolved)

    def at(self, size: int) -> SizePoint | None:
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
    found: dict[Setting, dict[int, SizePoint]] = defaultdict(dict)
    nodes = node_of_cpus(machine)
    for result in results:
        bench = bench_of(result.experiment)
        if bench is None or bench is Benchmark.CONTENTION:
            continue
        for number, copy in enumerate(result.experiment.copies):
            measured = result.copies[number] if result.copies else None
            verdict = measured.verdict if measured else result.not_measured
            verdict = verdict or Verdict(Status.NOT_MEASURED, "no samples were taken")
            point = SizePoint(copy.bytes, result.experiment.name, measured, verdict)
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


def fields_text(fields: Sequence[str]) -> str:
    """Return what tells curves apart, for a title: ``by path and thread``; empty for nothing."""
    *first, last = [_FIELDS.get(f, f) for f in fields] or [""]
    return f" by {', '.join(first)} and {last}" if first else f" by {last}" if last else ""


def field_text(field: str, value: Hashable) -> str:
    """Return a field's value for a legend or a title, such as ``thread on h1``."""
    match field:
        case "thread":
            return "thread anywhere" if value is None else f"thread on {value}"
        case "operation":
            return _operation_text(str(value))
        case "stride":
            return f"every {size_text(float(str(value)))}" if value else "one by one"
        case "source":
            return f"in {value}"
        case "node":
            return f"memory of {value}"
        case "direction":
            return {"h2d": "to the GPU", "d2h": "from the GPU", "both": "both ways"}.get(
                str(value), str(value)
            )
        case "where":
            return {"near": "near memory", "far": "far memory"}.get(
                str(value), f"memory of {value}"
            )
        case "pattern":
            return f"{value} blocks"
        case "caches":
            return f"caches {value}"
        case "route":
            return str(value) or "driver's choice"
    return str(value)


def _operation_text(operation: str) -> str:
    """Return an operation for people; ``allocate`` is an allocation."""
    return _OPERATIONS.get(Operation(operation), operation)


def percent(share: float) -> str:
    """Return a share as a whole percentage, with a decimal where it is small."""
    return f"{share * 100:.0f} %" if abs(share) >= 0.0995 else f"{share * 100:.1f} %"
