"""Memory in a suite: what it costs to ask for, to touch first and to give back; single loads.

Loads are strided and in random order, one after the other and at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.operation import Access
from lanescope.copies.place import GPU_MEMORIES, HOST_MEMORIES, Memory, Place
from lanescope.machine import Machine, NumaNode
from lanescope.studies.taruc import axes
from lanescope.studies.taruc.axes import EVERYTHING, Only, Planned, fitting, memory_of
from lanescope.studies.taruc.parameters import WORD_BYTES, Nurma, Parameters
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


def overhead_experiments(
    machine: Machine,
    parameters: Parameters,
    only: Only = EVERYTHING,
    free_bytes: Mapping[str, int] | None = None,
) -> Planned:
    """Return the life of memory: each place and kind, each thread's node, each size.

    Memory of a GPU is not touched: that would be a copy.
    """
    usual = (*_PLAIN, *(_BY_DRIVER if machine.gpus else ()))
    wanted = axes.narrowed((*usual, *GPU_MEMORIES), parameters, only)
    host, notes = axes.without_driver(
        machine, (m for m in wanted if m in HOST_MEMORIES), Purpose.OVERHEAD
    )
    # pageable is what remains of host memory alone; a GPU then keeps its usual kind
    device = [m for m in wanted if m in GPU_MEMORIES]
    if only.memories is None and not device:
        device = [Memory.DEVICE]
    if only.memories is not None and device and not machine.gpus:
        notes += (f"{Purpose.OVERHEAD}: no {' or '.join(device)} memory: there is no GPU.",)
    places = [Place(n.id, m) for n in axes.memory_nodes(machine, only) for m in host]
    if only.nodes is None or only.gpus is not None:
        gpus = axes.gpus_of(machine, parameters, only)
        places += [Place(g.id, m) for g in gpus for m in device]
    points = list(_overhead_points(machine, parameters, places))
    if only.memories is None:
        few = [point for point in points if not _is_large_managed(point)]
        if left := len(points) - len(few):
            notes += (_managed_note(left),)
        points = few
    found = fitting(points, free_bytes or memory_of(machine), Purpose.OVERHEAD)
    return Planned(found.experiments, notes + found.notes)


def _overhead_points(
    machine: Machine, parameters: Parameters, places: list[Place]
) -> Iterator[Experiment]:
    for place in places:
        for node, cpu in axes.threads(machine, parameters):
            for size in axes.sizes_of(parameters.overhead, parameters):
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


def nurma_experiments(
    machine: Machine,
    parameters: Parameters,
    only: Only = EVERYTHING,
    free_bytes: Mapping[str, int] | None = None,
) -> Planned:
    """Return loads: node x thread's node x memory x order x stride x number of loads.

    Loads that wait for each other tell a latency, all at once a throughput. Small
    pages against huge ones tell the share of the TLB.
    """
    usual = (Memory.SMALL_PAGES, Memory.HUGE, *((Memory.PINNED,) if machine.gpus else ()))
    memories, notes = axes.without_driver(
        machine, axes.narrowed(usual, parameters, only), Purpose.NURMA
    )
    notes += _too_wide(machine, parameters)
    points = _nurma_points(machine, parameters, only, memories)
    found = fitting(points, free_bytes or memory_of(machine), Purpose.NURMA)
    return Planned(found.experiments, notes + found.notes)


def _strides(section: Nurma) -> tuple[int, ...]:
    """Return the distances from one load to the next; a gap of 0 is one next to the other."""
    gap = max(section.gap_bytes, WORD_BYTES)
    return tuple(sorted({WORD_BYTES, _LINE_BYTES, gap, _PAGE_BYTES, _PAGES_BYTES}))


def _nurma_points(
    machine: Machine, parameters: Parameters, only: Only, memories: Sequence[Memory]
) -> Iterator[Experiment]:
    section = parameters.nurma
    for home in axes.memory_nodes(machine, only):
        for node, cpu in axes.threads(machine, parameters):
            block = _block_bytes(section, node)
            for memory in memories:
                for stride in (s for s in _strides(section) if s <= block):
                    for size in _nurma_sizes(parameters):
                        for operation in _LOADS:
                            place = Place(home.id, memory)
                            yield _nurma_point(place, node, cpu, operation, stride, size, block)


def _block_bytes(section: Nurma, node: NumaNode) -> int:
    """Return the memory that the loads of a thread on a node stay in."""
    return section.block_bytes or max(_LEAST_BLOCK_BYTES, 2 * axes.cache_bytes(node))


def _too_wide(machine: Machine, parameters: Parameters) -> tuple[str, ...]:
    section = parameters.nurma
    blocks = [_block_bytes(section, node) for node, _ in axes.threads(machine, parameters)]
    wide = [s for s in _strides(section) if blocks and s > min(blocks)]
    if not wide:
        return ()
    listed = ", ".join(size_text(stride) for stride in wide)
    return (
        f"{Purpose.NURMA}: no loads every {listed}: the first step would leave the memory block of "
        f"{size_text(min(blocks))}.",
    )


def _nurma_sizes(parameters: Parameters) -> tuple[int, ...]:
    """Whole loads."""
    sizes = axes.sizes_of(parameters.nurma, parameters)
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
        name=f"{Purpose.NURMA}/{place.part}/by-{node.id}/{place.memory}/{operation}/{stride}/{size}",
        title=f"{operation} in {place.part}, thread on {node.id}, {place.memory}, "
        f"{stride} B apart, {size // WORD_BYTES} loads",
        copies=(Copy(place, place, size, Engine.CPU, operation, (cpu,), access=access),),
        timing=Timing.HOST,
        purpose=Purpose.NURMA,
    )
