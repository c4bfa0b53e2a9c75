"""Bytes that move and kernels that compute, each at some rate, over links that GPUs share."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from lanescope.copies.copy import Copy, Engine
from lanescope.copies.limit import (
    Capacity,
    capacities,
    contended,
    contended_room,
    contention_weight,
    max_min_fair,
    share_by_weight,
    usage,
)
from lanescope.copies.terms import Memory, Place
from lanescope.machine import Machine
from lanescope.machine.part_names import part_name
from lanescope.prediction.costs import Flow, ParameterValues
from lanescope.prediction.parameters import Direction
from lanescope.units.sizes import bytes_a_second

#: Of a copy that no cache of the host answers.
COPY_BYTES = 256 << 20
_DIRECTIONS = (
    Direction.H2D,
    Direction.D2H,
    Direction.H2D,
    Direction.D2H,
)  # by flow, but for computing
#: A GPU, a direction, and the bytes a second that a flow would take.
_Wanted = tuple[int, Direction, float]
#: Of so many sets of flows it is known what they get.
_MOST_SETS = 4096


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
    unknown
        What is shared, too, with a speed that nobody knows; taken as unlimited.
    own
        Of `capacity` what one GPU alone uses, and is slower than its parameters.
    """

    capacity: Mapping[Hashable, float]
    uses: Mapping[tuple[int, Direction], Mapping[Hashable, float]]
    contended: Mapping[Hashable, Capacity] = field(default_factory=dict)
    weights: Mapping[int, float] = field(default_factory=dict)
    spread: float = 0.0
    unknown: tuple[Hashable, ...] = ()
    own: tuple[Hashable, ...] = ()

    def __post_init__(self) -> None:
        contended = (one.rate for one in self.contended.values())
        if not all(amount > 0 for amount in (*self.capacity.values(), *contended)):
            raise ValueError("a shared link carries more than 0 bytes a second")

    def with_contended(self, factor: float) -> SharedLinks:
        """Return the same where so many times as many bytes a second are contended for."""
        more = {key: replace(one, rate=one.rate * factor) for key, one in self.contended.items()}
        return replace(self, contended=more)


def shared_links(
    machine: Machine,
    nodes: Mapping[int, int] | None = None,
    rates: Mapping[Direction, float] | None = None,
) -> SharedLinks:
    """Return what the GPUs of a machine share on their ways to host memory.

    Parameters
    ----------
    nodes
        For each GPU the NUMA node of the host memory that it copies from and to. By default all
        GPUs with their nearest one; GPUs that do not tell theirs, with the first.
    rates
        What copies of one GPU reach by its parameters, bytes a second.

    Notes
    -----
    A resource that one GPU alone uses is left out, as its own parameters tell what it carries, but
    where it is slower than `rates`. A resource whose speed is not known is left out, too, and taken
    for endless.
    """
    if nodes is None:
        first = machine.nodes[0].index
        nodes = {g.index: first if g.node is None else g.node for g in machine.gpus}
    uses: dict[tuple[int, Direction], Mapping[Hashable, float]] = {}
    users: dict[Hashable, set[int]] = {}
    for gpu, node in nodes.items():
        for direction in Direction:
            taken = usage(machine, host_copy(gpu, node, direction))
            uses[gpu, direction] = taken
            for resource in taken:
                users.setdefault(resource, set()).add(gpu)
    shared = [resource for resource, by in users.items() if len(by) > 1]
    known = capacities(machine)
    held = {resource: one for resource, one in contended(machine).items() if resource in shared}
    own = tuple(one for one in _slower(uses, known, rates or {}) if one not in shared)
    measured = {("memory", part_name("h", one.node)) for one in machine.host_bandwidth}
    return SharedLinks(
        _known(known, [*shared, *own]),
        uses,
        {resource: replace(one, rate=bytes_a_second(one.rate)) for resource, one in held.items()},
        {
            gpu: contention_weight(machine, host_copy(gpu, node, Direction.D2H))
            for gpu, node in nodes.items()
        },
        max((one.spread for one in machine.host_bandwidth), default=0.0),
        tuple(one for one in shared if not _is_known(one, known.keys() | measured)),
        own,
    )


def _slower(
    uses: Mapping[tuple[int, Direction], Mapping[Hashable, float]],
    known: Mapping[Hashable, float],
    rates: Mapping[Direction, float],
) -> Iterator[Hashable]:
    """Yield what carries less than copies of one GPU would move through it, each once."""
    found = {
        resource: None
        for (_, direction), taken in uses.items()
        for resource, amount in taken.items()
        if resource in known and bytes_a_second(known[resource]) < amount * rates.get(direction, 0)
    }
    yield from found


