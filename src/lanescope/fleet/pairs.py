"""Plans of pairs of nodes, and what makes a pair slow: a node, a rack, or the pair itself.

In a round of a plan everybody exchanges data with one other at most.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median_low

from lanescope.errors import InputError

#: Two nodes by number, the smaller first.
Pair = tuple[int, int]
Round = tuple[Pair, ...]
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
#: Of a list of Slurm: a mistyped number must not fill the memory.
_MOST_NODES = 100_000
#: A name in a list of Slurm, with ranges in brackets anywhere.
_ITEM = r"(?:[^,\[\]]|\[[^\[\]]*\])+"


class PairPlan(StrEnum):
    """Which pairs are measured."""

    NONE = ""
    OPPOSITE = "opposite"
    """Each node with the one that is half of the fleet away: one round."""
    BISECTION = "bisection"
    """Opposite, then so within each half, and so on: log2 N rounds."""
    SAMPLE = "sample"
    """Each node with a neighbour in its rack and with nodes of other racks: rounds do not grow."""
    ALL = "all"
    """Every pair: N - 1 rounds."""


def all_pairs(nodes: int) -> tuple[Round, ...]:
    """Return every pair once, by the circle method: N - 1 rounds, N where N is odd.

    One node stays where it is and the others move around it, as in a round-robin tournament
    (Kirkman, 1847); with an odd number one node rests in each round.
    """
    order: list[int | None] = list(range(nodes))
    if nodes % 2:
        order.append(None)
    rounds = []
    for _ in range(len(order) - 1):
        half = len(order) // 2
        facing = zip(order[:half], reversed(order[half:]), strict=True)
        rounds.append(_round((a, b) for a, b in facing if a is not None and b is not None))
        order = [order[0], order[-1], *order[1:-1]]
    return tuple(rounds)


def opposite(nodes: int) -> tuple[Round, ...]:
    """Return one round: node i with node i + N/2. With an odd number the last one rests."""
    half = nodes // 2
    return (_round((number, number + half) for number in range(half)),) if half else ()


def bisection(nodes: int) -> tuple[Round, ...]:
    """Return `opposite`, then the same within each half at once, down to neighbours."""
    rounds, parts = [], [range(nodes)]
    while any(len(part) > 1 for part in parts):
        pairs = [
            (part[number], part[number + len(part) // 2])
            for part in parts
            for number in range(len(part) // 2)
        ]
        rounds.append(_round(pairs))
        parts = [
            piece for part in parts for piece in (part[: len(part) // 2], part[len(part) // 2 :])
        ]
    return tuple(rounds)


def sample(racks: Sequence[str], partners: int = 3, seed: int = 0) -> tuple[Round, ...]:
    """Return pairs whose number grows as that of nodes: a ring in each rack, and others by chance.

    Parameters
    ----------
    racks
        Of each node.
    partners
        How many nodes of other racks each node meets, about.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for number, rack in enumerate(racks):
        members[rack].append(number)
    pairs: set[Pair] = set()
    for ring in members.values():
        pairs |= {_pair(a, b) for a, b in zip(ring, [*ring[1:], *ring[:1]], strict=True) if a != b}
    chance = random.Random(seed)
    half = len(racks) // 2
    for _ in range(partners):
        # rack by rack in a new order: half of the fleet away is another rack
        order = []
        for rack in chance.sample(sorted(members), len(members)):
            order += chance.sample(members[rack], len(members[rack]))
        for a, b in zip(order[:half], order[half:], strict=False):
            if racks[a] != racks[b] or len(members) == 1:
                pairs.add(_pair(a, b))
    return in_rounds(sorted(pairs))


def with_good_ones(
    suspects: Sequence[int], good: Sequence[int], partners: int = 2
) -> tuple[Round, ...]:
    """Return each suspect with several nodes that are known to be good, a different one each."""
    pairs = {
        _pair(suspect, good[(number * partners + turn) % len(good)])
        for number, suspect in enumerate(suspects)
        for turn in range(min(partners, len(good)))
    }
    return in_rounds(sorted(pairs))


def in_rounds(pairs: Iterable[Pair]) -> tuple[Round, ...]:
    """Put pairs into rounds, each into the first one in which both nodes are free."""
    rounds: list[list[Pair]] = []
    busy: list[set[int]] = []
    for pair in pairs:
        free = next((n for n, nodes in enumerate(busy) if not nodes & set(pair)), None)
        if free is None:
            free = len(rounds)
            rounds.append([])
            busy.append(set())
        rounds[free].append(pair)
        busy[free] |= set(pair)
    return tuple(map(tuple, rounds))


