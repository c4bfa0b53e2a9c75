"""Copies between host and GPUs that share PCIe links and host memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from lanescope.experiment.access import Access
from lanescope.experiment.copy import Copy, Engine
from lanescope.experiment.experiment import Experiment, Purpose
from lanescope.experiment.place import Memory, Place
from lanescope.experiment.taruc.axes import joined
from lanescope.experiment.taruc.parameters import Contention
from lanescope.machine import Gpu, Machine, NumaNode

MOST_STREAMS = 4
_WAYS = {"h2d": (True,), "d2h": (False,), "both": (True, False)}


def pcie_points(
    machine: Machine, nodes: Sequence[NumaNode], gpus: Sequence[Gpu], section: Contention
) -> Iterator[Experiment]:
    """Return each GPU, each pair, all: near and far memory, each way and both, 1 to 4 streams.

    A copy for each stream; both ways have so many streams each.
    """
    for together in _sets(gpus):
        for where, homes in _homes(machine, nodes, together).items():
            for way, directions in _WAYS.items():
                for streams in range(1, MOST_STREAMS + 1):
                    copies = tuple(
                        _copy(home, gpu, down, section.pcie_bytes)
                        for gpu, home in zip(together, homes, strict=True)
                        for down in directions
                        for _ in range(streams)
                    )
                    names = joined(gpu.id for gpu in together)
                    yield Experiment(
                        f"contention/pcie/{names}/{way}/{where}/{streams}",
                        f"{names}, {way}, {where} memory, {streams} to each",
                        copies,
                        purpose=Purpose.CONTENTION,
                    )


def _sets(gpus: Sequence[Gpu]) -> tuple[tuple[Gpu, ...], ...]:
    every = [tuple(gpus)] if gpus else []
    alone = [(gpu,) for gpu in gpus]
    return tuple(dict.fromkeys([*alone, *itertools.combinations(gpus, 2), *every]))


def _homes(
    machine: Machine, nodes: Sequence[NumaNode], gpus: Sequence[Gpu]
) -> dict[str, list[NumaNode]]:
    """Return where the host memory lies, for each GPU: near, far, or all on one node.

    Of two nodes, far is the other one of each GPU. Of more, each has its own name.
    """
    if not nodes:
        return {}
    near = [home if (home := machine.nearest_node(gpu)) in nodes else nodes[0] for gpu in gpus]
    homes = {"near": near}
    if len(nodes) == 2:
        homes["far"] = [nodes[1] if home is nodes[0] else nodes[0] for home in near]
    elif len(nodes) > 2:
        homes |= {node.id: [node] * len(gpus) for node in nodes if {node.index} != _indices(near)}
    return homes


def _indices(nodes: Sequence[NumaNode]) -> set[int]:
    return {node.index for node in nodes}


def _copy(node: NumaNode, gpu: Gpu, down: bool, size: int) -> Copy:
    host, device = Place(node.id, Memory.PINNED), Place(gpu.id, Memory.DEVICE)
    source, destination = (host, device) if down else (device, host)
    # a walk of one block: so its clock is calibrated like that of the other points
    return Copy(source, destination, size, Engine.CE, access=Access(span_bytes=size))
