"""The ceiling of an experiment: max-min fair flow over the machine's links.

All rates grow together until a resource is full; the flows through it stop growing, the others go
on (progressive filling; Bertsekas and Gallager, Data Networks, section 6.5.2). A flow is not held
up by a resource of which its usage is minor, as that of the requests of reads is of the other
direction of a link; the others have that much less.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, isclose, log2

from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import Experiment
from lanescope.copies.patterns import reach_each_other
from lanescope.copies.terms import ARRAYS, Route
from lanescope.machine import HostBandwidth, Link, LinkKind, Machine, NvLink
from lanescope.machine.part_names import is_gpu, node_of, part_name, part_number
from lanescope.machine.pcie import (
    CACHE_LINE_BYTES,
    DEFAULT_MAX_PAYLOAD_BYTES,
    PcieLink,
    downstream_wire_factor,
    for_kernels,
    payload_gbs,
    request_wire_factor,
    upstream_wire_factor,
)

#: What GPUs do with a node's memory together.
_READ, _WRITE, _BOTH = "read", "write", "both"
Hop = tuple[Link, bool]  # the link, and whether it is crossed from a to b
#: Usage is minor where another flow takes so many times as much of the resource for the same rate,
#: and the flow itself of another resource.
_MINOR = 10
#: What minor usage leaves to the others is found by passes, until rates change by this share.
_SETTLED, _MOST_PASSES = 1e-9, 50


@dataclass(frozen=True, slots=True)
class Limit:
    """The ceiling of one copy.

    Attributes
    ----------
    gbs
        Counted bytes a second in GB/s; None when no limit is known.
    reason
        What sets it, or why none is known; a phrase.
    kind
        Kind of the link that sets it, ``memory`` for a node's memory, ``gpu memory``; None when
        a link on the way has no known speed, so that the true ceiling may be
        lower.
    unknown
        What else may set the ceiling, with a speed that nobody knows; a phrase.
    """

    gbs: float | None
    reason: str
    kind: LinkKind | str | None = None
    unknown: str | None = None


def limits(machine: Machine, experiment: Experiment) -> tuple[Limit, ...]:
    """Return the ceiling of each copy of an experiment when all run at once."""
    machine = _without_measured(machine)
    flows = [usage(machine, copy) for copy in experiment.copies]
    weights = [contention_weight(machine, copy) for copy in experiment.copies]
    shares = max_min_fair(flows, capacities(machine))
    gpus = [
        [end.part for end in (copy.source, copy.destination) if is_gpu(end.part)]
        for copy in experiment.copies
    ]
    room = contended_room(_contended_at_most(machine), flows, shares, weights, gpus)
    shares = share_by_weight(flows, shares, room, weights)
    found = (
        _limit(machine, copy, share, sum(share.bottleneck in flow for flow in flows))
        for copy, share in zip(experiment.copies, shares, strict=True)
    )
    return tuple(
        replace(limit, unknown=_unknown_memory(machine, experiment, copy))
        for limit, copy in zip(found, experiment.copies, strict=True)
    )


def _without_measured(machine: Machine) -> Machine:
    """Leave out what was measured of memory whose modules tell their speed: that is the limit."""
    kept = [one for one in machine.host_bandwidth if machine.node(one.node).memory_gbs is None]
    if len(kept) == len(machine.host_bandwidth):
        return machine
    return replace(machine, host_bandwidth=tuple(kept))


def missing_field(machine: Machine, copy: Copy) -> str:
    """Return what a machine file must say for a copy to have a limit, in a sentence."""
    source, destination = copy.source.part, copy.destination.part
    path = route(machine, source, destination)
    if path is None:
        return (
            f"Describe the links between {source} and {destination} in the machine file: topo "
            "--save writes one."
        )
    if not path:
        table = "nodes" if copy.source.is_host else "gpus"
        return f"Give memory_gbs of {source} under [[{table}]] in the machine's file."
    return f"Give payload_gbs of the links from {source} to {destination} in the machine's file."


def route(machine: Machine, source: str, destination: str) -> tuple[Hop, ...] | None:
    """Return the hops from one part to another, or None when they are not linked.

    Parts that NVLink connects use it; everything else goes the shortest way over PCIe and socket
    links, and over NVLink between a host and a GPU where there is no other.
    """
    if source == destination:
        return ()
    kinds: tuple[set[LinkKind], ...] = (
        {LinkKind.NVLINK},
        {LinkKind.PCIE, LinkKind.SOCKET},
        set(LinkKind),
    )
    ways = (_shortest(machine, source, destination, kind) for kind in kinds)
    return next((way for way in ways if way is not None), None)


def staging_node(machine: Machine, copy: Copy) -> str | None:
    """Return the node whose memory the driver takes a copy between GPUs through.

    None for a copy that goes straight. Which node it is, the driver does not tell: the one
    next to the source is assumed.
    """
    ends = (copy.source, copy.destination)
    if copy.engine is not Engine.CE or ends[0].part == ends[1].part or any(p.is_host for p in ends):
        return None
    if node_of(ends[0].part) != node_of(ends[1].part):
        return None  # no driver brings it to another node
    source, destination = (machine.gpu(place.index) for place in ends)
    if copy.route is not Route.STAGED and reach_each_other(source, destination):
        return None
    return machine.nearest_node(source).id


def hops(machine: Machine, copy: Copy) -> tuple[Hop, ...] | None:
    """Return the hops of a copy, staged or not; None when its ends are not linked."""
    source, destination = copy.source.part, copy.destination.part
    node = staging_node(machine, copy)
    if node is None:
        return route(machine, source, destination)
    to_node, from_node = route(machine, source, node), route(machine, node, destination)
    return None if to_node is None or from_node is None else (*to_node, *from_node)


def _shortest(
    machine: Machine, source: str, destination: str, kinds: set[LinkKind]
) -> tuple[Hop, ...] | None:
    reached: dict[str, tuple[Hop, ...]] = {source: ()}
    waiting = deque([source])
    while waiting:
        part = waiting.popleft()
        if is_gpu(part) and part != source:
            continue  # a GPU passes nothing on to another
        for link in machine.links:
            if link.kind not in kinds or part not in (link.a, link.b):
                continue
            other = link.b if part == link.a else link.a
            if other not in reached:
                reached[other] = (*reached[part], (link, part == link.a))
                waiting.append(other)
    return reached.get(destination)


def capacities(machine: Machine) -> dict[Hashable, float]:
    """What each link in each direction and each memory carries, in GB/s, where that is known."""
    capacity: dict[Hashable, float] = {}
    for link in machine.links:
        if link.payload_gbs is None:
            continue
        for forward in (True, False):
            capacity[_key(link, forward)] = _wire_gbs(link, forward)
    memories = [(n.id, n.memory_gbs) for n in machine.nodes]
    memories += [(g.id, g.memory_gbs) for g in machine.gpus]
    capacity |= {("memory", part): gbs for part, gbs in memories if gbs is not None}
    return capacity


def _wire_gbs(link: Link, forward: bool) -> float:
    """What a link of known payload carries one way, in the bytes that `usage` counts.

    On PCIe those of the wire where they are known, so that read requests count, too.
    """
    assert link.payload_gbs is not None
    payload = link.payload_gbs[0 if forward else 1]
    if link.pcie is None or link.raw_gbs is None:
        return payload
    if not _is_overridden(link):
        return link.raw_gbs
    factor = downstream_wire_factor if forward else upstream_wire_factor
    return payload * factor(link.pcie.at_best())


def _is_overridden(link: Link) -> bool:
    """Whether somebody said of a PCIe link what it carries, other than what is computed."""
    if link.pcie is None or link.payload_gbs is None:
        return False
    return not all(map(isclose, link.payload_gbs, _payload_gbs_at_best(link.pcie)))


@lru_cache(maxsize=64)  # each experiment asks for all links
def _payload_gbs_at_best(pcie: PcieLink) -> tuple[float, float]:
    return payload_gbs(pcie.at_best())


def contended(machine: Machine) -> dict[Hashable, Capacity]:
    """What GPUs together read and write of each node's memory, in GB/s, where that is known."""
    return {
        _contended(number, kind): Capacity(gbs, one.at_capacity)
        for number, one in enumerate(machine.host_bandwidth)
        for kind, gbs in (
            (_READ, one.read_gbs),
            (_WRITE, one.write_gbs),
            (_BOTH, one.both_gbs),
        )
        if gbs is not None
    }


