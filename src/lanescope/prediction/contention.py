"""What several GPUs' copies get of host memory at once, and the few numbers that tell it.

The sets that move less than their copies would alone tell what the memory carries, or a way that
they share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np

from lanescope.copies.limit import (
    Capacity,
    FlowShare,
    contended,
    contended_room,
    contention_weight,
    share_by_weight,
    usage,
)
from lanescope.machine import Gpu, HostBandwidth, Machine, NumaNode
from lanescope.prediction.flows import host_copy
from lanescope.prediction.parameters import Direction
from lanescope.results import FloatArray, Result
from lanescope.units.estimate import Estimate

#: Copies are held up that together get less than this share of what they would get, in each round.
_HELD_UP = 0.95
#: A copy that gets this share of what it gets alone, or more, is not held up.
_AS_ALONE = 0.97
#: A pair shares a link of its own that gets less than this share of what both get alone, and of
#: what all get together.
_OWN_LINK = 0.8
_PAIR = 2
_MOST_SPREAD = 0.5
#: A round differs from its run's others by this share (standard deviation), which counts as so
#: many rounds of this machine's own, and a run from the fit's run by that share: the last lines of
#: benchmarks/results/*/contention/compared.txt, four machines with 24 rounds each.
_OF_ROUNDS, _AS_ROUNDS = 0.032, 6
_OF_RUNS = 0.025
_SIGMAS = 1.96
#: Rates of sets are known within about this share.
_NOISE = 0.02
#: How abruptly memory fills (n of `Capacity.throughput`) where sets tell nothing of it, and by
#: which factor that differs from machine to machine.
_ABRUPT, _ABRUPT_FACTOR = 6.0, 2.7


@dataclass(frozen=True, slots=True)
class CopyRate:
    """What one copy of a set got, in GB/s, with its 95 % interval."""

    gpu: int
    direction: Direction
    gbs: Estimate


@dataclass(frozen=True, slots=True)
class Together:
    """Copies between a node's memory and GPUs that went on at the same time."""

    node: int
    rates: tuple[CopyRate, ...]

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


def together_of(result: Result) -> Together | None:
    """Return the rates of a measured set; None without one of each, or without a node's memory.

    Nor is there any of a set of which an engine took some in turns: it held them up itself.
    """
    if result.groups_in_turns:
        return None
    rates: list[CopyRate] = []
    nodes: set[int] = set()
    for one in result.copies:
        source, destination = one.copy.source, one.copy.destination
        if one.gbs is None or source.is_host == destination.is_host:
            return None
        inward = source.is_host
        host, device = (source, destination) if inward else (destination, source)
        width = one.statistics.half_width or 0.0
        gbs = Estimate(one.gbs, one.gbs * (1 - width), one.gbs * (1 + width))
        rates.append(CopyRate(device.index, Direction.H2D if inward else Direction.D2H, gbs))
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
    flows = [usage(machine, copy) for copy in copies]
    shares = [FlowShare(_most(rate, one, alone), None) for rate in one.rates]
    weights = [contention_weight(machine, copy) for copy in copies]
    gpus = [[rate.gpu] for rate in one.rates]
    room = contended_room(contended(machine), flows, shares, weights, gpus)
    return [share.rate or 0.0 for share in share_by_weight(flows, shares, room, weights)]


def _most(rate: CopyRate, one: Together, alone: _Alone) -> float:
    """Return what a copy gets at most: what it has with its own GPU's other direction."""
    opposed = any(r.gpu == rate.gpu and r.direction is not rate.direction for r in one.rates)
    found = alone.get((rate.gpu, rate.direction, opposed))
    return found or alone.get((rate.gpu, rate.direction, False)) or rate.gbs.high


_Key = frozenset[tuple[int, Direction]]
#: Rates of `HostBandwidth`, and the directions of the sets that tell them.
_RATES = {
    "read_gbs": {Direction.H2D},
    "write_gbs": {Direction.D2H},
    "both_gbs": set(Direction),
}


def key_of(one: Together) -> _Key:
    """Return which copies a set has."""
    return frozenset((rate.gpu, rate.direction) for rate in one.rates)


