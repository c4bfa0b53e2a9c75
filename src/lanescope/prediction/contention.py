"""What several GPUs' copies get of host memory at once, and the few numbers that tell it.

Each GPU alone, each pair and all of them copy to the GPU, from it, and both ways; the sets that
move less than their copies would alone tell what the memory carries, or a way that they share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import log

import numpy as np

from lanescope.copies import Experiment
from lanescope.copies.experiment import experiment_of
from lanescope.copies.limit import contended, contention_weight, usage
from lanescope.engine.base import Backend
from lanescope.engine.sampling import Plan, measure_one
from lanescope.machine import Gpu, HostBandwidth, Machine, NumaNode
from lanescope.machine.flow import Share, share_by_weight
from lanescope.prediction.parameters import Direction
from lanescope.prediction.shared_links import host_copy
from lanescope.results.result import Result
from lanescope.units.estimate import Estimate

#: Copies are held up that together get less than this share of what they would get, in each round.
_HELD_UP = 0.95
#: A copy that gets this share of what it gets alone, or more, is not held up.
_AS_ALONE = 0.97
#: A pair shares a link of its own that gets less than this share of what both get alone, and of
#: what all get together.
_OWN_LINK = 0.8
_PAIR = 2
#: Over all sets, and seconds of sampling for one set in each.
ROUNDS, _BUDGET_SECONDS = 2, 0.1
_MOST_SPREAD = 0.5


@dataclass(frozen=True, slots=True)
class Rate:
    """What one copy of a set got, in GB/s, with its 95 % interval."""

    gpu: int
    direction: Direction
    gbs: Estimate


@dataclass(frozen=True, slots=True)
class Together:
    """Copies between a node's memory and GPUs that went on at the same time."""

    node: int
    rates: tuple[Rate, ...]

    @property
    def gpus(self) -> frozenset[int]:
        """The GPUs of the copies."""
        return frozenset(one.gpu for one in self.rates)

    @property
    def directions(self) -> frozenset[Direction]:
        """Which ways they go."""
        return frozenset(one.direction for one in self.rates)

    def gbs(self, direction: Direction | None = None) -> float:
        """Return their sum, of one direction or of both; GB/s."""
        return sum(r.gbs.value for r in self.rates if direction in (None, r.direction))


@dataclass(frozen=True, slots=True)
class NotTogether:
    """A set without numbers: its copies, and why."""

    title: str
    why: str


_WAYS = ((Direction.H2D,), (Direction.D2H,), tuple(Direction))


def contention_sets(machine: Machine) -> list[Experiment]:
    """Return each GPU alone, each pair and all of them, in each direction and in both.

    GPUs copy from and to the memory of their nearest node; there are no sets for a node with
    fewer than two of them.
    """
    found: list[Experiment] = []
    for node, gpus in _by_node(machine).items():
        groups: list[tuple[int, ...]] = [*combinations(gpus, 1), *combinations(gpus, _PAIR)]
        if len(gpus) > _PAIR:
            groups.append(tuple(gpus))
        for ways in _WAYS:
            for group in groups:
                found.append(
                    experiment_of([host_copy(gpu, node, way) for way in ways for gpu in group])
                )
    return found


def measure_sets(
    experiments: Sequence[Experiment], backend: Backend, machine: Machine
) -> Iterator[Together | NotTogether]:
    """Measure sets in rounds, as each has other memory in each of them.

    Yields
    ------
    Together or NotTogether
        What a set got, or why that is not known: a GPU or the host was busy.
    """
    plan = Plan(budget_seconds=_BUDGET_SECONDS, verify=False)
    for _ in range(ROUNDS):
        for experiment in experiments:
            results: list[Result] = []
            measure_one(experiment, backend, machine, plan, results.append)
            found = together_of(results[0])
            verdict = results[0].not_measured
            why = "not all of its copies ran at once" if verdict is None else verdict.reason
            yield found or NotTogether(experiment.title, why)


def _by_node(machine: Machine) -> dict[int, list[int]]:
    first = machine.nodes[0].index
    found: dict[int, list[int]] = defaultdict(list)
    for gpu in machine.gpus:
        if gpu.unavailable is None:
            found[first if gpu.node is None else gpu.node].append(gpu.index)
    return {node: gpus for node, gpus in found.items() if len(gpus) >= _PAIR}


