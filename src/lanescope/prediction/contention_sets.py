"""Copies of several GPUs at once, measured for what they contend for in host memory.

Each GPU alone, each pair, three and all of them copy to the GPU, from it, and both ways.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from lanescope.copies import Experiment
from lanescope.copies.experiment import experiment_of
from lanescope.engine.base import Backend
from lanescope.engine.sampling import Plan, measure_one
from lanescope.machine import Machine
from lanescope.prediction.contention import NotTogether, Together, together_of
from lanescope.prediction.parameters import Direction
from lanescope.prediction.shared_links import host_copy
from lanescope.results.result import Result

#: Over large sets and over small ones, and seconds of sampling for one set in each.
ROUNDS, _SMALL_ROUNDS, _BUDGET_SECONDS = 4, 2, 0.1
_PAIR, _THREE = 2, 3
_WAYS = ((Direction.H2D,), (Direction.D2H,), tuple(Direction))


def _small_sets(machine: Machine) -> list[Experiment]:
    """Return each GPU alone, and each pair where there are more, in each direction and in both.

    GPUs copy from and to the memory of their nearest node; there are no sets for a node with
    fewer than two of them.
    """
    found: list[Experiment] = []
    for node, gpus in _by_node(machine).items():
        pairs = combinations(gpus, _PAIR) if len(gpus) > _PAIR else ()
        found += _each_way(node, [*combinations(gpus, 1), *pairs])
    return found


def _large_sets(machine: Machine) -> list[Experiment]:
    """Return three of four GPUs or more, and all, in each direction and in both; and by halves.

    Of these one half copies to the GPUs and the other one from them.
    """
    found: list[Experiment] = []
    for node, gpus in _by_node(machine).items():
        count = len(gpus)
        three = [tuple(gpus[i * count // 3] for i in range(3))] if count > _THREE else []
        found += _each_way(node, [*three, tuple(gpus)])
        halves = [(Direction.H2D, gpus[: count // 2]), (Direction.D2H, gpus[count // 2 :])]
        found.append(experiment_of([host_copy(g, node, way) for way, half in halves for g in half]))
    return found


def _each_way(node: int, groups: Sequence[tuple[int, ...]]) -> Iterator[Experiment]:
    for ways in _WAYS:
        for group in groups:
            yield experiment_of([host_copy(gpu, node, way) for way in ways for gpu in group])


def sets_by_round(
    machine: Machine, backends: Sequence[Backend]
) -> list[tuple[Backend, Experiment]]:
    """Return all sets, with the backends that measure them: a round each.

    A set gets up to 7 % more or less in other pages, so each backend has memory of its own.
    """
    found: list[tuple[Backend, Experiment]] = []
    for number, backend in enumerate(backends):
        small = _small_sets(machine) if number < _SMALL_ROUNDS else []
        found += [(backend, one) for one in (*small, *_large_sets(machine))]
    return found


def measure_sets(
    sets: Iterable[tuple[Backend, Experiment]], machine: Machine
) -> Iterator[Together | NotTogether]:
    """Measure sets one after the other.

    Yields
    ------
    Together or NotTogether
        What a set got, or why that is not known: a GPU or the host was busy.
    """
    plan = Plan(budget_seconds=_BUDGET_SECONDS, verify=False)
    for backend, experiment in sets:
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
