"""Points of a suite's micro-benchmarks, but for contention.

What memory costs to ask for, to touch first and to give back; single loads, strided and in random
order, one after the other and at once. Copies by a thread in host memory between all nodes, from
every node; between host and GPUs each way, submitted from every node; from GPU to GPU, peer, by
unified addresses and staged, of every pair and inside each GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.patterns import reach_each_other
from lanescope.copies.terms import (
    GPU_MEMORIES,
    HOST_MEMORIES,
    HOST_TIMED,
    Access,
    Caches,
    Memory,
    Pattern,
    Place,
    Route,
)
from lanescope.machine import Gpu, NumaNode
from lanescope.studies.taruc.axes import Axes, Planned, cache_bytes, walk_bytes
from lanescope.studies.taruc.parameters import WORD_BYTES, NurmaParameters
from lanescope.units.sizes import size_text

#: Every machine has these; the others come with a GPU's driver.
_PLAIN = (Memory.PAGEABLE, Memory.HUGE)
_BY_DRIVER = (Memory.PINNED, Memory.WRITE_COMBINED, Memory.MANAGED)
#: Managed memory moves page by page, which takes its time; more is measured where it is asked for.
_MOST_MANAGED = 1 << 30
_STAGES = (Operation.ALLOCATE, Operation.TOUCH, Operation.RELEASE)
_LOADS = (Operation.CHASE, Operation.CHASE_RANDOM, Operation.GATHER)
_LINE_BYTES, _PAGE_BYTES, _PAGES_BYTES = 64, 4 << 10, 64 << 10
_LEAST_BLOCK_BYTES = 64 << 20
#: Walking over more costs time and shows nothing new: two arrays of this size outgrow
#: all but a few caches.
_MOST_WALKED_IN_HOST = 256 << 20
#: Threads read write-combined memory at a hundredth of the usual speed.
_MOST_UNCACHED_BYTES = 16_000_000
#: A GPU goes past the CPUs' caches: what walks show is small, and memory costs time.
_MOST_WALKED_OVER_LINKS = 64 << 20
_HOSTDEV_MEMORIES = (Memory.PAGEABLE, Memory.PINNED, Memory.WRITE_COMBINED)
_CLOCK_WORDS = {Timing.HOST: "sync", Timing.GATE: "async"}


def overhead_experiments(axes: Axes) -> Planned:
    """Return the life of memory: each place and kind, each thread's node, each size.

    Memory of a GPU is not touched: that would be a copy.
    """
    usual = (*_PLAIN, *(_BY_DRIVER if axes.machine.gpus else ()))
    wanted = axes.memories((*usual, *GPU_MEMORIES))
    host, notes = axes.host_memories((m for m in wanted if m in HOST_MEMORIES), Purpose.OVERHEAD)
    # pageable is what remains of host memory alone; a GPU then keeps its usual kind
    device = [m for m in wanted if m in GPU_MEMORIES]
    if axes.only.memories is None and not device:
        device = [Memory.DEVICE]
    if axes.only.memories is not None and device and not axes.machine.gpus:
        notes += (f"{Purpose.OVERHEAD}: no {' or '.join(device)} memory: there is no GPU.",)
    places = [Place(n.id, m) for n in axes.memory_nodes() for m in host]
    if axes.only.nodes is None or axes.only.gpus is not None:
        gpus = axes.gpus()
        places += [Place(g.id, m) for g in gpus for m in device]
    points = list(_overhead_points(axes, places))
    if axes.only.memories is None:
        few = [point for point in points if not _is_large_managed(point)]
        if left := len(points) - len(few):
            notes += (_managed_note(left),)
        points = few
    return axes.fitting(points, Purpose.OVERHEAD, notes)


def _overhead_points(axes: Axes, places: list[Place]) -> Iterator[Experiment]:
    for place in places:
        for node, cpu in axes.threads():
            for size in axes.sizes(axes.parameters.overhead):
                yield _overhead_point(place, node.id, cpu, size)


def _is_large_managed(point: Experiment) -> bool:
    copy = point.copies[0]
    return copy.source.memory is Memory.MANAGED and copy.bytes > _MOST_MANAGED


def _managed_note(points: int) -> str:
    return (
        f"{Purpose.OVERHEAD}: {points} point{' is' if points == 1 else 's are'} left out, of more "
        f"than 1 GiB of managed memory; 'lanescope bench {Purpose.OVERHEAD} --memory managed' "
        f"measures {'it' if points == 1 else 'them'}."
    )


def _overhead_point(place: Place, by: str, cpu: int, size: int) -> Experiment:
    stages = _STAGES if place.is_host else (Operation.ALLOCATE, Operation.RELEASE)
    return Experiment(
        name=f"{Purpose.OVERHEAD}/{place.part}/{place.memory}/by-{by}/{size}",
        title=f"{place.memory} memory of {place.part}, thread on {by}, {size} B",
        copies=tuple(Copy(place, place, size, Engine.CPU, stage, (cpu,)) for stage in stages),
        timing=Timing.HOST,
        purpose=Purpose.OVERHEAD,
    )


def nurma_experiments(axes: Axes) -> Planned:
    """Return loads: node x thread's node x memory x order x stride x number of loads.

    Loads that wait for each other tell a latency, all at once a throughput. Small
    pages against huge ones tell the share of the TLB.
    """
    usual = (Memory.SMALL_PAGES, Memory.HUGE, *((Memory.PINNED,) if axes.machine.gpus else ()))
    memories, notes = axes.host_memories(axes.memories(usual), Purpose.NURMA)
    notes += _too_wide(axes)
    points = _nurma_points(axes, memories)
    return axes.fitting(points, Purpose.NURMA, notes)


def _strides(section: NurmaParameters) -> tuple[int, ...]:
    """Return the distances from one load to the next; a gap of 0 is one next to the other."""
    gap = max(section.gap_bytes, WORD_BYTES)
    return tuple(sorted({WORD_BYTES, _LINE_BYTES, gap, _PAGE_BYTES, _PAGES_BYTES}))


def _nurma_points(axes: Axes, memories: Sequence[Memory]) -> Iterator[Experiment]:
    section = axes.parameters.nurma
    for home in axes.memory_nodes():
        for node, cpu in axes.threads():
            block = _block_bytes(section, node)
            for memory in memories:
                for stride in (s for s in _strides(section) if s <= block):
                    for size in _nurma_sizes(axes):
                        for operation in _LOADS:
                            place = Place(home.id, memory)
                            yield _nurma_point(place, node, cpu, operation, stride, size, block)


def _block_bytes(section: NurmaParameters, node: NumaNode) -> int:
    """Return the memory that the loads of a thread on a node stay in."""
    return section.block_bytes or max(_LEAST_BLOCK_BYTES, 2 * cache_bytes(node))


def _too_wide(axes: Axes) -> tuple[str, ...]:
    section = axes.parameters.nurma
    blocks = [_block_bytes(section, node) for node, _ in axes.threads()]
    wide = [s for s in _strides(section) if blocks and s > min(blocks)]
    if not wide:
        return ()
    listed = ", ".join(size_text(stride) for stride in wide)
    return (
        f"{Purpose.NURMA}: no loads every {listed}: the first step would leave the memory block of "
        f"{size_text(min(blocks))}.",
    )


def _nurma_sizes(axes: Axes) -> tuple[int, ...]:
    """Whole loads."""
    sizes = axes.sizes(axes.parameters.nurma)
    return tuple(sorted({max(size // WORD_BYTES, 1) * WORD_BYTES for size in sizes}))


def _nurma_point(
    place: Place,
    node: NumaNode,
    cpu: int,
    operation: Operation,
    stride: int,
    size: int,
    block: int,
) -> Experiment:
    # a walk that would leave the block begins again in it, which has a place for each load
    wanted = max(min(size // WORD_BYTES * stride, block), size)
    span = -(-wanted // stride) * stride
    access = Access(span_bytes=span, stride_bytes=stride)
    return Experiment(
        name=f"{Purpose.NURMA}/{place.part}/by-{node.id}/{place.memory}/"
        f"{operation}/{stride}/{size}",
        title=f"{operation} in {place.part}, thread on {node.id}, {place.memory}, "
        f"{stride} B apart, {size // WORD_BYTES} loads",
        copies=(Copy(place, place, size, Engine.CPU, operation, (cpu,), access=access),),
        timing=Timing.HOST,
        purpose=Purpose.NURMA,
    )


def host_experiments(axes: Axes) -> Planned:
    """Return copies: source x destination x thread's node x memory x pattern x caches x size.

    Flushed caches go with repeated blocks, as a walk leaves nothing in the caches that
    it could find there again. Patterns end where a block outgrows the caches.
    """
    usual = (
        Memory.PAGEABLE,
        *((Memory.PINNED, Memory.WRITE_COMBINED) if axes.machine.gpus else ()),
    )
    memories, notes = axes.host_memories(axes.memories(usual), Purpose.HOST)
    points = list(_host_points(axes, memories))
    slow = [e for e in points if axes.only.memories is None and _is_slow(e)]
    if slow:
        notes += (
            f"{Purpose.HOST}: {len(slow)} points of more than {_MOST_UNCACHED_BYTES // 10**6} MB "
            "in write-combined memory left out, which threads read slowly; 'lanescope bench "
            "host --memory write-combined' measures them.",
        )
    left = [e for e in points if not (slow and _is_slow(e))]
    return axes.fitting(left, Purpose.HOST, notes)


def _host_points(axes: Axes, memories: Sequence[Memory]) -> Iterator[Experiment]:
    nodes = axes.memory_nodes()
    for source in nodes:
        for destination in nodes:
            for node, cpu in axes.threads():
                wanted = min(cache_bytes(node), _MOST_WALKED_IN_HOST)
                for memory in memories:
                    for size in axes.sizes(axes.parameters.host):
                        for access in _accesses(axes, size, wanted):
                            ends = (Place(source.id, memory), Place(destination.id, memory))
                            yield _host_point(ends, node, cpu, size, access)


def _accesses(axes: Axes, size: int, wanted: int) -> Iterator[Access]:
    for pattern in axes.patterns(size, wanted):
        repeated = pattern is Pattern.REPEATED
        span = None if repeated else walk_bytes(size, wanted)
        both = axes.parameters.patterns and repeated
        for caches in axes.only.caches or (tuple(Caches) if both else (Caches.WARM,)):
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


def hostdev_experiments(axes: Axes) -> Planned:
    """Return copies: way x GPU x node x thread's node x memory x pattern x clock x size.

    Every kind is timed by a host thread that waits for it (sync), what a GPU copies
    alone by events on the GPU, too (async).
    """
    memories = axes.memories(_HOSTDEV_MEMORIES, plain=Memory.PINNED)
    points = _hostdev_points(axes, memories)
    return axes.fitting(points, Purpose.HOSTDEV)


def _hostdev_points(axes: Axes, memories: Sequence[Memory]) -> Iterator[Experiment]:
    for gpu in axes.gpus():
        for memory_node in axes.memory_nodes():
            for node, cpu in axes.threads():
                for memory in memories:
                    host = Place(memory_node.id, memory)
                    yield from _hostdev_sizes(axes, gpu, host, node, cpu)


def _hostdev_sizes(
    axes: Axes, gpu: Gpu, host: Place, node: NumaNode, cpu: int
) -> Iterator[Experiment]:
    device = Place(gpu.id, Memory.DEVICE)
    clocks = (Timing.HOST,) if host.memory in HOST_TIMED else (Timing.HOST, Timing.GATE)
    wanted = min(cache_bytes(node), _MOST_WALKED_OVER_LINKS)
    for size in axes.sizes(axes.parameters.hostdev):
        for pattern in axes.patterns(size, wanted):
            repeated = pattern is Pattern.REPEATED
            access = Access(pattern, None if repeated else walk_bytes(size, wanted))
            for source, destination in ((host, device), (device, host)):
                for clock in clocks:
                    copy = Copy(source, destination, size, Engine.CE, cpus=(cpu,), access=access)
                    yield _hostdev_point(copy, access.pattern, node, clock)


def _hostdev_point(copy: Copy, pattern: Pattern, node: NumaNode, clock: Timing) -> Experiment:
    down = copy.source.is_host
    host, gpu = (copy.source, copy.destination) if down else (copy.destination, copy.source)
    word = _CLOCK_WORDS[clock]
    where = f"{'h2d' if down else 'd2h'}/{gpu.part}/{host.part}/by-{node.id}/{host.memory}"
    return Experiment(
        name=f"{Purpose.HOSTDEV}/{where}/{pattern}/{word}/{copy.bytes}",
        title=f"{copy.path}, thread on {node.id}, {host.memory}, {pattern}, {word}, {copy.bytes} B",
        copies=(copy,),
        timing=clock,
        purpose=Purpose.HOSTDEV,
    )


def peer_experiments(axes: Axes) -> Planned:
    """Return copies: GPU x GPU x route x size; of two that cannot reach each other, staged.

    Inside one GPU nothing is staged.
    """
    gpus = axes.gpus()
    found = axes.fitting(_peer_points(axes, gpus), Purpose.PEER)
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


def _peer_points(axes: Axes, gpus: tuple[Gpu, ...]) -> Iterator[Experiment]:
    for source in gpus:
        for destination in gpus:
            for route in _routes(source, destination):
                for size in axes.sizes(axes.parameters.peer):
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
