"""Which node, rack or pair makes a matrix of pairs slow where it is slow."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median_low

from lanescope.fleet.pairs import Pair

#: A smaller loss of a single pair is none.
LEAST_LOSS = 0.05
#: A loss must also stand out of the scatter of the pairs by so many robust deviations.
_DEVIATIONS = 5.0
_LEAST_SIGMA = 0.003
#: Where these shares of a normal distribution lie, in standard deviations.
_AT_75, _AT_95 = 0.674, 1.645
#: And of a node or a rack a smaller one; fewer pairs tell nothing of it.
_LEAST_OF_GROUP, _FEWEST_PAIRS = 0.025, 2
#: By how much a median of normal values scatters more than their mean.
_MEDIAN_TO_MEAN = 1.25


class What(StrEnum):
    """What is to blame."""

    NODE = "node"
    RACK = "rack"
    PAIR = "pair"


@dataclass(frozen=True, slots=True)
class Blamed:
    """What is to blame for slow pairs.

    Attributes
    ----------
    names
        The node or the rack; of a pair both nodes; several where they cannot be told apart.
    ambiguous
        Whether only one of them may be to blame, and the pairs do not say which.
    loss
        Median loss of its pairs, as a share of what pairs carry as a rule.
    pairs
        How many pairs that is of.
    """

    what: What
    names: tuple[str, ...]
    ambiguous: bool
    loss: float
    pairs: int


def located(
    rates: dict[Pair, float], hosts: Sequence[str], racks: Sequence[str] | None = None
) -> list[Blamed]:
    """Return what explains the slow pairs of a matrix, that which explains most first.

    The usual rate of pairs is the upper quarter of their rates: a slow uplink alone makes half of
    the pairs of four racks slow. Pairs within a rack and between racks have usual rates of their
    own. A rack or a node is to blame where the median of its pairs is slow; they are taken away,
    and so on. A slow pair that is left is a fault between its two nodes where both have other
    pairs, else one of both is to blame.

    Parameters
    ----------
    rates
        GB/s of pairs of nodes, by number.
    racks
        Of each node; None: none are known.
    """
    losses = _losses(rates, racks)
    if not losses:
        return []
    sigma = _scatter(list(losses.values()))
    left = set(losses)
    found: list[Blamed] = []
    groups: list[tuple[What, dict[str, set[Pair]]]] = [(What.NODE, _of_nodes(rates, hosts))]
    if racks and len(set(racks)) > 1:
        groups.insert(0, (What.RACK, _of_racks(rates, racks)))
    for what, members in groups:
        found += _to_blame(what, members, left, losses, sigma)
    bound = max(LEAST_LOSS, (_DEVIATIONS + _AT_75) * sigma)  # no others bear it out
    for pair in sorted(left, key=lambda pair: -losses[pair]):
        if losses[pair] > bound:
            ambiguous = not all(_others(rates, pair, end) for end in pair)
            names = tuple(hosts[end] for end in pair)
            found.append(Blamed(What.PAIR, names, ambiguous, losses[pair], 1))
    return found


def slow_pairs(rates: dict[Pair, float], racks: Sequence[str] | None = None) -> list[Pair]:
    """Return the pairs that would count against somebody, the slowest first."""
    losses = _losses(rates, racks)
    slow = [pair for pair, loss in losses.items() if loss > _LEAST_OF_GROUP]
    return sorted(slow, key=lambda pair: -losses[pair])


def _losses(rates: dict[Pair, float], racks: Sequence[str] | None) -> dict[Pair, float]:
    """Return by how much each pair is slower than pairs of its sort, as a share."""
    sorts: dict[bool, list[float]] = defaultdict(list)
    place = racks or [str(number) for number in range(1 + max(map(max, rates), default=0))]
    inside = {(a, b): place[a] == place[b] for a, b in rates}
    for pair, rate in rates.items():
        sorts[inside[pair]].append(rate)
    usual = {which: _quantile(values, 0.75) for which, values in sorts.items()}
    return {pair: 1 - rate / usual[inside[pair]] for pair, rate in rates.items()}


def _scatter(losses: Sequence[float]) -> float:
    """Return the standard deviation of sound pairs, by the upper quarter of their rates."""
    low, high = _quantile(losses, 0.05), _quantile(losses, 0.25)
    return max((high - low) / (_AT_95 - _AT_75), _LEAST_SIGMA)


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


def _of_nodes(rates: Iterable[Pair], hosts: Sequence[str]) -> dict[str, set[Pair]]:
    members: dict[str, set[Pair]] = defaultdict(set)
    for pair in rates:
        for end in pair:
            members[hosts[end]].add(pair)
    return members


def _of_racks(rates: Iterable[Pair], racks: Sequence[str]) -> dict[str, set[Pair]]:
    """Pairs between a rack and others: what crosses its uplink."""
    members: dict[str, set[Pair]] = defaultdict(set)
    for pair in rates:
        ends = [racks[end] for end in pair]
        if ends[0] != ends[1]:
            for end in ends:
                members[end].add(pair)
    return members


def _to_blame(
    what: What,
    members: dict[str, set[Pair]],
    left: set[Pair],
    losses: dict[Pair, float],
    sigma: float,
) -> list[Blamed]:
    """Take from the pairs those of what is most surely slow, one after the other."""
    found: list[Blamed] = []
    while True:
        scores = {name: _score(pairs & left, losses, sigma) for name, pairs in members.items()}
        name = max(scores, key=lambda one: scores[one], default="")
        if scores.get(name, 0.0) <= 0:
            return found
        mine = members[name] & left
        found.append(Blamed(what, (name,), False, _loss(mine, losses), len(mine)))
        left -= mine


def _loss(pairs: Iterable[Pair], losses: dict[Pair, float]) -> float:
    """Return the lower median: of two pairs the better one, whose other node may be to blame."""
    return median_low(losses[pair] for pair in pairs)


def _score(pairs: set[Pair], losses: dict[Pair, float], sigma: float) -> float:
    """Return how many deviations a group's median lies from that of sound pairs; 0 where few."""
    if len(pairs) < _FEWEST_PAIRS:
        return 0.0
    loss = _loss(pairs, losses) - _AT_75 * sigma
    deviations = loss / (_MEDIAN_TO_MEAN * sigma / math.sqrt(len(pairs)))
    return deviations if loss > _LEAST_OF_GROUP and deviations > _DEVIATIONS else 0.0


def _others(rates: dict[Pair, float], pair: Pair, end: int) -> list[Pair]:
    return [other for other in rates if end in other and other != pair]