def _contended_at_most(machine: Machine) -> dict[Hashable, Capacity]:
    """What GPUs contend for as a ceiling: all of it, with its spread, held up by nothing below."""
    most = 1 + max((one.spread for one in machine.host_bandwidth), default=0.0)
    return {key: Capacity(one.rate * most) for key, one in contended(machine).items()}


def contended_room(
    contended: Mapping[Hashable, Capacity],
    flows: Sequence[Mapping[Hashable, float]],
    shares: Sequence[FlowShare],
    weights: Sequence[float],
    gpus: Sequence[Collection[Hashable]],
) -> dict[Hashable, float]:
    """Return what flows that go on at once get of what GPUs contend for.

    Only what several GPUs use holds them up, and reads and writes in sum only where there are
    both.

    Parameters
    ----------
    contended
        See `contended`.
    flows, shares, weights
        As of `share_by_weight`. What flows ask for is their `shares`, or less where something
        holds them up that gives all it has, such as a switch.
    gpus
        Those of each flow.
    """
    used = {
        resource: capacity
        for resource, capacity in contended.items()
        if _is_contended(resource, flows, gpus)
    }
    hard = {resource: one.rate for resource, one in used.items() if one.at_capacity == 1}
    if len(hard) == len(used):
        return hard
    demand = [one.rate for one in share_by_weight(flows, shares, hard, weights)]
    return {
        resource: capacity.throughput(
            sum(
                flow[resource] * (inf if rate is None else rate)
                for flow, rate in zip(flows, demand, strict=True)
                if resource in flow
            )
        )
        for resource, capacity in used.items()
    }


