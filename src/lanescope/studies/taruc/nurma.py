"""NURMA: single loads, strided and in random order, one after the other and at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.operation import Access
from lanescope.copies.place import Memory, Place
from lanescope.machine import Machine, NumaNode
from lanescope.studies.taruc import axes
from lanescope.studies.taruc.axes import EVERYTHING, Only, Planned, fitting, memory_of
from lanescope.studies.taruc.parameters import WORD_BYTES, Nurma, Parameters
from lanescope.units.sizes import size_text

PREFIX = "nurma"
_OPERATIONS = (Operation.CHASE, Operation.CHASE_RANDOM, Operation.GATHER)
_LINE_BYTES, _PAGE_BYTES, _PAGES_BYTES = 64, 4 << 10, 64 << 10
_LEAST_BLOCK_BYTES = 64 << 20


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
    memories, notes = axes.without_driver(machine, axes.narrowed(usual, parameters, only), PREFIX)
    notes += _too_wide(machine, parameters)
    points = _points(machine, parameters, only, memories)
    found = fitting(points, free_bytes or memory_of(machine), PREFIX)
    return Planned(found.experiments, notes + found.notes)


def strides(section: Nurma) -> tuple[int, ...]:
    """Return the distances from one load to the next; a gap of 0 is one next to the other."""
    gap = max(section.gap_bytes, WORD_BYTES)
    return tuple(sorted({WORD_BYTES, _LINE_BYTES, gap, _PAGE_BYTES, _PAGES_BYTES}))


def _points(
    machine: Machine, parameters: Parameters, only: Only, memories: Sequence[Memory]
) -> Iterator[Experiment]:
    section = parameters.nurma
    for home in axes.memory_nodes(machine, only):
        for node, cpu in axes.threads(machine, parameters):
            block = _block_bytes(section, node)
            for memory in memories:
                for stride in (s for s in strides(section) if s <= block):
                    for size in _sizes(parameters):
                        for operation in _OPERATIONS:
                            place = Place(home.id, memory)
                            yield _point(place, node, cpu, operation, stride, size, block)


def _block_bytes(section: Nurma, node: NumaNode) -> int:
    """Return the memory that the loads of a thread on a node stay in."""
    return section.block_bytes or max(_LEAST_BLOCK_BYTES, 2 * axes.cache_bytes(node))


def _too_wide(machine: Machine, parameters: Parameters) -> tuple[str, ...]:
    section = parameters.nurma
    blocks = [_block_bytes(section, node) for node, _ in axes.threads(machine, parameters)]
    wide = [s for s in strides(section) if blocks and s > min(blocks)]
    if not wide:
        return ()
    listed = ", ".join(size_text(stride) for stride in wide)
    return (
        f"{PREFIX}: no loads every {listed}: the first step would leave the memory block of "
        f"{size_text(min(blocks))}.",
    )


def _sizes(parameters: Parameters) -> tuple[int, ...]:
    """Whole loads."""
    sizes = axes.sizes_of(parameters.nurma, parameters)
    return tuple(sorted({max(size // WORD_BYTES, 1) * WORD_BYTES for size in sizes}))


def _point(
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
        name=f"{PREFIX}/{place.part}/by-{node.id}/{place.memory}/{operation}/{stride}/{size}",
        title=f"{operation} in {place.part}, thread on {node.id}, {place.memory}, "
        f"{stride} B apart, {size // WORD_BYTES} loads",
        copies=(Copy(place, place, size, Engine.CPU, operation, (cpu,), access=access),),
        timing=Timing.HOST,
        purpose=Purpose.NURMA,
    )