def planned(plan: PairPlan, racks: Sequence[str]) -> tuple[Round, ...]:
    """Return the rounds of a plan for nodes in racks."""
    count = len(racks)
    if count < 2 or plan is PairPlan.NONE:
        return ()
    if plan is PairPlan.SAMPLE:
        return sample(racks)
    return {PairPlan.OPPOSITE: opposite, PairPlan.BISECTION: bisection, PairPlan.ALL: all_pairs}[
        plan
    ](count)


def racks_of(hosts: Sequence[str], topology: str | None = None) -> list[str]:
    """Return the rack of each node: by a text, for others by the nodes' names.

    Parameters
    ----------
    topology
        Slurm's topology.conf, or lines of a node and its rack. None: what stands in a name before
        its last number is the rack, such as ``r12`` of ``r12n03``, or empty for ``node7``.

    Raises
    ------
    InputError
        If the text has a list of nodes that is none, or a node in two racks.
    """
    known = {} if topology is None else _by_text(topology)
    return [known.get(host) or _by_name(host) for host in hosts]


def _by_name(host: str) -> str:
    name = host.partition(".")[0]
    found = re.fullmatch(r"(.*\d)\D+\d+", name)
    return found[1] if found else ""


def _by_text(text: str) -> dict[str, str]:
    known: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        fields = dict(word.split("=", 1) for word in words if "=" in word)
        if "SwitchName" in fields:
            hosts, rack = _expanded(fields.get("Nodes", "")), fields["SwitchName"]
        elif fields or not words:
            continue  # of Slurm, and not of nodes
        elif len(words) == 2:
            hosts, rack = [words[0]], words[1]
        else:
            raise InputError(
                f"line {number} of the racks is {line.strip()!r}; write a node and its rack, such "
                "as 'n01 r1', or Slurm's SwitchName=r1 Nodes=n[01-16]"
            )
        for host in hosts:
            if known.setdefault(host, rack) != rack:
                raise InputError(f"{host} is in the racks {known[host]} and {rack}; name one")
    return known


def _expanded(names: str) -> list[str]:
    """Return the nodes of a list of Slurm, such as ``n[01-03,7],login`` or ``r[1-2]n[1-8]``."""
    if names and not re.fullmatch(f"{_ITEM}(,{_ITEM})*", names):
        raise _no_list(names)
    found: list[str] = []
    for match in re.finditer(_ITEM, names):
        texts = re.split(r"\[(.*?)\]", match[0])  # each second one stood in brackets
        each = [_numbers(text, names) if at % 2 else [text] for at, text in enumerate(texts)]
        if len(found) + math.prod(map(len, each)) > _MOST_NODES:
            raise InputError(f"{names!r} has more than {_MOST_NODES:,} nodes; name fewer")
        found += map("".join, itertools.product(*each))
    return found


def _numbers(ranges: str, names: str) -> list[str]:
    """Return the numbers of ranges such as ``01-03,7``, with as many digits."""
    found: list[str] = []
    for part in ranges.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first:
            raise _no_list(names)
        if last - first >= _MOST_NODES:
            raise InputError(f"{names!r} has more than {_MOST_NODES:,} nodes; name fewer")
        found += [f"{number:0{len(match[1])}}" for number in range(first, last + 1)]
    return found


def _no_list(names: str) -> InputError:
    return InputError(f"{names!r} is no list of nodes; write such as n[01-16]")


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)


def _round(pairs: Iterable[Pair]) -> Round:
    return tuple(_pair(a, b) for a, b in pairs)


class SuspectKind(StrEnum):
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

    what: SuspectKind
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
    groups: list[tuple[SuspectKind, dict[str, set[Pair]]]] = [
        (SuspectKind.NODE, _of_nodes(rates, hosts))
    ]
    if racks and len(set(racks)) > 1:
        groups.insert(0, (SuspectKind.RACK, _of_racks(rates, racks)))
    for what, members in groups:
        found += _to_blame(what, members, left, losses, sigma)
    bound = max(LEAST_LOSS, (_DEVIATIONS + _AT_75) * sigma)  # no others bear it out
    for pair in sorted(left, key=lambda pair: -losses[pair]):
        if losses[pair] > bound:
            ambiguous = not all(_others(rates, pair, end) for end in pair)
            names = tuple(hosts[end] for end in pair)
            found.append(Blamed(SuspectKind.PAIR, names, ambiguous, losses[pair], 1))
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
    what: SuspectKind,
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