def _is_contended(
    resource: Hashable,
    flows: Sequence[Mapping[Hashable, float]],
    gpus: Sequence[Collection[Hashable]],
) -> bool:
    """Whether several GPUs use it at once; reads and writes together, whether there are both."""
    users = {gpu for flow, own in zip(flows, gpus, strict=True) if resource in flow for gpu in own}
    match resource:
        case (_, int(number), "both"):
            ways = [_contended(number, kind) for kind in (_READ, _WRITE)]
            return len(users) > 1 and all(any(way in flow for flow in flows) for way in ways)
    return len(users) > 1


def contention_weight(machine: Machine, copy: Copy) -> float:
    """Return how many bytes a copy moves for each that a read of host memory does, held up."""
    if not copy.destination.is_host or copy.engine is Engine.CPU:
        return 1.0
    return max((one.write_weight for one, _, _ in _contentions(machine, copy)), default=1.0)


def _contentions(machine: Machine, copy: Copy) -> Iterator[tuple[HostBandwidth, int, str]]:
    """Each measured contention that a copy is part of, its number, and what it does there."""
    if copy.engine is Engine.CPU:
        return
    node = staging_node(machine, copy)
    ends = (copy.source.part, copy.destination.part)
    hops = [ends] if node is None else [(ends[0], node), (node, ends[1])]
    for source, destination in hops:
        if is_gpu(source) == is_gpu(destination):
            continue
        gpu, host = (source, destination) if is_gpu(source) else (destination, source)
        for number, one in enumerate(machine.host_bandwidth):
            if part_number(host) == one.node and part_number(gpu) in one.gpus:
                yield one, number, _WRITE if host == destination else _READ


def _contended(number: int, kind: str) -> Hashable:
    return ("contention", number, kind)


def _key(link: Link, forward: bool) -> Hashable:
    return (link.a, link.b, link.kind, forward)


