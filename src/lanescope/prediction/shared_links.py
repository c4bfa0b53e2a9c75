"""Links and memories that several GPUs of one machine share, and how they share them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lanescope.copies.copy import Copy, Engine
from lanescope.copies.limit import (
    capacities,
    contended,
    contended_room,
    contention_weight,
    usage,
)
from lanescope.copies.place import Memory, Place
from lanescope.machine import Machine
from lanescope.machine.flow import Capacity, max_min_fair, share_by_weight
from lanescope.machine.part_names import part_name
from lanescope.prediction.parameters import Direction
from lanescope.units.bandwidth import bytes_a_second

#: Of a copy that no cache of the host answers.
COPY_BYTES = 256 << 20


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
    contended
        Bytes a second that GPUs together read and write of host memory, where that was measured.
    weights
        Of copies to the host, by GPU: the bytes that each moves while another one reads one byte,
        where both wait for what is contended. 1 where nothing is said.
    spread
        By which share the rates of `contended` may be off.
    """

    capacity: Mapping[Hashable, float]
    uses: Mapping[tuple[int, Direction], Mapping[Hashable, float]]
    contended: Mapping[Hashable, Capacity] = field(default_factory=dict)
    weights: Mapping[int, float] = field(default_factory=dict)
    spread: float = 0.0

    def __post_init__(self) -> None:
        contended = (one.rate for one in self.contended.values())
        if not all(amount > 0 for amount in (*self.capacity.values(), *contended)):
            raise ValueError("a shared link carries more than 0 bytes a second")

    def with_contended(self, factor: float) -> SharedLinks:
        """Return the same where so many times as many bytes a second are contended for."""
        more = {key: replace(one, rate=one.rate * factor) for key, one in self.contended.items()}
        return replace(self, contended=more)


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
    shared = [resource for resource, by in users.items() if len(by) > 1]
    return SharedLinks(
        _known(capacities(machine), shared),
        uses,
        {
            resource: replace(one, rate=bytes_a_second(one.rate))
            for resource, one in contended(machine).items()
            if resource in shared
        },
        {
            gpu: contention_weight(machine, host_copy(gpu, node, Direction.D2H))
            for gpu, node in nodes.items()
        },
        max((one.spread for one in machine.host_bandwidth), default=0.0),
    )


def _known(gbs: Mapping[Hashable, float], shared: Sequence[Hashable]) -> dict[Hashable, float]:
    return {resource: bytes_a_second(gbs[resource]) for resource in shared if resource in gbs}


def share(links: SharedLinks, wanted: Sequence[tuple[int, Direction, float]]) -> list[float]:
    """Return the bytes a second that each transfer gets, of those that it could take.

    Max-min fair: where a resource is full, those through it get the same, unless they want less;
    of what is contended for in host memory, copies to the host get `SharedLinks.weights` times as
    much.
    """
    flows = [links.uses.get((gpu, direction), {}) for gpu, direction, _ in wanted]
    several = len({gpu for gpu, _, _ in wanted}) > 1
    load: dict[Hashable, float] = {}
    for flow, (_, _, rate) in zip(flows, wanted, strict=True):
        for resource, amount in flow.items():
            load[resource] = load.get(resource, 0.0) + amount * rate
    fits = all(links.capacity.get(resource, used) >= used for resource, used in load.items())
    if fits and not (several and links.contended):
        return [rate for _, _, rate in wanted]
    limited = [{("own", i): 1.0, **flow} for i, flow in enumerate(flows)]
    own: dict[Hashable, float] = {("own", i): rate for i, (_, _, rate) in enumerate(wanted)}
    shares = max_min_fair(limited, {**links.capacity, **own})
    weights = [
        links.weights.get(gpu, 1.0) if direction is Direction.D2H else 1.0
        for gpu, direction, _ in wanted
    ]
    gpus = [[gpu] for gpu, _, _ in wanted]
    room = contended_room(links.contended, flows, shares, weights, gpus)
    shares = share_by_weight(flows, shares, room, weights)
    return [
        rate if got.rate is None else min(rate, got.rate)
        for (_, _, rate), got in zip(wanted, shares, strict=True)
    ]


def _taken(machine: Machine, gpu: int, node: int, direction: Direction) -> dict[Hashable, float]:
    """What one byte of a copy takes from each resource on its way."""
    return usage(machine, host_copy(gpu, node, direction))


def host_copy(gpu: int, node: int, direction: Direction) -> Copy:
    """Return a copy between a node's pinned memory and a GPU, by copy engine."""
    host = Place(part_name("h", node), Memory.PINNED)
    device = Place(part_name("g", gpu), Memory.DEVICE)
    ends = (host, device) if direction is Direction.H2D else (device, host)
    return Copy(*ends, COPY_BYTES, Engine.CE)
