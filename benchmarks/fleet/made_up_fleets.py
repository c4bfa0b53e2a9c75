"""Makes up fleets of nodes with eight H200s: sound ones, and some with a planted fault.

How far sound machines lie apart is taken from stored runs, path by path: from machine to machine,
from GPU to GPU of a machine, and from run to run of a GPU (``spreads``). Deviations are drawn with
the tails of Student's t of 5 degrees, which are heavier than normal ones. Of the network between
nodes no run of such machines is stored: pairs differ by 1 %, nodes by 0.5 %, and one exchange in
fifty is disturbed and loses 8 to 38 %, as on two busy cores.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import numpy as np

from lanescope.fleet.exchange import PairRate
from lanescope.results import Status
from lanescope.store.store import read_run
from lanescope.studies.node_report import NodeReport, NodeState, Part, Rate

RESULTS = Path(__file__).resolve().parents[1] / "results"
MACHINES = tuple(f"h200-x2/nvbandwidth{name}" for name in ("", "-second", "-third", "-fourth"))
CHECKS = ("h200-x1/check", "h200-x2/check", "h100-x2/check")
GPUS = 8
#: A kind of path of a node, and the case of nvbandwidth that is the same copy.
CASES = {
    "h2d": "host_to_device_memcpy_ce",
    "d2h": "device_to_host_memcpy_ce",
    "both-down": "host_to_device_bidirectional_memcpy_ce",
    "both-up": "device_to_host_bidirectional_memcpy_ce",
    "d2d": "device_to_device_memcpy_write_ce",
    "d2d-both": "device_to_device_bidirectional_memcpy_write_ce",
    "all-down": "host_to_all_memcpy_ce",
    "all-up": "all_to_host_memcpy_ce",
    "all-both-down": "host_to_all_bidirectional_memcpy_ce",
    "all-both-up": "all_to_host_bidirectional_memcpy_ce",
}
#: Paths of the host's memory, which the stored checks have.
OF_HOST = ("host-copy/h0/1-core", "host-copy/h0/all-cores")
OF_HOST += ("host-triad/h0/1-core", "host-triad/h0/all-cores")
DEGREES = 5
NETWORK_GBS, PAIR_SIGMA, NODE_SIGMA = 24.0, 0.01, 0.005
DISTURBED, LOSS = 0.02, (0.08, 0.38)


@dataclass(frozen=True, slots=True)
class Spread:
    """A path's median over the stored machines, and standard deviations as shares."""

    gbs: float
    machine: float
    gpu: float
    run: float


class Fault(StrEnum):
    """What is planted."""

    SLOW_GPU = "slow GPU"
    """All paths of one GPU."""
    TRAINED_DOWN = "trained-down link"
    """One GPU's link to the host has half its lanes; the configuration shows it, too."""
    SLOW_NIC = "slow NIC"
    SLOW_UPLINK = "slow rack uplink"
    WRONG_DRIVER = "wrong driver"
    NOISY = "noisy neighbour"
    """Another job takes bandwidth of the host's memory: all paths of the host."""


