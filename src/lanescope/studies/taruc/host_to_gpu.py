"""Host and GPU: copies of blocks each way, from every node, submitted from every node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lanescope.copies.copy import Copy, Engine
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.operation import Access, Pattern
from lanescope.copies.place import HOST_TIMED, Memory, Place
from lanescope.machine import Gpu, Machine, NumaNode
from lanescope.studies.taruc import axes
from lanescope.studies.taruc.axes import EVERYTHING, Only, Planned, fitting, memory_of
from lanescope.studies.taruc.parameters import Parameters

PREFIX = "hostdev"
#: A GPU goes past the CPUs' caches: what walks show is small, and memory costs time.
MOST_WALKED_BYTES = 64 << 20
_USUAL = (Memory.PAGEABLE, Memory.PINNED, Memory.WRITE_COMBINED)
_WORDS = {Timing.HOST: "sync", Timing.GATE: "async"}


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
    memories = axes.narrowed(_USUAL, parameters, only, plain=Memory.PINNED)
    points = _points(machine, parameters, only, memories)
    return fitting(points, free_bytes or memory_of(machine), PREFIX)


def _points(
    machine: Machine, parameters: Parameters, only: Only, memories: Sequence[Memory]
) -> Iterator[Experiment]:
    for gpu in axes.gpus_of(machine, parameters, only):
        for memory_node in axes.memory_nodes(machine, only):
            for node, cpu in axes.threads(machine, parameters):
                for memory in memories:
                    host = Place(memory_node.id, memory)
                    yield from _sizes(parameters, only, gpu, host, node, cpu)


def _sizes(
    parameters: Parameters, only: Only, gpu: Gpu, host: Place, node: NumaNode, cpu: int
) -> Iterator[Experiment]:
    device = Place(gpu.id, Memory.DEVICE)
    clocks = (Timing.HOST,) if host.memory in HOST_TIMED else (Timing.HOST, Timing.GATE)
    wanted = min(axes.cache_bytes(node), MOST_WALKED_BYTES)
    for size in axes.sizes_of(parameters.hostdev, parameters):
        for pattern in axes.patterns_for(size, wanted, parameters, only):
            repeated = pattern is Pattern.REPEATED
            access = Access(pattern, None if repeated else axes.walk_bytes(size, wanted))
            for direction, source, destination in (("h2d", host, device), ("d2h", device, host)):
                for clock in clocks:
                    copy = Copy(source, destination, size, Engine.CE, cpus=(cpu,), access=access)
                    yield _point(direction, gpu, host, node, copy, pattern, clock)


def _point(
    direction: str,
    gpu: Gpu,
    host: Place,
    node: NumaNode,
    copy: Copy,
    pattern: Pattern,
    clock: Timing,
) -> Experiment:
    word = _WORDS[clock]
    where = f"{direction}/{gpu.id}/{host.part}/by-{node.id}/{host.memory}"
    return Experiment(
        name=f"{PREFIX}/{where}/{pattern}/{word}/{copy.bytes}",
        title=f"{copy.path}, thread on {node.id}, {host.memory}, {pattern}, {word}, {copy.bytes} B",
        copies=(copy,),
        timing=clock,
        purpose=Purpose.HOSTDEV,
    )
