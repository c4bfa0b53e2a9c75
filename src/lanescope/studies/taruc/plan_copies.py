"""Copies of a suite: by a thread in host memory, between host and GPUs, from GPU to GPU.

Those in host memory are between all nodes, from every node; those with a GPU each way, submitted
from every node; those from GPU to GPU peer, by unified addresses and staged, of every pair and
inside each GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lanescope.copies.copy import Copy, Engine
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.operation import Access, Caches, Pattern, Route
from lanescope.copies.patterns import reach_each_other
from lanescope.copies.place import HOST_TIMED, Memory, Place
from lanescope.machine import Gpu, Machine, NumaNode
from lanescope.studies.taruc import axes
from lanescope.studies.taruc.axes import EVERYTHING, Only, Planned, fitting, memory_of
from lanescope.studies.taruc.parameters import Parameters

#: Walking over more costs time and shows nothing new: two arrays of this size outgrow
#: all but a few caches.
_MOST_WALKED_IN_HOST = 256 << 20
#: Threads read write-combined memory at a hundredth of the usual speed.
_MOST_UNCACHED_BYTES = 16_000_000
#: A GPU goes past the CPUs' caches: what walks show is small, and memory costs time.
_MOST_WALKED_OVER_LINKS = 64 << 20
_HOSTDEV_MEMORIES = (Memory.PAGEABLE, Memory.PINNED, Memory.WRITE_COMBINED)
_CLOCK_WORDS = {Timing.HOST: "sync", Timing.GATE: "async"}


def host_experiments(
    machine: Machine,
    parameters: Parameters,
    only: Only = EVERYTHING,
    free_bytes: Mapping[str, int] | None = None,
) -> Planned:
    """Return copies: source x destination x thread's node x memory x pattern x caches x size.

    Flushed caches go with repeated blocks, as a walk leaves nothing in the caches that
    it could find there again. Patterns end where a block outgrows the caches.
    """
    usual = (
        Memory.PAGEABLE,
        *((Memory.PINNED, Memory.WRITE_COMBINED) if machine.gpus else ()),
    )
    memories, notes = axes.without_driver(
        machine, axes.narrowed(usual, parameters, only), Purpose.HOST
    )
    points = list(_host_points(machine, parameters, only, memories))
    slow = [e for e in points if only.memories is None and _is_slow(e)]
    if slow:
        notes += (
            f"{Purpose.HOST}: {len(slow)} points of more than {_MOST_UNCACHED_BYTES // 10**6} MB "
            "in write-combined memory left out, which threads read slowly; 'lanescope bench "
            "host --memory write-combined' measures them.",
        )
    left = [e for e in points if not (slow and _is_slow(e))]
    found = fitting(left, free_bytes or memory_of(machine), Purpose.HOST)
    return Planned(found.experiments, notes + found.notes)


def _host_points(
    machine: Machine, parameters: Parameters, only: Only, memories: Sequence[Memory]
) -> Iterator[Experiment]:
    nodes = axes.memory_nodes(machine, only)
    for source in nodes:
        for destination in nodes:
            for node, cpu in axes.threads(machine, parameters):
                wanted = min(axes.cache_bytes(node), _MOST_WALKED_IN_HOST)
                for memory in memories:
                    for size in axes.sizes_of(parameters.host, parameters):
                        for access in _accesses(size, wanted, parameters, only):
                            ends = (Place(source.id, memory), Place(destination.id, memory))
                            yield _host_point(ends, node, cpu, size, access)


def _accesses(size: int, wanted: int, parameters: Parameters, only: Only) -> Iterator[Access]:
    for pattern in axes.patterns_for(size, wanted, parameters, only):
        repeated = pattern is Pattern.REPEATED
        span = None if repeated else axes.walk_bytes(size, wanted)
        both = parameters.patterns and repeated
        for caches in only.caches or (tuple(Caches) if both else (Caches.WARM,)):
            yield Access(pattern, span, caches=caches)


def _is_slow(experiment: Experiment) -> bool:
    (copy,) = experiment.copies
    return copy.source.memory is Memory.WRITE_COMBINED and copy.bytes > _MOST_UNCACHED_BYTES


def _host_point(
    ends: tuple[Place, Place], node: NumaNode, cpu: int, size: int, access: Access
) -> Experiment:
    source, destination = ends
    path = f"{source.part}-{destination.part}"
    how = f"{access.pattern}/{access.caches}"
    return Experiment(
        name=f"{Purpose.HOST}/{path}/by-{node.id}/{source.memory}/{how}/{size}",
        title=f"{source.part} → {destination.part}, thread on {node.id}, {source.memory}, "
        f"{access.pattern}, caches {access.caches}, {size} B",
        copies=(Copy(source, destination, size, Engine.CPU, cpus=(cpu,), access=access),),
        timing=Timing.HOST,
        purpose=Purpose.HOST,
    )


def hostdev_experiments(
    machine: Machine,
    parameters: Parameters,
    only: Only = EVERYTHING,
    free_bytes: Mapping[str, int] | None = None,
) -> Planned:
    """Return copies: way x GPU x node x thread's node x memory x pattern x clock x size.

    Every kind is timed by a host thread that waits for it (sync), what a GPU copies
    alone by events on the GPU, too (async).
    """
    memories = axes.narrowed(_HOSTDEV_MEMORIES, parameters, only, plain=Memory.PINNED)
    points = _hostdev_points(machine, parameters, only, memories)
    return fitting(points, free_bytes or memory_of(machine), Purpose.HOSTDEV)


def _hostdev_points(
    machine: Machine, parameters: Parameters, only: Only, memories: Sequence[Memory]
) -> Iterator[Experiment]:
    for gpu in axes.gpus_of(machine, parameters, only):
        for memory_node in axes.memory_nodes(machine, only):
            for node, cpu in axes.threads(machine, parameters):
                for memory in memories:
                    host = Place(memory_node.id, memory)
                    yield from _hostdev_sizes(parameters, only, gpu, host, node, cpu)


def _hostdev_sizes(
    parameters: Parameters, only: Only, gpu: Gpu, host: Place, node: NumaNode, cpu: int
) -> Iterator[Experiment]:
    device = Place(gpu.id, Memory.DEVICE)
    clocks = (Timing.HOST,) if host.memory in HOST_TIMED else (Timing.HOST, Timing.GATE)
    wanted = min(axes.cache_bytes(node), _MOST_WALKED_OVER_LINKS)
    for size in axes.sizes_of(parameters.hostdev, parameters):
        for pattern in axes.patterns_for(size, wanted, parameters, only):
            repeated = pattern is Pattern.REPEATED
            access = Access(pattern, None if repeated else axes.walk_bytes(size, wanted))
            for direction, source, destination in (("h2d", host, device), ("d2h", device, host)):
                for clock in clocks:
                    copy = Copy(source, destination, size, Engine.CE, cpus=(cpu,), access=access)
                    yield _hostdev_point(direction, gpu, host, node, copy, pattern, clock)


def _hostdev_point(
    direction: str,
    gpu: Gpu,
    host: Place,
    node: NumaNode,
    copy: Copy,
    pattern: Pattern,
    clock: Timing,
) -> Experiment:
    word = _CLOCK_WORDS[clock]
    where = f"{direction}/{gpu.id}/{host.part}/by-{node.id}/{host.memory}"
    return Experiment(
        name=f"{Purpose.HOSTDEV}/{where}/{pattern}/{word}/{copy.bytes}",
        title=f"{copy.path}, thread on {node.id}, {host.memory}, {pattern}, {word}, {copy.bytes} B",
        copies=(copy,),
        timing=clock,
        purpose=Purpose.HOSTDEV,
    )


def peer_experiments(
    machine: Machine,
    parameters: Parameters,
    only: Only = EVERYTHING,
    free_bytes: Mapping[str, int] | None = None,
) -> Planned:
    """Return copies: GPU x GPU x route x size; of two that cannot reach each other, staged.

    Inside one GPU nothing is staged.
    """
    gpus = axes.gpus_of(machine, parameters, only)
    found = fitting(_peer_points(parameters, gpus), free_bytes or memory_of(machine), Purpose.PEER)
    apart = [
        f"{a.id} and {b.id}"
        for i, a in enumerate(gpus)
        for b in gpus[i + 1 :]
        if not reach_each_other(a, b)
    ]
    notes = found.notes
    if apart:
        pairs = "; ".join(apart)
        notes += (
            f"{Purpose.PEER}: staged alone where GPUs cannot reach each other's memory: {pairs}.",
        )
    return Planned(found.experiments, notes)


def _peer_points(parameters: Parameters, gpus: tuple[Gpu, ...]) -> Iterator[Experiment]:
    for source in gpus:
        for destination in gpus:
            for route in _routes(source, destination):
                for size in axes.sizes_of(parameters.peer, parameters):
                    yield _peer_point(source, destination, route, size)


def _routes(source: Gpu, destination: Gpu) -> tuple[Route, ...]:
    if source is destination:
        return (Route.PEER, Route.UVA)
    return tuple(Route) if reach_each_other(source, destination) else (Route.STAGED,)


def _peer_point(source: Gpu, destination: Gpu, route: Route, size: int) -> Experiment:
    ends = (Place(source.id, Memory.DEVICE), Place(destination.id, Memory.DEVICE))
    return Experiment(
        name=f"{Purpose.PEER}/{source.id}-{destination.id}/{route}/{size}",
        title=f"{source.id} → {destination.id}, {route}, {size} B",
        copies=(Copy(*ends, size, Engine.CE, route=route),),
        purpose=Purpose.PEER,
    )