def usage(machine: Machine, copy: Copy) -> dict[Hashable, float]:
    """What one counted byte of the copy takes from each resource.

    The driver may bring the next part of a staged copy to the host while it takes the last
    one from there: both ways and the memory between are in use at the same time.
    """
    taken: dict[Hashable, float] = {}
    if copy.operation.is_latency or copy.operation is Operation.ALL_REDUCE:
        return taken  # next to nothing, whatever the bytes; or no single copy's

    def take(resource: Hashable, amount: float) -> None:
        taken[resource] = taken.get(resource, 0.0) + amount

    read, written = 1.0, 1.0
    if copy.engine is Engine.CPU:
        arrays = ARRAYS[copy.operation]
        written = 0.0 if copy.operation is Operation.GATHER else 1 / arrays
        read = 1 - written
    if copy.operation.is_one_way:
        read, written = (1.0, 0.0) if copy.operation is Operation.READ else (0.0, 1.0)
    take(("memory", copy.source.part), read)
    take(("memory", copy.destination.part), written)
    if (node := staging_node(machine, copy)) is not None:
        take(("memory", node), 2.0)  # written and read
    for one, number, kind in _contentions(machine, copy):
        take(_contended(number, kind), 1.0)
        take(_contended(number, _BOTH), one.write_cost if kind == _WRITE else 1.0)
    by_kernel = copy.engine in (Engine.SM, Engine.NCCL)
    for link, forward in hops(machine, copy) or ():
        if link.pcie is None or link.raw_gbs is None:
            by_lines = by_kernel and link.nvlink is not None
            line_share = NvLink.PAYLOAD_SHARE / NvLink.LINE_PAYLOAD_SHARE
            # of what threads count, one array at least crosses; with two inputs perhaps both
            share = written if copy.engine is Engine.CPU else 1.0
            take(_key(link, forward), line_share if by_lines else share)
            if by_lines and copy.is_read:
                take(_key(link, not forward), NvLink.PAYLOAD_SHARE * NvLink.LINE_REQUEST_SHARE)
            continue
        best = link.pcie.at_best()
        if by_kernel:
            best = for_kernels(best)
        take(
            _key(link, forward),
            downstream_wire_factor(best) if forward else upstream_wire_factor(best),
        )
        if forward:  # the device reads: its requests go the other way
            take(_key(link, False), request_wire_factor(best))
    return taken


def _limit(
    machine: Machine,
    copy: Copy,
    share: FlowShare,
    users: int,
) -> Limit:
    rate, bottleneck, path = share.rate, share.bottleneck, hops(machine, copy)
    if copy.operation.is_latency:
        return Limit(None, "a latency has no limit")
    if machine.confidential and copy.source.is_host != copy.destination.is_host:
        return Limit(None, "Confidential Computing encrypts what crosses, at an unknown rate")
    if copy.operation is Operation.ALL_REDUCE:
        return Limit(None, "it is no single link's: compare its bus bandwidth with NVLink's")
    if rate is None or path is None:
        return Limit(None, _why_unknown(machine, copy, path))
    if unknown := [link for link, _ in path if link.payload_gbs is None]:
        return Limit(rate, f"no speed is known between {unknown[0].a} and {unknown[0].b}")
    staged = ", staged through host memory" if staging_node(machine, copy) is not None else ""
    if isinstance(bottleneck, tuple) and bottleneck[0] == "contention":
        return _contention_limit(machine.host_bandwidth[bottleneck[1]], bottleneck[2], rate, staged)
    if isinstance(bottleneck, tuple) and bottleneck[0] == "memory":
        limit = _memory_limit(machine, str(bottleneck[1]), rate)
        return replace(limit, reason=limit.reason + staged)
    # Requests fill the other direction of a link, so either will do.
    link = next(hop for hop, _ in path if bottleneck in (_key(hop, True), _key(hop, False)))
    reason = f"{link.best_label} between {link.a} and {link.b}"
    if link.pcie is not None:
        known = link.pcie.max_payload_bytes
        size = known or DEFAULT_MAX_PAYLOAD_BYTES
        given = _is_overridden(link)
        reason += ", by its payload_gbs" if given else ""
        if copy.engine is not Engine.CE and size > CACHE_LINE_BYTES:
            reason += f", {CACHE_LINE_BYTES} B a packet, as kernels make them"
        elif not given:
            reason += f", {size} B a packet{'' if known else ' (assumed)'}"
    elif link.nvlink is not None and copy.engine is not Engine.CE:
        reason += f", {CACHE_LINE_BYTES} B a packet, as kernels make them"
    if users > 1:
        reason += f", shared by {users} copies of this experiment"
    return Limit(rate, reason + staged, link.kind)