def _median_of(rounds: Sequence[Together]) -> Together:
    """Return a set with the median of each copy's rates over its rounds."""
    values: dict[tuple[int, Direction], list[float]] = defaultdict(list)
    for one in rounds:
        for rate in one.rates:
            values[rate.gpu, rate.direction].append(rate.gbs.value)
    rates = (
        CopyRate(gpu, direction, Estimate.exactly(float(np.median(gbs))))
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
                rounds[key_of(one)].append(one)
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
        return all(same.gbs() < _HELD_UP * expected for same in self._rounds[key_of(one)])

    def _of_group(
        self, group: frozenset[int], sets: Sequence[Together], found: Sequence[HostBandwidth]
    ) -> HostBandwidth:
        one = HostBandwidth(self._node, tuple(sorted(group)), source=self._source)
        fit = self._of_memory if group == self._all() else self._of_link
        known: dict[str, list[Together]] = {}
        for name, ways in _RATES.items():
            those = [s for s in sets if s.directions == ways]
            if any(self._is_held_up(s, [*found, one]) for s in those):
                known[name] = those
                one = fit(one, known, found)
        held = [s for those in known.values() for s in those if self._is_held_up(s, found)]
        if one.both_gbs:
            mixed = [s for s in held if len(s.directions) > 1]
            one = replace(one, write_weight=self._weight(mixed))
        return replace(one, spread=self._spread(held, [*found, one]))

    def _of_link(
        self,
        one: HostBandwidth,
        known: Mapping[str, Sequence[Together]],
        found: Sequence[HostBandwidth],
    ) -> HostBandwidth:
        """Return what a link carries: it gives all that it has."""
        rates = {
            name: float(np.mean([s.gbs() for s in those if self._is_held_up(s, found)]))
            for name, those in known.items()
        }
        return _with_rates(one, rates)

    def _of_memory(
        self,
        one: HostBandwidth,
        known: Mapping[str, Sequence[Together]],
        found: Sequence[HostBandwidth],
    ) -> HostBandwidth:
        """Return what memory carries, by demand and throughput; log-normal errors.

        Sets of as many copies in each direction count as one: there are many pairs.
        """
        from scipy.optimize import least_squares

        kinds = [self._demand_and_throughput(those, found) for those in known.values()]

        def errors(logs: FloatArray) -> list[float]:
            n, *rates = map(float, np.exp(logs))
            off = [
                log(Capacity(rate, 2 ** (-1 / n)).throughput(demand) / got) / _NOISE
                for rate, those in zip(rates, kinds, strict=True)
                for demand, got in those
            ]
            return [*off, log(n / _ABRUPT) / log(_ABRUPT_FACTOR)]

        start = [_ABRUPT, *(max(got for _, got in those) for those in kinds)]
        low, high = [1.0, *[1e-3] * len(kinds)], [100.0, *[1e6] * len(kinds)]
        bounds = (np.log(low), np.log(high))
        n, *rates = map(float, np.exp(least_squares(errors, np.log(start), bounds=bounds).x))
        found_rates = dict(zip(known, rates, strict=True))
        return replace(_with_rates(one, found_rates), at_capacity=2 ** (-1 / n))

    def _demand_and_throughput(
        self, sets: Sequence[Together], found: Sequence[HostBandwidth]
    ) -> list[tuple[float, float]]:
        by_copies: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
        for one in sets:
            reads = sum(rate.direction is Direction.H2D for rate in one.rates)
            both = sum(_expected(one, self._alone, found)), one.gbs()
            by_copies[reads, len(one.rates) - reads].append(both)
        means = (np.exp(np.mean(np.log(those), axis=0)) for those in by_copies.values())
        return [(float(demand), float(got)) for demand, got in means]

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
        """Return within which share of the expected sum a new round is in 95 of 100 cases.

        A fit of two GPUs has few rounds, and no fit tells how another run differs from its own:
        what other machines' rounds and runs did is added.
        """
        off = [
            same.gbs() / sum(_expected(same, self._alone, found)) - 1
            for one in used
            for same in self._rounds[key_of(one)]
        ]
        if not off:
            return 0.0
        squares = sum(one**2 for one in off) + _AS_ROUNDS * _OF_ROUNDS**2
        variance = squares / (len(off) + _AS_ROUNDS) + _OF_RUNS**2
        return min(_SIGMAS * sqrt(variance), _MOST_SPREAD)


def _with_rates(one: HostBandwidth, rates: Mapping[str, float]) -> HostBandwidth:
    return replace(
        one,
        read_gbs=rates.get("read_gbs"),
        write_gbs=rates.get("write_gbs"),
        both_gbs=rates.get("both_gbs"),
    )