#: Faults of nodes; an uplink is a rack's.
OF_NODES = tuple(fault for fault in Fault if fault is not Fault.SLOW_UPLINK)


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault, at a node (or a rack), how much it takes, and which GPU it is of."""

    fault: Fault
    where: str
    loss: float
    gpu: int | None = None


@cache
def spreads() -> dict[str, Spread]:
    """Return the spread of each kind of path over the stored runs."""
    found = {kind: _spread([_cells(m, case) for m in MACHINES]) for kind, case in CASES.items()}
    runs = [read_run(RESULTS / name) for name in CHECKS]
    for name in OF_HOST:
        values = [
            [[copy.gbs or 0.0 for copy in result.copies]]
            for run in runs
            for result in run.results
            if result.experiment.name == name
        ]
        found[name] = _spread(values)
    return found


def _cells(machine: str, case: str) -> list[list[float]]:
    """Return what each cell of a case was in each turn on a machine."""
    with (RESULTS / machine / "cells.csv").open() as file:
        wanted = [
            (row["row"], row["column"]) for row in csv.DictReader(file) if row["case"] == case
        ]
    turns = sorted((RESULTS / machine).glob("lanescope-*.json"))
    by_cell = defaultdict(list)
    for turn in turns:
        report = json.loads(turn.read_text())["nvbandwidth"]["testcases"]
        for one in report:
            if one["name"] == case:
                for row, column in wanted:
                    by_cell[row, column] += _number(one["bandwidth_matrix"], int(row), int(column))
    return [values for values in by_cell.values() if values]


def _number(matrix: Sequence[Sequence[str]], row: int, column: int) -> list[float]:
    """Return a cell's number in a list; rows past the GPUs are sums and repetitions."""
    if row >= len(matrix[0]) or matrix[row][column] == "N/A":
        return []
    return [float(matrix[row][column])]


def _spread(machines: Sequence[Sequence[Sequence[float]]]) -> Spread:
    of_gpus = [[float(np.median(values)) for values in machine] for machine in machines]
    of_machines = [float(np.median(values)) for values in of_gpus]
    middle = float(np.median(of_machines))
    gpus = [v / m - 1 for gpu, m in zip(of_gpus, of_machines, strict=True) for v in gpu]
    runs = [
        value / np.median(values) - 1
        for machine in machines
        for values in machine
        for value in values
    ]
    sigma = float(np.std([value / middle - 1 for value in of_machines], ddof=1))
    return Spread(middle, sigma, float(np.std(gpus)), float(np.std(runs)))


def _draw(random: np.random.Generator, sigma: float) -> float:
    scale = np.sqrt((DEGREES - 2) / DEGREES)  # to a standard deviation of 1
    return float(np.clip(sigma * scale * random.standard_t(DEGREES), -0.9, 0.9))


def paths() -> Iterator[tuple[str, str, str, str]]:
    """Yield experiment, source, destination and kind of every rate of a node."""
    gpus = [f"g{number}" for number in range(GPUS)]
    for gpu in gpus:
        yield f"h2d/{gpu}", "h0", gpu, "h2d"
        yield f"d2h/{gpu}", gpu, "h0", "d2h"
        yield f"h2d+d2h/{gpu}", "h0", gpu, "both-down"
        yield f"h2d+d2h/{gpu}", gpu, "h0", "both-up"
        yield "all to GPUs", "h0", gpu, "all-down"
        yield "all from GPUs", gpu, "h0", "all-up"
        yield "all both", "h0", gpu, "all-both-down"
        yield "all both", gpu, "h0", "all-both-up"
        for other in gpus:
            if other != gpu:
                yield f"d2d/{gpu}-{other}", gpu, other, "d2d"
                yield f"d2d-both/{min(gpu, other)}-{max(gpu, other)}", gpu, other, "d2d-both"
    for name in OF_HOST:
        yield name, "h0", "h0", name


def node(host: str, random: np.random.Generator, planted: Planted | None = None) -> NodeReport:
    """Return the report of a node, sound or with a fault."""
    known = spreads()
    of_machine = {kind: 1 + _draw(random, spread.machine) for kind, spread in known.items()}
    of_gpu = {
        (kind, gpu): 1 + _draw(random, spread.gpu)
        for kind, spread in known.items()
        for gpu in range(GPUS)
    }
    rates = []
    for experiment, source, destination, kind in paths():
        spread = known[kind]
        gpu = next((int(end[1:]) for end in (source, destination) if end[0] == "g"), 0)
        gbs = spread.gbs * of_machine[kind] * of_gpu[kind, gpu] * (1 + _draw(random, spread.run))
        gbs *= _left(planted, source, destination)
        path = f"{source} → {destination}"
        head = (experiment, path, source, destination)
        rates.append(Rate(*head, gbs, 0.001, None, Status.UNJUDGED, "made up"))
    return NodeReport(
        1,
        "0.3.0",
        host,
        NodeState.HEALTHY,
        0,
        "made up",
        "2026-11-24T08:00:00+00:00",
        20.0,
        "full",
        _configuration(planted),
        tuple(
            Part(f"g{n}", "NVIDIA H200", f"GPU-{host}-{n}", f"0000:{n + 1}a:00.0")
            for n in range(GPUS)
        ),
        (),
        tuple(rates),
        None,
    )