def _unknown_memory(machine: Machine, experiment: Experiment, copy: Copy) -> str | None:
    """The node of a copy that several GPUs load at once, if its memory's speed is not known."""
    through = staging_node(machine, copy)
    if through is not None and machine.node(part_number(through)).memory_gbs is None:
        return f"it is staged through the memory of {through}, whose speed is not known"
    for place in (copy.source, copy.destination):
        if not place.is_host or machine.node(place.index).memory_gbs is not None:
            continue
        ends = [(c.source.part, c.destination.part) for c in experiment.copies]
        gpus = {part for parts in ends if place.part in parts for part in parts} - {place.part}
        numbers = {part_number(gpu) for gpu in gpus if is_gpu(gpu)}
        known = any(numbers.issubset(one.gpus) for one in machine.host_bandwidth)
        if len(gpus) > 1 and not known:
            return f"{len(gpus)} GPUs share the memory of {place.part}, whose speed is not known"
    return None


def _contention_limit(one: HostBandwidth, kind: str, rate: float, staged: str) -> Limit:
    what = {_READ: "read it", _WRITE: "write it", _BOTH: "read and write it"}[kind]
    source = one.source or "the machine file"
    return Limit(
        rate,
        f"memory of {part_name('h', one.node)}, as {len(one.gpus)} GPUs {what} at once "
        f"({source}){staged}",
        "memory",
    )


def _memory_limit(machine: Machine, part: str, rate: float) -> Limit:
    if is_gpu(part):
        return Limit(rate, f"memory of {part}: its peak, read and write share it", "gpu memory")
    detail = machine.node(part_number(part)).memory_detail or "peak of its modules"
    return Limit(rate, f"memory of {part}: {detail}", "memory")


def _why_unknown(machine: Machine, copy: Copy, path: tuple[Hop, ...] | None) -> str:
    if path is None:
        return f"{copy.source.part} and {copy.destination.part} are not linked on this machine"
    if not path and copy.source.is_host:
        detail = machine.node(copy.source.index).memory_detail
        return detail or "the speed of the memory modules is not known"
    if not path:
        return "the speed of the GPU's own memory is not known"
    return "no speed is known for the links on the way"