def together_of(result: Result) -> Together | None:
    """Return the rates of a measured set; None without one of each, or without a node's memory."""
    rates: list[Rate] = []
    nodes: set[int] = set()
    for one in result.copies:
        source, destination = one.copy.source, one.copy.destination
        if one.gbs is None or source.is_host == destination.is_host:
            return None
        inward = source.is_host
        host, device = (source, destination) if inward else (destination, source)
        width = one.statistics.half_width or 0.0
        gbs = Estimate(one.gbs, one.gbs * (1 - width), one.gbs * (1 + width))
        rates.append(Rate(device.index, Direction.H2D if inward else Direction.D2H, gbs))
        nodes.add(host.index)
    return Together(nodes.pop(), tuple(rates)) if len(nodes) == 1 else None


def fit_contention(sets: Sequence[Together], source: str) -> tuple[HostBandwidth, ...]:
    """Return what tells the rates of all sets; nothing where no set was held up.

    Parameters
    ----------
    sets
        Of several nodes, in any order; each GPU also alone.
    source
        By what they were measured, and when.
    """
    found: list[HostBandwidth] = []
    for node in sorted({one.node for one in sets}):
        found += _Node(node, [one for one in sets if one.node == node], source).fitted()
    return tuple(found)


def expected_gbs(
    one: Together, alone: Sequence[Together], contention: Sequence[HostBandwidth]
) -> list[float]:
    """Return what each copy of a set gets, by what each GPU gets alone and what they contend for.

    GB/s, in the order of its rates.
    """
    return _expected(one, _rates_alone(alone), contention)


#: What a GPU gets alone: in a direction, and whether its other one is busy, too.
_Alone = dict[tuple[int, Direction, bool], float]


def _rates_alone(sets: Iterable[Together]) -> _Alone:
    measured: dict[tuple[int, Direction, bool], list[float]] = defaultdict(list)
    for one in sets:
        if len(one.gpus) == 1:
            for rate in one.rates:
                measured[rate.gpu, rate.direction, len(one.rates) > 1].append(rate.gbs.value)
    return {key: float(np.median(values)) for key, values in measured.items()}


def _expected(one: Together, alone: _Alone, contention: Sequence[HostBandwidth]) -> list[float]:
    machine = Machine(
        "expected",
        nodes=(NumaNode(one.node),),
        gpus=tuple(Gpu(gpu, "GPU") for gpu in sorted(one.gpus)),
        host_bandwidth=tuple(contention),
    )
    copies = [host_copy(rate.gpu, one.node, rate.direction) for rate in one.rates]
    shares = share_by_weight(
        [usage(machine, copy) for copy in copies],
        [Share(_most(rate, one, alone), None) for rate in one.rates],
        contended(machine),
        [contention_weight(machine, copy) for copy in copies],
    )
    return [share.rate or 0.0 for share in shares]


def _most(rate: Rate, one: Together, alone: _Alone) -> float:
    """Return what a copy gets at most: what it has with its own GPU's other direction."""
    opposed = any(r.gpu == rate.gpu and r.direction is not rate.direction for r in one.rates)
    found = alone.get((rate.gpu, rate.direction, opposed))
    return found or alone.get((rate.gpu, rate.direction, False)) or rate.gbs.high


_Key = frozenset[tuple[int, Direction]]


def _key(one: Together) -> _Key:
    """Return which copies a set has."""
    return frozenset((rate.gpu, rate.direction) for rate in one.rates)


def _median_of(rounds: Sequence[Together]) -> Together:
    """Return a set with the median of each copy's rates over its rounds."""
    values: dict[tuple[int, Direction], list[float]] = defaultdict(list)
    for one in rounds:
        for rate in one.rates:
            values[rate.gpu, rate.direction].append(rate.gbs.value)
    rates = (
        Rate(gpu, direction, Estimate.exactly(float(np.median(gbs))))
        for (gpu, direction), gbs in values.items()
    )
    return Together(rounds[0].node, tuple(rates))


