"""Plans of pairs: who exchanges data with whom, in rounds in which everybody is busy once."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum

from lanescope.errors import InputError

#: Two nodes by number, the smaller first.
Pair = tuple[int, int]
Round = tuple[Pair, ...]


class Plan(StrEnum):
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


def planned(plan: Plan, racks: Sequence[str]) -> tuple[Round, ...]:
    """Return the rounds of a plan for nodes in racks."""
    count = len(racks)
    if count < 2 or plan is Plan.NONE:
        return ()
    if plan is Plan.SAMPLE:
        return sample(racks)
    return {Plan.OPPOSITE: opposite, Plan.BISECTION: bisection, Plan.ALL: all_pairs}[plan](count)


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
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        fields = dict(word.split("=", 1) for word in words if "=" in word)
        if "SwitchName" in fields:
            hosts, rack = _expanded(fields.get("Nodes", "")), fields["SwitchName"]
        elif len(words) == 2:
            hosts, rack = [words[0]], words[1]
        else:
            continue
        for host in hosts:
            if known.setdefault(host, rack) != rack:
                raise InputError(f"{host} is in the racks {known[host]} and {rack}; name one")
    return known


def _expanded(names: str) -> list[str]:
    """Return the nodes of a list of Slurm, such as ``n[01-03,7],login``."""
    found = []
    for name in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", names):
        head, _, ranges = name.rstrip("]").partition("[")
        if not ranges:
            found.append(head)
            continue
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            if not (first.isdigit() and (last or first).isdigit()):
                raise InputError(f"{name!r} is no list of nodes; write such as n[01-16]")
            numbers = range(int(first), int(last or first) + 1)
            found += [f"{head}{number:0{len(first)}}" for number in numbers]
    return found


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)


def _round(pairs: Iterable[Pair]) -> Round:
    return tuple(_pair(a, b) for a, b in pairs)