def _is_known(resource: Hashable, known: Collection[Hashable]) -> bool:
    match resource:
        case ("contention", _, _):
            return True  # a measurement that leaves it out saw nobody held up
    return resource in known


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


def host_copy(gpu: int, node: int, direction: Direction) -> Copy:
    """Return a copy between a node's pinned memory and a GPU, by copy engine."""
    host = Place(part_name("h", node), Memory.PINNED)
    device = Place(part_name("g", gpu), Memory.DEVICE)
    ends = (host, device) if direction is Direction.H2D else (device, host)
    return Copy(*ends, COPY_BYTES, Engine.CE)


@dataclass(slots=True, eq=False)
class Going:
    """A flow that goes on.

    Attributes
    ----------
    task
        Position in the graph.
    gpu
        On which.
    kind
        What flows.
    left
        Seconds that it would take from now on if nothing else flowed.
    speed
        Bytes a second then; 0 for a kernel that computes.
    most
        Share of that pace that it never exceeds: below 1 for what a kernel reads and writes that
        computes longer, as it spreads that over the time.
    rate
        Share of that pace at which it goes now.
    slowed
        How many times as long as alone it takes, by what moves on its own GPU.
    """

    task: int
    gpu: int
    kind: Flow
    left: float
    speed: float
    most: float = 1.0
    rate: float = 0.0
    slowed: float = 1.0


class Flows:
    """All flows that go on at the same time."""

    def __init__(self, rates: ParameterValues, links: SharedLinks | None) -> None:
        self._rates, self._links = rates, links
        self._going: dict[int, list[Going]] = {}
        self._settled = 0.0
        self._changed = False
        # what flows got before: in a steady state the same ones go on again and again
        self._paces: dict[tuple[tuple[Flow, float], ...], list[tuple[float, float]]] = {}
        self._shares: dict[tuple[_Wanted, ...], list[float]] = {}
        self._first: Going | None = None
        self._next_end = inf

    def next_end(self) -> float:
        """Return when the next one ends; infinite where nothing flows."""
        if self._changed:
            self._set_rates()
        return self._next_end

    def writing(self, gpu: int) -> float:
        """Return the share of their pace at which kernels want to write mapped memory now."""
        flows = self._going.get(gpu, ())
        return min(1.0, sum(flow.most for flow in flows if flow.kind is Flow.WRITING))

    def add(self, flows: list[Going], now: float) -> None:
        """Let flows of one task begin."""
        self._settle(now)
        self._going.setdefault(flows[0].gpu, []).extend(flows)
        self._changed = True

    def end_next(self) -> Going:
        """End the one that ends next, at `next_end`."""
        first = self._first
        if first is None:
            raise RuntimeError("nothing flows that could end")
        self._settle(self._next_end)
        self._going[first.gpu].remove(first)
        self._changed = True
        return first

    def _settle(self, now: float) -> None:
        """Let all go on until now."""
        passed = now - self._settled
        if passed > 0:
            if self._changed:
                self._set_rates()
            for flows in self._going.values():
                for flow in flows:
                    flow.left -= passed * flow.rate
        self._settled = now

    def _set_rates(self) -> None:
        """Find the rate of each among those that go on, and which ends first."""
        for flows in self._going.values():
            if flows:
                self._set_rates_of(flows)
        if self._links is not None:
            self._share_links(self._links)
        self._first, least = None, inf
        for flows in self._going.values():
            for flow in flows:
                left = flow.left / flow.rate if flow.rate else inf
                if left < least:
                    self._first, least = flow, left
        self._next_end = self._settled + max(0.0, least)
        self._changed = False

    def _set_rates_of(self, flows: list[Going]) -> None:
        """Set the rates of one GPU's flows; those the same way share its link, kernels its SMs."""
        if len(flows) == 1:
            flows[0].rate, flows[0].slowed = flows[0].most, 1.0
            return
        key = tuple([(flow.kind, flow.most) for flow in flows])
        known = self._paces.get(key)
        if known is not None:
            for flow, (rate, slowed) in zip(flows, known, strict=True):
                flow.rate, flow.slowed = rate, slowed
            return
        self._find_rates_of(flows)
        if len(self._paces) < _MOST_SETS:
            self._paces[key] = [(flow.rate, flow.slowed) for flow in flows]

    def _find_rates_of(self, flows: list[Going]) -> None:
        wanted: list[list[float]] = [[], [], [], [], []]
        for flow in flows:
            wanted[flow.kind].append(flow.most)
        copy_in, copy_back, reading, writing, computing = wanted
        slowed = self._rates.slowdowns(
            bool(copy_in), bool(copy_back), min(1.0, sum(reading)), min(1.0, sum(writing))
        )
        into, back = _fair([*copy_in, *reading]), _fair([*copy_back, *writing])
        paces = [level / slow for level, slow in zip((into, back) * 2, slowed, strict=True)]
        paces.append(1 / max(len(computing), 1))
        left = 1.0 if any(most < 1 for most in computing) else None
        for flow in flows:
            if flow.kind is Flow.COMPUTING and left is not None:
                # blocks of the kernels that began first are in front of the others
                flow.rate = min(flow.most, left)
                left -= flow.rate
                continue
            flow.rate = min(flow.most, paces[flow.kind])
            flow.slowed = 1.0 if flow.kind is Flow.COMPUTING else slowed[flow.kind]

    def _share_links(self, links: SharedLinks) -> None:
        moving = [
            flow
            for flows in self._going.values()
            for flow in flows
            if flow.kind is not Flow.COMPUTING
        ]
        held = self._shared(links, moving)
        if not any(one < 1 for one in held):
            return
        # what another GPU holds up slows the other direction of its own GPU less
        slowest = {
            (flow.gpu, _DIRECTIONS[flow.kind]): one for flow, one in zip(moving, held, strict=True)
        }
        for flow in moving:
            way = _DIRECTIONS[flow.kind]
            other = Direction.D2H if way is Direction.H2D else Direction.H2D
            opposite = slowest.get((flow.gpu, other), 1.0)
            eased = flow.slowed / (1 + (flow.slowed - 1) * opposite)
            flow.rate = min(flow.most, flow.rate * eased)
        for flow, one in zip(moving, self._shared(links, moving), strict=True):
            flow.rate *= one

    def _shared(self, links: SharedLinks, moving: Sequence[Going]) -> list[float]:
        """Return which share of its rate each flow gets of what several GPUs share."""
        wanted = tuple((one.gpu, _DIRECTIONS[one.kind], one.speed * one.rate) for one in moving)
        found = self._shares.get(wanted)
        if found is None:
            if len(self._shares) >= _MOST_SETS:
                self._shares.clear()
            shares = zip(share(links, wanted), wanted, strict=True)
            found = self._shares[wanted] = [got / rate for got, (_, _, rate) in shares]
        return found