class _Node:
    """The sets of one node."""

    def __init__(self, node: int, sets: Sequence[Together], source: str) -> None:
        self._node, self._source = node, source
        self._alone = _rates_alone(sets)
        rounds: dict[_Key, list[Together]] = defaultdict(list)
        for one in sets:
            if len(one.gpus) > 1:
                rounds[_key(one)].append(one)
        self._rounds = dict(rounds)
        self._sets = [_median_of(same) for same in rounds.values()]

    def fitted(self) -> list[HostBandwidth]:
        """Return the links that some GPUs share, and the memory, each if it holds anything up."""
        found: list[HostBandwidth] = []
        left = list(self._sets)
        for group in [*self._own_links(), self._all()]:
            sets = [one for one in left if one.gpus <= group]
            left = [one for one in left if one not in sets]
            one = self._of_group(group, sets, found)
            if one.read_gbs or one.write_gbs or one.both_gbs:
                found.append(one)
        return found

    def _all(self) -> frozenset[int]:
        return frozenset(gpu for one in self._sets for gpu in one.gpus)

    def _own_links(self) -> list[frozenset[int]]:
        """Return groups of GPUs whose pairs get much less than all GPUs together."""
        groups = [frozenset({gpu}) for gpu in self._all()]
        for one in self._sets:
            if len(one.gpus) == _PAIR and self._is_narrow(one):
                joined = [group for group in groups if group & one.gpus]
                groups = [group for group in groups if not group & one.gpus]
                groups.append(frozenset[int]().union(*joined))
        found = [group for group in groups if 1 < len(group) < len(self._all())]
        return sorted(found, key=min)

    def _is_narrow(self, pair: Together) -> bool:
        larger = [
            one.gbs()
            for one in self._sets
            if one.directions == pair.directions and one.gpus > pair.gpus
        ]
        alone = sum(_expected(pair, self._alone, []))
        return bool(larger) and pair.gbs() < _OWN_LINK * min(max(larger), alone)

    def _is_held_up(self, one: Together, found: Sequence[HostBandwidth]) -> bool:
        expected = sum(_expected(one, self._alone, found))
        return all(same.gbs() < _HELD_UP * expected for same in self._rounds[_key(one)])

    def _of_group(
        self, group: frozenset[int], sets: Sequence[Together], found: Sequence[HostBandwidth]
    ) -> HostBandwidth:
        one = HostBandwidth(self._node, tuple(sorted(group)), source=self._source)
        held = {way: self._held_up(sets, way, found) for way in Direction}
        reads, writes = ([s.gbs() for s in held[way]] for way in Direction)
        one = replace(one, read_gbs=_mean(reads), write_gbs=_mean(writes))
        mixed = [s for s in sets if len(s.directions) > 1 and self._is_held_up(s, [*found, one])]
        if mixed:
            one = self._with_both(one, sets, mixed)
        used = [*held[Direction.H2D], *held[Direction.D2H], *mixed]
        return replace(one, spread=self._spread(used, [*found, one]))

    def _held_up(
        self, sets: Sequence[Together], way: Direction, found: Sequence[HostBandwidth]
    ) -> list[Together]:
        return [s for s in sets if s.directions == {way} and self._is_held_up(s, found)]

    def _with_both(
        self, one: HostBandwidth, sets: Sequence[Together], mixed: Sequence[Together]
    ) -> HostBandwidth:
        """Return contention with reads + cost x writes, through what is carried one way, too."""
        most = {
            way: max((s.gbs() for s in sets if s.directions == {way}), default=0.0)
            for way in Direction
        }
        total = max(float(np.mean([s.gbs() for s in mixed])), most[Direction.H2D])
        costs = [(total - s.gbs(Direction.H2D)) / s.gbs(Direction.D2H) for s in mixed]
        cost = float(np.mean(costs))
        if most[Direction.D2H]:
            cost = min(cost, total / most[Direction.D2H])
        weight = self._weight(mixed)
        return replace(one, both_gbs=total, write_cost=cost, write_weight=weight)

    def _weight(self, mixed: Sequence[Together]) -> float:
        """Return what a copy to the host gets for each byte a second of one from it.

        By the sets in which neither gets what it has alone; where one always does, by the set that
        tells most.
        """
        free: list[float] = []
        bounds: list[float] = []
        for one in mixed:
            into, back = (
                float(np.mean([r.gbs.value for r in one.rates if r.direction is way]))
                for way in Direction
            )
            capped = [
                r.direction
                for r in one.rates
                if r.gbs.value >= _AS_ALONE * _most(r, one, self._alone)
            ]
            (bounds if capped else free).append(back / into)
        if free:
            return float(np.exp(np.mean(np.log(free))))
        return max(bounds, key=lambda ratio: abs(log(ratio)))

    def _spread(self, used: Sequence[Together], found: Sequence[HostBandwidth]) -> float:
        """Return half of the range of all rounds over expected sums, with their intervals."""
        ends: list[float] = []
        for one in (same for used_set in used for same in self._rounds[_key(used_set)]):
            expected = sum(_expected(one, self._alone, found))
            ends.append(sum(rate.gbs.low for rate in one.rates) / expected)
            ends.append(sum(rate.gbs.high for rate in one.rates) / expected)
        return min((max(ends) - min(ends)) / 2, _MOST_SPREAD) if ends else 0.0


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
