"""Links and memories that several GPUs of one machine share, and how they share them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from lanescope.copies.copy import Copy, Engine
from lanescope.copies.limit import capacities, usage
from lanescope.copies.place import Memory, Place
from lanescope.machine import Machine
from lanescope.machine.flow import max_min_fair
from lanescope.prediction.parameters import Direction
from lanescope.units.bandwidth import bytes_a_second


@dataclass(frozen=True, slots=True)
class SharedLinks:
    """What transfers of several GPUs compete for.

    Attributes
    ----------
    capacity
        Bytes a second that each resource carries: a link in one direction, in bytes on the wire,
        or a node's memory.
    uses
        For each GPU and direction what one byte of payload takes from each resource.
    """

    capacity: Mapping[Hashable, float]
    uses: Mapping[tuple[int, Direction], Mapping[Hashable, float]]

    def __post_init__(self) -> None:
        if not all(amount > 0 for amount in self.capacity.values()):
            raise ValueError("a shared link carries more than 0 bytes a second")


def shared_links(machine: Machine, nodes: Mapping[int, int] | None = None) -> SharedLinks:
    """Return what the GPUs of a machine share on their ways to host memory.

    Parameters
    ----------
    nodes
        For each GPU the NUMA node of the host memory that it copies from and to. By default all
        GPUs with their nearest one; GPUs that do not tell theirs, with the first.

    Notes
    -----
    A resource that one GPU alone uses is left out: its own parameters tell what it carries. A
    resource whose speed is not known is left out, too, and taken for endless.
    """
    if nodes is None:
        first = machine.nodes[0].index
        nodes = {g.index: first if g.node is None else g.node for g in machine.gpus}
    uses: dict[tuple[int, Direction], Mapping[Hashable, float]] = {}
    users: dict[Hashable, set[int]] = {}
    for gpu, node in nodes.items():
        for direction in Direction:
            taken = _taken(machine, gpu, node, direction)
            uses[gpu, direction] = taken
            for resource in taken:
                users.setdefault(resource, set()).add(gpu)
    known = capacities(machine)
    capacity = {
        resource: bytes_a_second(known[resource])
        for resource, by in users.items()
        if len(by) > 1 and resource in known
    }
    return SharedLinks(capacity, uses)


def share(links: SharedLinks, wanted: Sequence[tuple[int, Direction, float]]) -> list[float]:
    """Return the bytes a second that each transfer gets, of those that it could take.

    Max-min fair: where a resource is full, those through it get the same, unless they want less.
    """
    load: dict[Hashable, float] = {}
    for gpu, direction, rate in wanted:
        for resource, amount in links.uses.get((gpu, direction), {}).items():
            load[resource] = load.get(resource, 0.0) + amount * rate
    if all(links.capacity.get(resource, amount) >= amount for resource, amount in load.items()):
        return [rate for _, _, rate in wanted]
    flows: list[Mapping[Hashable, float]] = []
    capacity: dict[Hashable, float] = dict(links.capacity)
    for i, (gpu, direction, rate) in enumerate(wanted):
        own = ("what it could take", i)
        capacity[own] = rate
        flows.append({own: 1.0, **links.uses.get((gpu, direction), {})})
    shares = max_min_fair(flows, capacity)
    return [
        rate if got.rate is None else min(rate, got.rate)
        for (_, _, rate), got in zip(wanted, shares, strict=True)
    ]


def _taken(machine: Machine, gpu: int, node: int, direction: Direction) -> dict[Hashable, float]:
    """What one byte of a copy takes from each resource on its way."""
    host, device = Place(f"h{node}", Memory.PINNED), Place(f"g{gpu}", Memory.DEVICE)
    ends = (host, device) if direction is Direction.H2D else (device, host)
    copy = Copy(*ends, 1 << 28, Engine.CE)
    return usage(machine, copy)
