"""How many planted faults a fleet's check finds, and how many sound nodes it blames.

    python benchmarks/fleet/planted_faults.py --nodes 30000 --out FILE

Fleets of ``made_up_fleets`` are judged by `lanescope.fleet`, by a fixed rule (a rate below 95 % of
what is usual for the path, by the stored runs) and by SuperBench's (below 95 % of the mean over the
fleet). A fault counts as found where its node, or for an uplink its rack, is named; for lanescope
it is also counted whether the right part is. A sound node counts as blamed where anything is said
of it. Intervals are those of Clopper and Pearson (95 %).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from made_up_fleets import NETWORK_GBS, OF_NODES, Fault, Network, Planted, node, plant, spreads

from lanescope.fleet.exchange import PairRate, exchanged
from lanescope.fleet.pairs import Pair, PairPlan, Round, planned
from lanescope.fleet.report import fleet_report
from lanescope.studies.node_report import NodeReport

SIZES = (8, 32, 128, 1000)
LOSSES = (0.05, 0.07, 0.10, 0.20)
RACK = 16
#: Of so many nodes one is broken.
BROKEN = 20
RULES = ("lanescope", "fixed 5 %", "SuperBench's")


@dataclass
class Counts:
    """What a rule has found, by fault and loss, and whom it has blamed."""

    planted: Counter[str] = field(default_factory=Counter)
    found: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    right_part: Counter[str] = field(default_factory=Counter)
    sound: int = 0
    blamed: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    seconds: dict[int, float] = field(default_factory=dict)

    def add(self, other: Counts) -> None:
        """Add another part's counts."""
        self.planted += other.planted
        self.right_part += other.right_part
        self.sound += other.sound
        self.blamed += other.blamed
        self.reasons += other.reasons
        for rule, found in other.found.items():
            self.found[rule] += found
        for size, seconds in other.seconds.items():
            self.seconds[size] = max(self.seconds.get(size, 0.0), seconds)


class MadeUpLeader:
    """Has pairs of a made-up network exchange, as `lanescope.fleet.exchange.Leader` does."""

    def __init__(self, network: Network, hosts: Sequence[str]) -> None:
        self._network, self._hosts = network, hosts

    def measured(self, rounds: Iterable[Round]) -> Iterator[tuple[Pair, PairRate]]:
        """Yield a try of every pair."""
        for pairs in rounds:
            for first, second in pairs:
                yield (first, second), self._network.tried(self._hosts[first], self._hosts[second])

    def end(self) -> None:
        """Nobody waits."""


def one_fleet(size: int, seed: int) -> Counts:
    """Make a fleet up, plant faults, and count what each rule says."""
    random = np.random.default_rng([size, seed])
    hosts = [f"r{number // RACK:02}n{number % RACK:02}" for number in range(size)]
    racks = [host[:3] for host in hosts]
    planted = _faults(hosts, racks, random)
    of_host = {one.where: one for one in planted}
    nodes = [node(host, random, of_host.get(host)) for host in hosts]
    network = Network(hosts, racks, planted, random)
    begin = time.perf_counter()
    leader = MadeUpLeader(network, hosts)
    pairs = exchanged(leader, planned(PairPlan.SAMPLE, racks), racks)  # type: ignore[arg-type]
    report = fleet_report(
        nodes, (), "2026-11-24T08:00:00+00:00", pairs, dict(zip(hosts, racks, strict=True))
    )
    seconds = time.perf_counter() - begin
    named: dict[str, list[str]] = defaultdict(list)
    for one in report.suspects:
        for name in one.host.split(", "):
            named[name].append(f"{one.kind} {one.part}")
    flagged = {
        "lanescope": set(named),
        "fixed 5 %": _below(nodes, pairs, _usual),
        "SuperBench's": _below(nodes, pairs, _mean_of(nodes)),
    }
    counts = Counts(seconds={size: seconds})
    for one in planted:
        _count(counts, one, flagged, named, racks_hosts=dict(zip(hosts, racks, strict=True)))
    broken = {one.where for one in planted}
    sound = [
        h for h, rack in zip(hosts, racks, strict=True) if h not in broken and rack not in broken
    ]
    counts.sound = len(sound)
    for rule, names in flagged.items():
        counts.blamed[rule] += len(names & set(sound))
    counts.reasons.update(kind.split()[0] for host in sound for kind in named.get(host, ()))
    return counts


