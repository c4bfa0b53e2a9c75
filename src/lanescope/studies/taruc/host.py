"""Host to host: copies of blocks by one thread, between all nodes, from every node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lanescope.copies.copy import Copy, Engine
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.operation import Access, Caches, Pattern
from lanescope.copies.place import Memory, Place
from lanescope.machine import Machine, NumaNode
from lanescope.studies.taruc import axes
from lanescope.studies.taruc.axes import EVERYTHING, Only, Planned, fitting, memory_of
from lanescope.studies.taruc.parameters import Parameters

PREFIX = "host"
_MIB = 1 << 20
#: Walking over more costs time and shows nothing new: two arrays of this size outgrow
#: all but a few caches.
MOST_WALKED_BYTES = 256 * _MIB
#: Threads read write-combined memory at a hundredth of the usual speed.
_MOST_UNCACHED_BYTES = 16_000_000


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
    memories, notes = axes.without_driver(machine, axes.narrowed(usual, parameters, only), PREFIX)
    points = list(_points(machine, parameters, only, memories))
    slow = [e for e in points if only.memories is None and _is_slow(e)]
    if slow:
        notes += (
            f"{PREFIX}: {len(slow)} points of more than {_MOST_UNCACHED_BYTES // 10**6} MB in "
            "write-combined memory left out, which threads read slowly; 'lanescope bench host "
            "--memory write-combined' measures them.",
        )
    left = [e for e in points if not (slow and _is_slow(e))]
    found = fitting(left, free_bytes or memory_of(machine), PREFIX)
    return Planned(found.experiments, notes + found.notes)


def _points(
    machine: Machine, parameters: Parameters, only: Only, memories: Sequence[Memory]
) -> Iterator[Experiment]:
    nodes = axes.memory_nodes(machine, only)
    for source in nodes:
        for destination in nodes:
            for node, cpu in axes.threads(machine, parameters):
                wanted = min(axes.cache_bytes(node), MOST_WALKED_BYTES)
                for memory in memories:
                    for size in axes.sizes_of(parameters.host, parameters):
                        for access in _accesses(size, wanted, parameters, only):
                            ends = (Place(source.id, memory), Place(destination.id, memory))
                            yield _point(ends, node, cpu, size, access)


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


def _point(
    ends: tuple[Place, Place], node: NumaNode, cpu: int, size: int, access: Access
) -> Experiment:
    source, destination = ends
    path = f"{source.part}-{destination.part}"
    how = f"{access.pattern}/{access.caches}"
    return Experiment(
        name=f"{PREFIX}/{path}/by-{node.id}/{source.memory}/{how}/{size}",
        title=f"{source.part} → {destination.part}, thread on {node.id}, {source.memory}, "
        f"{access.pattern}, caches {access.caches}, {size} B",
        copies=(Copy(source, destination, size, Engine.CPU, cpus=(cpu,), access=access),),
        timing=Timing.HOST,
        purpose=Purpose.HOST,
    )
