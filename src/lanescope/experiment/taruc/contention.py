"""Contention: many threads at one memory, between sockets, and copies that share PCIe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lanescope.experiment.taruc import axes
from lanescope.experiment.taruc.axes import EVERYTHING, Only
from lanescope.experiment.taruc.contention_memory import memory_points, socket_points
from lanescope.experiment.taruc.contention_pcie import pcie_points
from lanescope.experiment.taruc.parameters import Parameters
from lanescope.experiment.taruc.room import Planned, fitting, memory_of
from lanescope.machine import Machine, NumaNode

PREFIX = "contention"


def contention_experiments(
    machine: Machine,
    parameters: Parameters,
    only: Only = EVERYTHING,
    free_bytes: Mapping[str, int] | None = None,
) -> Planned:
    """Return sets of copies: memory channels, links between sockets, PCIe links."""
    nodes = axes.memory_nodes(machine, only)
    gpus = axes.gpus_of(machine, parameters, only)
    free = free_bytes or memory_of(machine)
    section = parameters.contention
    parts = [
        fitting(memory_points(nodes, section), free, f"{PREFIX}/memory"),
        fitting(socket_points(nodes, section), free, f"{PREFIX}/sockets"),
        fitting(pcie_points(machine, nodes, gpus, section), free, f"{PREFIX}/pcie"),
    ]
    return Planned(
        tuple(e for part in parts for e in part.experiments),
        _notes(nodes) + tuple(note for part in parts for note in part.notes),
    )


def _notes(nodes: Iterable[NumaNode]) -> tuple[str, ...]:
    return tuple(
        f"{PREFIX}: {node.id} has memory but no core that may be used: no thread runs there."
        for node in nodes
        if not node.cores
    )