def _faults(
    hosts: Sequence[str], racks: Sequence[str], random: np.random.Generator
) -> list[Planted]:
    found: dict[str, Planted] = {}
    uplinks = len(set(racks)) > 2 and random.random() < 0.5
    if uplinks:
        one = plant(sorted(set(racks)), Fault.SLOW_UPLINK, float(random.choice(LOSSES)), random)
        found[one.where] = one
    left = [host for host, rack in zip(hosts, racks, strict=True) if rack not in found]
    for _ in range(max(1, len(hosts) // BROKEN)):
        fault = OF_NODES[int(random.integers(len(OF_NODES)))]
        one = plant(left, fault, float(random.choice(LOSSES)), random)
        found.setdefault(one.where, one)
    return list(found.values())


def _count(
    counts: Counts,
    one: Planted,
    flagged: dict[str, set[str]],
    named: dict[str, list[str]],
    racks_hosts: dict[str, str],
) -> None:
    has_loss = one.fault not in (Fault.WRONG_DRIVER, Fault.TRAINED_DOWN)
    key = f"{one.fault}, {one.loss:.0%}" if has_loss else str(one.fault)
    counts.planted[key] += 1
    for rule, names in flagged.items():
        in_rack = {host for host, rack in racks_hosts.items() if rack == one.where}
        # a rule that knows no racks finds an uplink where it names most of its nodes
        most = bool(in_rack) and len(names & in_rack) > len(in_rack) / 2
        counts.found[rule][key] += one.where in names or (rule != "lanescope" and most)
    said = named.get(one.where, [])
    counts.right_part[key] += any(_is_right(one, text) for text in said)


def _is_right(one: Planted, said: str) -> bool:
    if one.fault in (Fault.SLOW_GPU, Fault.TRAINED_DOWN):
        return f"g{one.gpu} (" in said or f"-g{one.gpu}" in said
    wanted = {
        Fault.SLOW_NIC: "slow-node network",
        Fault.SLOW_UPLINK: "slow-rack network",
        Fault.WRONG_DRIVER: "configuration driver",
        Fault.NOISY: "slower-than-peers",
    }[one.fault]
    return wanted in said


def _below(
    nodes: Sequence[NodeReport],
    pairs: Sequence[PairRate],
    usual: Callable[[str, str], float],
) -> set[str]:
    """Return nodes of which a rate, or the median of their pairs, is below 95 % of the usual."""
    found = {
        one.host
        for one in nodes
        if any(
            rate.gbs and rate.gbs < 0.95 * usual(rate.experiment, rate.path) for rate in one.rates
        )
    }
    of_host: dict[str, list[float]] = defaultdict(list)
    for pair in pairs:
        for host in (pair.first, pair.second):
            of_host[host].append(pair.gbs or 0.0)
    return found | {h for h, v in of_host.items() if np.median(v) < 0.95 * NETWORK_GBS}


_KINDS = {
    "h2d": ("h2d", ""),
    "d2h": ("", "d2h"),
    "h2d+d2h": ("both-down", "both-up"),
    "all to GPUs": ("all-down", ""),
    "all from GPUs": ("", "all-up"),
    "all both": ("all-both-down", "all-both-up"),
    "d2d": ("d2d", "d2d"),
    "d2d-both": ("d2d-both", "d2d-both"),
}


def _usual(experiment: str, path: str) -> float:
    kinds = _KINDS.get(experiment.split("/")[0])
    kind = experiment if kinds is None else kinds[0 if path.startswith("h0") else 1]
    return spreads()[kind].gbs


def _mean_of(nodes: Sequence[NodeReport]) -> Callable[[str, str], float]:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in nodes:
        for rate in one.rates:
            values[rate.experiment, rate.path].append(rate.gbs or 0.0)
    means = {key: float(np.mean(found)) for key, found in values.items()}
    return lambda experiment, path: means[experiment, path]


def interval(hits: int, tries: int) -> tuple[float, float]:
    """Return the 95 % interval of Clopper and Pearson of a share, by bisection."""
    if not tries:
        return 0.0, 1.0

    def solve(wanted: float, at_least: int) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            if _tail(at_least, tries, middle) < wanted:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    low = 0.0 if hits == 0 else solve(0.025, hits)
    high = 1.0 if hits == tries else solve(0.975, hits + 1)
    return low, high


def _tail(least: int, tries: int, share: float) -> float:
    """Return the probability of so many hits or more."""
    if share <= 0 or share >= 1:
        return float(share >= 1)
    logs = (
        math.lgamma(tries + 1)
        - math.lgamma(k + 1)
        - math.lgamma(tries - k + 1)
        + k * math.log(share)
        + (tries - k) * math.log1p(-share)
        for k in range(least)
    )
    return 1 - sum(math.exp(one) for one in logs)


def shown(counts: Counts) -> dict[str, object]:
    """Return the counts as shares with intervals."""
    faults = {
        key: {
            "planted": planted,
            "right part": counts.right_part[key] / planted,
            **{rule: _share(counts.found[rule][key], planted) for rule in RULES},
        }
        for key, planted in sorted(counts.planted.items())
    }
    planted = sum(counts.planted.values())
    every = {rule: _share(sum(counts.found[rule].values()), planted) for rule in RULES}
    blamed = {rule: _share(counts.blamed[rule], counts.sound) for rule in RULES}
    return {
        "sound nodes": counts.sound,
        "blamed": blamed,
        "why": dict(counts.reasons),
        "planted": planted,
        "found": every,
        "faults": faults,
        "seconds of a fleet's analysis": counts.seconds,
    }


def _share(hits: int, tries: int) -> dict[str, object]:
    low, high = interval(hits, tries)
    return {"count": hits, "share": hits / tries, "low": low, "high": high}


def main() -> None:
    """Make up fleets until there are as many nodes as wanted of each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=30_000, help="of all sizes together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    each = wanted.nodes / len(SIZES)
    jobs = [
        (size, wanted.seed * 100_000 + n) for size in SIZES for n in range(math.ceil(each / size))
    ]
    counts, by_size = Counts(), {size: Counts() for size in SIZES}
    with ProcessPoolExecutor() as pool:
        for (size, _), one in zip(
            jobs, pool.map(one_fleet, *zip(*jobs, strict=True), chunksize=4), strict=True
        ):
            counts.add(one)
            by_size[size].add(one)
    found = {"all": shown(counts), **{str(size): shown(one) for size, one in by_size.items()}}
    text = json.dumps(found, indent=1)
    if wanted.out:
        wanted.out.write_text(text + "\n")
    json.dump(found["all"], sys.stdout, indent=1)


if __name__ == "__main__":
    main()
