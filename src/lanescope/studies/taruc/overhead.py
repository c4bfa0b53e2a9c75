"""Memory overhead: what it costs to ask for memory, to touch it first, to give it back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.place import GPU_MEMORIES, HOST_MEMORIES, Memory, Place
from lanescope.machine import Machine
from lanescope.studies.taruc import axes
from lanescope.studies.taruc.axes import EVERYTHING, Only, Planned, fitting, memory_of
from lanescope.studies.taruc.parameters import Parameters

PREFIX = "overhead"
#: Every machine has these; the others come with a GPU's driver.
_PLAIN = (Memory.PAGEABLE, Memory.HUGE)
_BY_DRIVER = (Memory.PINNED, Memory.WRITE_COMBINED, Memory.MANAGED)
#: It moves page by page, which takes its time; more is measured where it is asked for.
_MOST_MANAGED = 1 << 30
_STAGES = (Operation.ALLOCATE, Operation.TOUCH, Operation.RELEASE)


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
    host, notes = axes.without_driver(machine, (m for m in wanted if m in HOST_MEMORIES), PREFIX)
    # pageable is what remains of host memory alone; a GPU then keeps its usual kind
    device = [m for m in wanted if m in GPU_MEMORIES]
    if only.memories is None and not device:
        device = [Memory.DEVICE]
    if only.memories is not None and device and not machine.gpus:
        notes += (f"{PREFIX}: no {' or '.join(device)} memory: there is no GPU.",)
    places = [Place(n.id, m) for n in axes.memory_nodes(machine, only) for m in host]
    if only.nodes is None or only.gpus is not None:
        gpus = axes.gpus_of(machine, parameters, only)
        places += [Place(g.id, m) for g in gpus for m in device]
    points = list(_experiments(machine, parameters, places))
    if only.memories is None:
        few = [point for point in points if not _is_large_managed(point)]
        if left := len(points) - len(few):
            notes += (_managed_note(left),)
        points = few
    found = fitting(points, free_bytes or memory_of(machine), PREFIX)
    return Planned(found.experiments, notes + found.notes)


def _experiments(
    machine: Machine, parameters: Parameters, places: list[Place]
) -> Iterator[Experiment]:
    for place in places:
        for node, cpu in axes.threads(machine, parameters):
            for size in axes.sizes_of(parameters.overhead, parameters):
                yield _point(place, node.id, cpu, size)


def _is_large_managed(point: Experiment) -> bool:
    copy = point.copies[0]
    return copy.source.memory is Memory.MANAGED and copy.bytes > _MOST_MANAGED


def _managed_note(points: int) -> str:
    return (
        f"{PREFIX}: {points} point{' is' if points == 1 else 's are'} left out, of more than 1 GiB "
        f"of managed memory; 'lanescope bench {PREFIX} --memory managed' measures "
        f"{'it' if points == 1 else 'them'}."
    )


def _point(place: Place, by: str, cpu: int, size: int) -> Experiment:
    stages = _STAGES if place.is_host else (Operation.ALLOCATE, Operation.RELEASE)
    return Experiment(
        name=f"{PREFIX}/{place.part}/{place.memory}/by-{by}/{size}",
        title=f"{place.memory} memory of {place.part}, thread on {by}, {size} B",
        copies=tuple(Copy(place, place, size, Engine.CPU, stage, (cpu,)) for stage in stages),
        timing=Timing.HOST,
        purpose=Purpose.OVERHEAD,
    )
