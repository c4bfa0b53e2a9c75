"""What participants get that run at the same time: sum, fairness, share of the limit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lanescope.copies import Copy, Engine, Experiment, Purpose
from lanescope.machine import Machine
from lanescope.results import CopyResult, Result, Source, Verdict
from lanescope.studies.taruc.parameters import Benchmark
from lanescope.studies.taruc.points import Series, bench_of, node_of_cpus, series_of

#: A count of threads that is within this of the best counts as the best.
ENOUGH_SHARE = 0.98


@dataclass(frozen=True, slots=True)
class ScalingSetting:
    """What the steps of a scaling have in common.

    Attributes
    ----------
    kind
        ``memory`` (each thread in its own node), ``sockets`` or ``pcie``.
    who
        Nodes or GPUs, such as ``h0+h1`` or ``g0+g2``; of sockets the path: from
        one memory to the other, or from the threads' node to the memory that they use.
    operation
        Of host threads; ``copy`` for GPUs.
    direction
        ``h2d``, ``d2h`` or ``both`` for GPUs; ``one way`` or ``both`` between
        sockets; empty otherwise.
    where
        For GPUs ``near`` or ``far``, by the host memory's node, or its nodes
        where it is neither; empty otherwise.
    """

    kind: str
    who: str
    operation: str
    direction: str
    where: str

    @property
    def members(self) -> tuple[str, ...]:
        """The nodes or GPUs one by one."""
        return tuple(self.who.split("+"))


@dataclass(frozen=True, slots=True)
class ScalingStep:
    """One experiment of a scaling.

    Attributes
    ----------
    count
        Threads, or streams of each GPU.
    participants
        One for each thread or stream; empty when not measured.
    """

    count: int
    experiment: str
    participants: tuple[CopyResult, ...]
    not_measured: Verdict | None = None

    @property
    def in_turns(self) -> bool:
        """Whether some took turns and have a part of a sum, no rate of their own."""
        return any(not p.own_rate for p in self.participants)

    @property
    def rates_gbs(self) -> tuple[float, ...]:
        """What each participant adds to the sum, GB/s; empty when that of one is not known."""
        rates = [p.carried_gbs for p in self.participants]
        known = tuple(rate for rate in rates if rate is not None)
        return known if len(known) == len(rates) else ()

    @property
    def aggregate_gbs(self) -> float | None:
        """Sum of what the participants carried at the same time, GB/s."""
        return sum(self.rates_gbs) if self.rates_gbs else None

    @property
    def interval_gbs(self) -> tuple[float, float] | None:
        """The 95 % intervals of the participants' medians added up, GB/s; None without one.

        Wider than the interval of the sum would be: all may err the same way.
        """
        widths = [p.statistics.half_width for p in self.participants]
        known = [width for width in widths if width is not None]
        if not self.rates_gbs or len(known) < len(widths):
            return None
        pairs = list(zip(self.rates_gbs, known, strict=True))
        return sum(r / (1 + w) for r, w in pairs), sum(r / max(1 - w, 0.01) for r, w in pairs)

    @property
    def fairness(self) -> float | None:
        """Jain's fairness index: 1 when all get the same, 1/n when one gets all.

        The square of the sum over n times the sum of squares (Jain, Chiu, Hawe:
        A Quantitative Measure of Fairness and Discrimination, DEC-TR-301, 1984).
        """
        rates = self.rates_gbs
        if not rates or any(p.in_turns_with for p in self.participants):
            return None  # how an engine shares between those that it takes in turns nobody sees
        return sum(rates) ** 2 / (len(rates) * sum(r * r for r in rates))

    @property
    def shares_cpus(self) -> bool:
        """Whether threads take turns on a CPU, so that they cannot get as much as others."""
        used = [cpu for p in self.participants for cpu in p.copy.cpus]
        by_threads = all(p.copy.engine is Engine.CPU for p in self.participants)
        return by_threads and len(set(used)) < len(used)

    @property
    def limit_gbs(self) -> float | None:
        """Sum of the limits of all participants, GB/s; None when one is unknown."""
        limits = [p.limit_gbs for p in self.participants]
        known = [limit for limit in limits if limit is not None]
        return sum(known) if known and len(known) == len(limits) else None

    @property
    def share_of_limit(self) -> float | None:
        """Aggregate as a share of the limit; None without one."""
        limit = self.limit_gbs
        return None if limit is None or not self.aggregate_gbs else self.aggregate_gbs / limit

    @property
    def first_full(self) -> str | None:
        """What saturates first, as the limit model says: what holds back the slowest."""
        bound = [p for p in self.participants if p.limit_gbs is not None]
        if not bound:
            return None
        return min(bound, key=lambda p: p.limit_gbs or 0.0).limit_reason


@dataclass(frozen=True, slots=True)
class Scaling:
    """Steps of one contention by ascending number of threads or streams."""

    contention: ScalingSetting
    steps: tuple[ScalingStep, ...]

    @property
    def measured(self) -> tuple[ScalingStep, ...]:
        """The steps that have an aggregate."""
        return tuple(s for s in self.steps if s.aggregate_gbs is not None)

    @property
    def best(self) -> ScalingStep | None:
        """The step with the greatest aggregate."""
        return max(self.measured, key=lambda s: s.aggregate_gbs or 0.0, default=None)

    @property
    def enough(self) -> ScalingStep | None:
        """Where scaling ends: the first step within 2 % of the best, or within its interval."""
        if self.best is None:
            return None
        least = ENOUGH_SHARE * (self.best.aggregate_gbs or 0.0)
        if interval := self.best.interval_gbs:
            least = min(least, interval[0])
        return next(s for s in self.measured if (s.aggregate_gbs or 0.0) >= least)

    def at(self, count: int) -> ScalingStep | None:
        """Return the measured step of so many threads or streams."""
        return next((s for s in self.measured if s.count == count), None)


def scalings_of(machine: Machine, results: Iterable[Result]) -> tuple[Scaling, ...]:
    """Return every contention that was measured, with its steps."""
    nodes = node_of_cpus(machine)
    found: dict[ScalingSetting, dict[int, ScalingStep]] = defaultdict(dict)
    measured = [r for r in results if bench_of(r.experiment) is Benchmark.CONTENTION]
    hosts = _hosts(measured)
    for result in measured:
        experiment = result.experiment
        key, count = _contention(machine, experiment, nodes, hosts)
        step = ScalingStep(count, experiment.name, result.copies, result.not_measured)
        found[key].setdefault(count, step)
    return tuple(
        Scaling(key, tuple(steps[count] for count in sorted(steps))) for key, steps in found.items()
    )


def _contention(
    machine: Machine, experiment: Experiment, nodes: dict[int, str], hosts: set[str]
) -> tuple[ScalingSetting, int]:
    copies = experiment.copies
    if copies[0].engine is not Engine.CPU:
        return _pcie(machine, experiment, hosts), _streams(copies)
    operation = str(copies[0].operation)
    # Where the machine does not say on which node a CPU is, only the purpose tells threads that
    # stay at home from those that leave.
    if experiment.purpose is Purpose.SOCKETS or any(_leaves(c, nodes) for c in copies):
        directions = {_crossing(c, nodes) for c in copies}
        first = min(directions)
        direction = "both" if len(directions) > 1 else "one way"
        sign = "⇄" if len(directions) > 1 else "→"
        return ScalingSetting(
            "sockets", f"{first[0]} {sign} {first[1]}", operation, direction, ""
        ), len(copies)
    return ScalingSetting("memory", _joined(c.source.part for c in copies), operation, "", ""), len(
        copies
    )


def _leaves(copy: Copy, nodes: dict[int, str]) -> bool:
    thread = nodes.get(copy.cpus[0]) if copy.cpus else None
    parts = {copy.source.part, copy.destination.part}
    return len(parts) > 1 or (thread is not None and parts != {thread})


def _crossing(copy: Copy, nodes: dict[int, str]) -> tuple[str, str]:
    """From which node's memory to which; where it is one memory, from the thread's node to it."""
    if copy.source.part != copy.destination.part:
        return copy.source.part, copy.destination.part
    thread = nodes.get(copy.cpus[0]) if copy.cpus else None
    return thread or copy.source.part, copy.source.part


def _hosts(results: Iterable[Result]) -> set[str]:
    """Return the nodes whose memory GPUs were measured with."""
    return {
        place.part
        for result in results
        for copy in result.experiment.copies
        if copy.engine is not Engine.CPU
        for place in (copy.source, copy.destination)
        if place.is_host
    }


def _pcie(machine: Machine, experiment: Experiment, hosts: set[str]) -> ScalingSetting:
    copies = experiment.copies
    down = {copy.source.is_host for copy in copies}
    direction = "both" if len(down) > 1 else ("h2d" if True in down else "d2h")
    ends = [
        (c.destination, c.source) if c.source.is_host else (c.source, c.destination) for c in copies
    ]
    near = {machine.nearest_node(machine.gpu(gpu.index)).id == host.part for gpu, host in ends}
    where = _joined(host.part for _, host in ends)
    if len(machine.nodes) > 1 and near == {True}:
        where = "near"
    elif near == {False} and len(hosts) == 2:  # of more, each has its own name
        where = "far"
    return ScalingSetting("pcie", _joined(gpu.part for gpu, _ in ends), "copy", direction, where)


def _streams(copies: Sequence[Copy]) -> int:
    """Streams of each GPU and direction."""
    return max(Counter((c.source.part[0], c.executing_gpu) for c in copies).values())


def _joined(parts: Iterable[str]) -> str:
    return "+".join(sorted(set(parts), key=lambda part: (len(part), part)))


@dataclass(frozen=True, slots=True)
class SuiteResults:
    """What a run holds of the micro-benchmarks; empty tuples where it has none.

    Attributes
    ----------
    predicted
        Whether its numbers are predictions; those lead to no findings.
    """

    machine: Machine
    predicted: bool
    series: tuple[Series, ...]
    scalings: tuple[Scaling, ...]

    def of(self, bench: Benchmark) -> tuple[Series, ...]:
        """Return the series of one micro-benchmark."""
        return tuple(s for s in self.series if s.setting.bench is bench)


def suite_of(machine: Machine, results: Sequence[Result]) -> SuiteResults:
    """Return the micro-benchmarks of a run, which is measured or predicted as a whole."""
    predicted = any(r.source is Source.PREDICTED for r in results)
    return SuiteResults(
        machine, predicted, series_of(machine, results), scalings_of(machine, results)
    )
