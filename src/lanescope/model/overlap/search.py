"""The number of streams with which a workload takes the least time."""

from __future__ import annotations

from math import ceil

from lanescope.model.overlap.graphs import graph_for
from lanescope.model.overlap.methods import STREAMED, Method
from lanescope.model.overlap.rates import Level, Rates
from lanescope.model.overlap.replay import USUAL, order_for
from lanescope.model.overlap.simulation import Simulation
from lanescope.model.overlap.workload import Workload
from lanescope.model.transfer.parameters import LinkParameters

#: Steps between counts that are smaller than this share of them are not tried.
CLOSE = 0.06


def best_streams(
    workload: Workload, method: Method, parameters: LinkParameters, most: int = 256
) -> int:
    """Return how many streams take the least time, 1 to `most`.

    First powers of two are tried, then counts around the best of these. This finds the best if
    the time falls up to it and rises behind, as it does where parts are equal: fewer streams
    overlap less, more cost more calls and gaps. Where the workload tells into how many parts it
    can be cut, only counts are tried whose largest part is smaller than that of any fewer, as
    the largest part decides. Above 16, counts are told apart by 6 % at least.

    Raises
    ------
    NotMeasuredError
        If the parameters lack what the method takes.
    """
    if method not in STREAMED:
        return 1
    counts = _candidates(workload.most_streams, most)
    rates, order = Rates(parameters, Level.VALUE, USUAL), order_for(parameters)
    known: dict[int, float] = {}

    def seconds(place: int) -> float:
        if place not in known:
            graph = graph_for(workload, method, counts[place], order=order)
            known[place] = Simulation(graph, rates, None).seconds()
        return known[place]

    places = _powers(counts)
    best = min(places, key=seconds)
    step = max(1, (best - places[max(0, places.index(best) - 1)]) // 2)
    while step >= 1:
        near = [place for place in (best - step, best + step) if 0 <= place < len(counts)]
        better = min([best, *near], key=seconds)
        if better != best:
            best = better
        elif step == 1 or step < CLOSE * counts[best]:
            break
        else:
            step //= 2
    return counts[best]


def _candidates(parts: int | None, most: int) -> list[int]:
    if most < 1:
        raise ValueError("a search for the best number of streams needs room for 1 or more")
    if parts is None:
        return list(range(1, most + 1))
    return sorted({n for c in range(1, parts + 1) if (n := ceil(parts / c)) <= most})


def _powers(counts: list[int]) -> list[int]:
    """Places of the counts next to the powers of two, and of the last."""
    places, power = [], 1
    for place, count in enumerate(counts):
        if count >= power:
            places.append(place)
            while power <= count:
                power *= 2
    if places[-1] != len(counts) - 1:
        places.append(len(counts) - 1)
    return places
