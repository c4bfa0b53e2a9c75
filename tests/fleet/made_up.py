"""Reports of nodes that nobody has measured: sound ones, and some with a planted fault."""

from __future__ import annotations

import dataclasses
import functools
import json
from dataclasses import replace

import numpy as np

from lanescope.machine import Machine
from lanescope.studies.node_report import CheckContext, NodeReport, report_of_run
from tests.report import factory


@functools.cache
def sound() -> NodeReport:
    """A node with eight GPUs, all of whose paths are healthy."""
    machine: Machine = factory.eight_gpus()
    gpus = tuple(
        replace(gpu, uuid=f"GPU-{gpu.index}", pci_address=f"0000:{gpu.index}a:00.0", vbios="96.00")
        for gpu in machine.gpus
    )
    nodes = tuple(replace(node, memory_gbs=None) for node in machine.nodes)
    machine = replace(machine, gpus=gpus, nodes=nodes, driver="580.159.04")
    about = CheckContext("0.3.0", "n0", "2026-11-20T14:03:11+01:00", 12.5, "full")
    return report_of_run(factory.check_run(machine), about)


def node(host: str, spread: float = 0.0, seed: int = 0, **slow: float) -> NodeReport:
    """A sound node by another name; every rate varies, and those of a slow GPU are a part of it.

    Parameters
    ----------
    spread
        Standard deviation of rates from node to node, as a share.
    slow
        Rates of a GPU's copies, as a share of what they should be, such as ``g3=0.9``.
    """
    random = np.random.default_rng([seed, sum(map(ord, host)), len(host)])
    rates = []
    for rate in sound().rates:
        factor = 1 + spread * random.standard_normal()
        for part, share in slow.items():
            factor *= share if part in (rate.source, rate.destination) else 1
        rates.append(replace(rate, gbs=None if rate.gbs is None else rate.gbs * factor))
    return replace(sound(), host=host, rates=tuple(rates))


def fleet(count: int, spread: float = 0.0, seed: int = 0) -> list[NodeReport]:
    """Return many sound nodes."""
    return [node(f"n{number:04}", spread, seed + number) for number in range(count)]


if __name__ == "__main__":
    print(json.dumps(dataclasses.asdict(sound())))
