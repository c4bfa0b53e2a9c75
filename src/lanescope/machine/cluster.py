"""Several nodes as one machine, for copies between GPUs of different nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lanescope.machine.links import NVSWITCH
from lanescope.machine.machine import Gpu, HostBandwidth, Link, Machine, NumaNode, Switch
from lanescope.machine.part_names import node_of, number_on

#: So many nodes are named, of more the first and the last.
_NAMED = 4


def cluster_of(machines: Sequence[Machine]) -> Machine:
    """Return one machine of several, whose parts are named ``n0.h0``, ``n0.g0``, ``n1.h0``, ...

    GPUs of different nodes reach each other where they are in one NVLink domain: then the NVLink
    switches of these nodes are one. RDMA NICs are left out.
    """
    domains = {g.nvlink_domain: None for m in machines for g in m.gpus if g.nvlink_domain}
    switches = {domain: f"{NVSWITCH}{number}" for number, domain in enumerate(domains)}
    parts = [_Renamed(number, machine, switches) for number, machine in enumerate(machines)]
    gpus = [gpu for part in parts for gpu in part.gpus()]
    names = [machine.name for machine in machines]
    listed = names if len(names) <= _NAMED else [names[0], "...", names[-1]]
    return Machine(
        name=f"{len(names)} nodes: {', '.join(listed)}" if len(names) > 1 else names[0],
        cpu=_common([machine.cpu for machine in machines]),
        nodes=tuple(node for part in parts for node in part.nodes()),
        gpus=tuple(replace(gpu, peers=_peers(gpu, gpus)) for gpu in gpus),
        switches=tuple(dict.fromkeys(one for part in parts for one in part.switches())),
        links=tuple(link for part in parts for link in part.links()),
        driver=_common([machine.driver for machine in machines]),
        cuda_version=_common([machine.cuda_version for machine in machines]),
        confidential=any(machine.confidential for machine in machines),
        host_bandwidth=tuple(one for part in parts for one in part.host_bandwidth()),
        notes=(
            "; ".join(f"n{number} is {name}" for number, name in enumerate(names)) + ".",
            *(f"n{k}: {note}" for k, machine in enumerate(machines) for note in machine.notes),
        ),
    )


class _Renamed:
    """One of the machines, its parts as they are called among all."""

    def __init__(self, number: int, machine: Machine, switches: dict[str, str]) -> None:
        self._number, self._machine = number, machine
        domain = next((g.nvlink_domain for g in machine.gpus if g.nvlink_domain), None)
        self._nvswitch = None if domain is None else switches[domain]

    def nodes(self) -> list[NumaNode]:
        return [replace(one, index=self._of(one.index)) for one in self._machine.nodes]

    def gpus(self) -> list[Gpu]:
        return [
            replace(
                gpu,
                index=self._of(gpu.index),
                node=None if gpu.node is None else self._of(gpu.node),
                peers=None if gpu.peers is None else tuple(map(self._of, gpu.peers)),
            )
            for gpu in self._machine.gpus
        ]

    def switches(self) -> list[Switch]:
        return [replace(one, id=self._name(one.id)) for one in self._machine.switches]

    def links(self) -> list[Link]:
        return [
            replace(link, a=self._name(link.a), b=self._name(link.b))
            for link in self._machine.links
        ]

    def host_bandwidth(self) -> list[HostBandwidth]:
        return [
            replace(one, node=self._of(one.node), gpus=tuple(map(self._of, one.gpus)))
            for one in self._machine.host_bandwidth
        ]

    def _of(self, own: int) -> int:
        return number_on(self._number, own)

    def _name(self, part: str) -> str:
        if part == NVSWITCH and self._nvswitch is not None:
            return self._nvswitch
        return f"n{self._number}.{part}"


def _peers(gpu: Gpu, gpus: Sequence[Gpu]) -> tuple[int, ...]:
    """Return what a GPU reaches: its own node's peers, and those of other nodes in its domain."""
    own = [other.index for other in gpus if node_of(other.id) == node_of(gpu.id)]
    reached = set(own if gpu.peers is None else gpu.peers)  # unknown counts as yes
    if gpu.nvlink_domain is not None:
        reached |= {other.index for other in gpus if other.nvlink_domain == gpu.nvlink_domain}
    return tuple(sorted(reached - {gpu.index}))


def _common(values: Sequence[str | None]) -> str | None:
    """Return what all nodes have; of several the values, each once."""
    known = dict.fromkeys(value for value in values if value is not None)
    return " and ".join(known) or None