def _left(planted: Planted | None, source: str, destination: str) -> float:
    """Return the share of a path's rate that a fault leaves."""
    if planted is None:
        return 1.0
    of_gpu = f"g{planted.gpu}" in (source, destination)
    with_host = "h0" in (source, destination)
    hit = {
        Fault.SLOW_GPU: of_gpu,
        Fault.TRAINED_DOWN: of_gpu and with_host,
        Fault.NOISY: with_host,
    }.get(planted.fault, False)
    return 1 - planted.loss if hit else 1.0


def _configuration(planted: Planted | None) -> dict[str, str]:
    found = {"CPU": "made up", "kernel": "6.8", "driver": "580.159.04"}
    for number in range(GPUS):
        found[f"g{number} model"] = "NVIDIA H200"
        found[f"link h0-g{number}"] = "PCIe 5.0 x16, payload 256 B"
    if planted and planted.fault is Fault.WRONG_DRIVER:
        found["driver"] = "570.133.20"
    if planted and planted.fault is Fault.TRAINED_DOWN:
        found[f"link h0-g{planted.gpu}"] = "PCIe 5.0 x8, payload 256 B"
    return found


def plant(hosts: Sequence[str], fault: Fault, loss: float, random: np.random.Generator) -> Planted:
    """Return a fault at one of some hosts, or racks."""
    if fault is Fault.TRAINED_DOWN:
        loss = 0.5
    gpu = int(random.integers(GPUS)) if fault in (Fault.SLOW_GPU, Fault.TRAINED_DOWN) else None
    return Planted(fault, str(random.choice(list(hosts))), loss, gpu)


class Network:
    """Exchanges of pairs: what a try of two nodes carries."""

    def __init__(
        self,
        hosts: Sequence[str],
        racks: Sequence[str],
        planted: Sequence[Planted],
        random: np.random.Generator,
    ) -> None:
        self._random = random
        self._racks = dict(zip(hosts, racks, strict=True))
        self._nodes = {host: 1 + _draw(random, NODE_SIGMA) for host in hosts}
        self._nics = {p.where: 1 - p.loss for p in planted if p.fault is Fault.SLOW_NIC}
        self._uplinks = {p.where: 1 - p.loss for p in planted if p.fault is Fault.SLOW_UPLINK}

    def tried(self, first: str, second: str) -> PairRate:
        """Return one try of a pair."""
        nodes = [
            min(self._nodes[host], 1.0) * self._nics.get(host, 1.0) for host in (first, second)
        ]
        racks = [self._racks[host] for host in (first, second)]
        uplinks = [self._uplinks.get(rack, 1.0) for rack in racks] if len(set(racks)) > 1 else []
        share = min([*nodes, *uplinks]) * (1 + _draw(self._random, PAIR_SIGMA))
        if self._random.random() < DISTURBED:
            share *= 1 - self._random.uniform(*LOSS)
        return PairRate(first, second, NETWORK_GBS * share, 1 << 20, ())


if __name__ == "__main__":
    for kind, spread in spreads().items():
        shares = (spread.machine, spread.gpu, spread.run)
        machine, gpu, run = (f"{100 * share:6.2f} %" for share in shares)
        print(f"{kind:24} {spread.gbs:8.2f} GB/s  machines {machine}  GPUs {gpu}  runs {run}")