@dataclass(frozen=True, slots=True)
class FlowShare:
    """What one flow gets.

    Attributes
    ----------
    rate
        In the unit of the capacities; None when nothing bounds the flow.
    bottleneck
        The resource that bounds it; None when nothing does.
    """

    rate: float | None
    bottleneck: Hashable | None


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a resource offers, and whether it holds flows up before they ask for all of that.

    Attributes
    ----------
    rate
        What it gives at most, whatever the demand.
    at_capacity
        Share of `rate` that it gives where the demand is `rate`; 1: all.
    """

    rate: float
    at_capacity: float = 1.0

    def throughput(self, demand: float) -> float:
        """Return what flows get of it that would take `demand` if they could.

        demand / (1 + (demand / rate) ** n) ** (1 / n), where 2 ** (-1 / n) is `at_capacity`.
        """
        less, more = sorted((demand, self.rate))
        if self.at_capacity >= 1 or less <= 0:
            return less
        n = -1 / log2(self.at_capacity)
        return float(less * (1 + (less / more) ** n) ** (-1 / n))


def max_min_fair(
    flows: Sequence[Mapping[Hashable, float]], capacity: Mapping[Hashable, float]
) -> tuple[FlowShare, ...]:
    """Share resources among flows.

    Parameters
    ----------
    flows
        For each flow what one unit of its rate takes from each resource (above
        zero). Resources that `capacity` does not name are endless.
    capacity
        What each resource offers.

    Returns
    -------
    tuple of Share
        In the order of `flows`.
    """
    large = _without_minor(flows)
    shares = _filled(large, capacity)
    if large == [dict(flow) for flow in flows]:
        return shares
    for _ in range(_MOST_PASSES):
        left = dict(capacity)
        for flow, some, share in zip(flows, large, shares, strict=True):
            for resource in (flow.keys() - some.keys()) & left.keys():
                left[resource] -= flow[resource] * (share.rate or 0.0)
        if any(left[resource] * 2 < capacity[resource] for resource in left):
            break  # together it is not minor
        before, shares = shares, _filled(large, left)
        if all(_is_close(one, other) for one, other in zip(before, shares, strict=True)):
            return shares
    return _filled(flows, capacity)


def _without_minor(flows: Sequence[Mapping[Hashable, float]]) -> list[dict[Hashable, float]]:
    """Return what flows take, without minor usage."""
    most: dict[Hashable, float] = {}
    for flow in flows:
        for resource, usage in flow.items():
            most[resource] = max(usage, most.get(resource, 0.0))
    return [
        {
            resource: usage
            for resource, usage in flow.items()
            if usage * _MINOR > min(most[resource], max(flow.values()))
        }
        for flow in flows
    ]


def _is_close(one: FlowShare, other: FlowShare) -> bool:
    a, b = one.rate or 0.0, other.rate or 0.0
    return abs(a - b) <= _SETTLED * max(a, b)


def _filled(
    flows: Sequence[Mapping[Hashable, float]], capacity: Mapping[Hashable, float]
) -> tuple[FlowShare, ...]:
    """Share resources by progressive filling alone; see `max_min_fair`."""
    shares: list[FlowShare | None] = [None] * len(flows)
    left = dict(capacity)
    level = 0.0
    while open_flows := [i for i, share in enumerate(shares) if share is None]:
        load: dict[Hashable, float] = {}
        for i in open_flows:
            for resource, usage in flows[i].items():
                if resource in left:
                    load[resource] = load.get(resource, 0.0) + usage
        if not load:
            for i in open_flows:
                shares[i] = FlowShare(None, None)
            break
        full = min(load, key=lambda resource: left[resource] / load[resource])
        growth = left[full] / load[full]
        level += growth
        for resource, used in load.items():
            left[resource] = max(0.0, left[resource] - growth * used)
        for i in open_flows:
            if full in flows[i]:
                shares[i] = FlowShare(level, full)
    return tuple(share for share in shares if share is not None)


def share_by_weight(
    flows: Sequence[Mapping[Hashable, float]],
    shares: Sequence[FlowShare],
    capacity: Mapping[Hashable, float],
    weights: Sequence[float],
) -> tuple[FlowShare, ...]:
    """Share further resources among flows that already have a share of others.

    Where one of them is full, the flows through it get rates in proportion to their weights,
    unless they have less already.

    Parameters
    ----------
    flows
        As of `max_min_fair`.
    shares
        What each has by other resources; no flow gets more.
    capacity
        What each of the further resources offers.
    weights
        Above zero, one for each flow.
    """
    room = dict(capacity)
    scaled: list[dict[Hashable, float]] = []
    for number, (flow, share, weight) in enumerate(zip(flows, shares, weights, strict=True)):
        taken = {resource: used * weight for resource, used in flow.items() if resource in capacity}
        if share.rate is not None:
            own = ("has", number)
            room[own], taken[own] = share.rate, weight
        scaled.append(taken)
    return tuple(
        before
        if found.rate is None or found.bottleneck not in capacity
        else FlowShare(found.rate * weight, found.bottleneck)
        for before, found, weight in zip(shares, max_min_fair(scaled, room), weights, strict=True)
    )