def _fair(wanted: list[float]) -> float:
    """Return the most that any of some flows gets of a link: the same for all that want more."""
    if len(wanted) < 2:
        return 1.0
    left, rest = 1.0, len(wanted)
    for one in sorted(wanted):
        if one * rest >= left:
            return left / rest
        left -= one
        rest -= 1
    return 1.0


@dataclass(slots=True)
class Server:
    """A queue of tasks, and how many of them are served at the same time.

    Attributes
    ----------
    name
        Such as ``g0 h2d``.
    slots
        Tasks that it serves at once.
    by_call
        True: in the order of the calls, which `expect` tells; False: as they become ready.
    queue
        Positions of tasks in their graph, the next one to be served first.
    ready
        Of those in `queue` the ones that need not wait any longer; kept by call order only.
    active
        How many it serves now.
    busy
        Seconds during which it served one or more.
    released_by
        The task that last made room here, or last went in; None: none did.
    released_at
        When.
    """

    name: str
    slots: int
    by_call: bool
    queue: deque[int] = field(default_factory=deque)
    ready: set[int] = field(default_factory=set)
    active: int = 0
    busy: float = 0.0
    busy_since: float = 0.0
    released_by: int | None = None
    released_at: float = 0.0

    def expect(self, task: int) -> None:
        """Note a task in the order of the calls."""
        if self.by_call:
            self.queue.append(task)

    def arrive(self, task: int) -> None:
        """Note that a task is ready to be served."""
        if self.by_call:
            self.ready.add(task)
        else:
            self.queue.append(task)

    def take(self, now: float) -> int | None:
        """Return the task to begin with now; None: there is none, or no room."""
        if self.active == self.slots or not self.queue:
            return None
        if self.by_call:
            if self.queue[0] not in self.ready:
                return None
            self.ready.remove(self.queue[0])
        if self.active == 0:
            self.busy_since = now
        self.active += 1
        return self.queue.popleft()

    def release(self, task: int, now: float) -> None:
        """Note that a task is no longer served."""
        self.active -= 1
        if self.active == 0:
            self.busy += now - self.busy_since
        self.released_by, self.released_at = task, now
