"""Max-min fair sharing: how fast flows can go that use the same resources.

All rates grow together until a resource is full; the flows through it stop
growing, the others go on (progressive filling; Bertsekas and Gallager, Data
Networks, section 6.5.2). A flow is not held up by a resource of which its
usage is minor, as that of the requests of reads is of the other direction of a link; the
others have that much less.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

#: Usage is minor where another flow takes so many times as much of the resource for the same rate,
#: and the flow itself of another resource.
_MINOR = 10
#: What minor usage leaves to the others is found by passes, until rates change by this share.
_SETTLED, _MOST_PASSES = 1e-9, 50


@dataclass(frozen=True, slots=True)
class Share:
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
) -> tuple[Share, ...]:
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


def _is_close(one: Share, other: Share) -> bool:
    a, b = one.rate or 0.0, other.rate or 0.0
    return abs(a - b) <= _SETTLED * max(a, b)


def _filled(
    flows: Sequence[Mapping[Hashable, float]], capacity: Mapping[Hashable, float]
) -> tuple[Share, ...]:
    """Share resources by progressive filling alone; see `max_min_fair`."""
    shares: list[Share | None] = [None] * len(flows)
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
                shares[i] = Share(None, None)
            break
        full = min(load, key=lambda resource: left[resource] / load[resource])
        growth = left[full] / load[full]
        level += growth
        for resource, used in load.items():
            left[resource] = max(0.0, left[resource] - growth * used)
        for i in open_flows:
            if full in flows[i]:
                shares[i] = Share(level, full)
    return tuple(share for share in shares if share is not None)


def share_by_weight(
    flows: Sequence[Mapping[Hashable, float]],
    shares: Sequence[Share],
    capacity: Mapping[Hashable, float],
    weights: Sequence[float],
) -> tuple[Share, ...]:
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
        else Share(found.rate * weight, found.bottleneck)
        for before, found, weight in zip(shares, max_min_fair(scaled, room), weights, strict=True)
    )
