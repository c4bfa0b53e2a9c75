"""Which experiments make up a check and a sweep of a machine."""

from __future__ import annotations

import difflib
import fnmatch
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil

from lanescope.calls import shown
from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.place import Memory, Place
from lanescope.errors import InputError, MissingPartError
from lanescope.machine import Gpu, LinkKind, Machine, NumaNode
from lanescope.units.bandwidth import bytes_a_second

MIB = 1 << 20

#: Large enough that start-up is below 0.1 % even on NVLink, and what nvbandwidth uses.
CHECK_BYTES = 512 * MIB

#: So many a machine may have.
_MOST_GPUS = 16

#: STREAM's rule: an array is at least four times the last-level caches.
_CACHE_MULTIPLE = 4
_SMALLEST_ARRAY = 64 * MIB
#: Of a described machine an array takes so long at least: shorter copies are not predicted.
_PREDICTED_SECONDS = 2e-3
#: Three arrays together stay within half of a node's memory.
_MEMORY_SHARE = 6


def check_experiments(machine: Machine, gpu_bytes: int = CHECK_BYTES) -> tuple[Experiment, ...]:
    """Return every path of a machine: host memory, host and GPUs, GPU pairs.

    Parameters
    ----------
    gpu_bytes
        Size of one copy to, from or between GPUs.
    """
    experiments: list[Experiment] = []
    with_memory = [n for n in machine.nodes if n.memory_bytes != 0]
    for node in (n for n in with_memory if n.cores):
        experiments += _host_memory(machine, node, node, node)
    for source, destination in itertools.permutations(with_memory, 2):
        # The cores of the source push; memory without cores is read by the destination's.
        reader = source if source.cores else destination
        if reader.cores:
            experiments += _host_memory(machine, reader, source, destination)
    for gpu in machine.gpus:
        experiments += _host_and_gpu(machine, gpu, gpu_bytes)
        experiments += _far_and_gpu(machine, gpu, gpu_bytes)
    for gpu, peer in itertools.combinations(machine.gpus, 2):
        experiments += _gpu_pair(gpu, peer, gpu_bytes)
    return tuple(experiments)


def sweep_experiments(
    machine: Machine,
    gpus: Iterable[Gpu],
    sizes: Sequence[int],
    memories: Iterable[Memory] = (Memory.PINNED, Memory.PAGEABLE),
) -> tuple[Experiment, ...]:
    """Return host to GPU and GPU to host for every size and kind of host memory.

    Pinned memory is timed twice: by events on the GPU, which tells what the link
    does, and by the host's clock, which tells what a program waits for. The
    driver stages pageable memory inside the call, so only the host's clock sees
    such a copy whole. The largest sizes come first, so that buffers are made once.
    What is named twice is measured once: names are unique within a run.
    """
    memories = tuple(dict.fromkeys(memories))
    if not sizes or not memories:
        missing = "kind of memory" if sizes else "size"
        raise InputError(f"a sweep without any {missing} cannot be measured; give at least one")
    kinds = [(memory, Timing.HOST) for memory in memories]
    kinds[:0] = [(memory, Timing.GATE) for memory in memories if memory is Memory.PINNED]
    experiments = []
    for gpu in dict.fromkeys(gpus):
        for memory, timing in kinds:
            for down in (True, False):
                for size in sorted(set(sizes), reverse=True):
                    experiments.append(_sweep_point(machine, gpu, memory, timing, down, size))
    return tuple(experiments)


def select_cases(
    machine: Machine, gpu_bytes: int, patterns: Sequence[str]
) -> tuple[Experiment, ...]:
    """Return those of `check_experiments` whose names match one of the patterns; all for none.

    Raises
    ------
    MissingPartError
        If a pattern is right, but for GPUs that the machine does not have.
    InputError
        If a pattern matches nothing.
    """
    experiments = check_experiments(machine, gpu_bytes)
    names = [e.name for e in experiments]
    unmatched = [p for p in patterns if not fnmatch.filter(names, p)]
    if unmatched and not machine.described:
        more = tuple(Gpu(index, "GPU") for index in range(_MOST_GPUS))
        possible = [e.name for e in check_experiments(replace(machine, gpus=more), gpu_bytes)]
        for pattern in unmatched:
            if fnmatch.filter(possible, pattern):
                there = ", ".join(gpu.id for gpu in machine.gpus)
                why = f"here are only {there}" if there else machine.notes[0].rstrip(".")
                raise MissingPartError(f"{pattern!r} takes a GPU that is not there: {why}")
    return select(experiments, patterns)


def select(experiments: Sequence[Experiment], patterns: Sequence[str]) -> tuple[Experiment, ...]:
    """Return the experiments whose names match one of the patterns; all for no pattern.

    Raises
    ------
    InputError
        If a pattern matches nothing.
    """
    names = [e.name for e in experiments]
    chosen: set[str] = set()
    for pattern in patterns:
        found = fnmatch.filter(names, pattern)
        if not found:
            near = difflib.get_close_matches(pattern, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "'lanescope check --list' shows them"
            raise InputError(f"no case of this machine is named {shown(pattern)}; {hint}")
        chosen.update(found)
    return tuple(e for e in experiments if not patterns or e.name in chosen)


def _host_memory(
    machine: Machine, reader: NumaNode, source: NumaNode, destination: NumaNode
) -> list[Experiment]:
    """Copy and triad by the cores of `reader`, from one node's memory to another's."""
    cpus = tuple(core[0] for core in reader.cores)
    teams = [("1-core", "one core", cpus[:1])]
    if len(cpus) > 1:
        teams.append(("all-cores", f"all {len(cpus)} cores", cpus))
    remote = source is not destination
    path = f"{source.id}-{destination.id}" if remote else source.id
    where = f"{source.id} → {destination.id}" if remote else f"memory {source.id}"
    least = _predicted_bytes(machine) if machine.described else _SMALLEST_ARRAY
    size = min(_array_bytes(reader, node, least) for node in (source, destination))
    places = (Place(source.id, Memory.PAGEABLE), Place(destination.id, Memory.PAGEABLE))
    return [
        Experiment(
            name=f"host-{operation}/{path}/{team}",
            title=f"{where}: {operation}, {words}",
            copies=(Copy(*places, size, Engine.CPU, operation, used),),
            timing=Timing.HOST,
        )
        for operation in (Operation.COPY, Operation.TRIAD)
        for team, words, used in teams
    ]


def _predicted_bytes(machine: Machine) -> int:
    """Size of an array that is long enough to be predicted at the fastest rate in the host."""
    rates = [node.memory_gbs or 0.0 for node in machine.nodes]
    rates += [
        max(link.payload_gbs)
        for link in machine.links
        if link.kind is LinkKind.SOCKET and link.payload_gbs is not None
    ]
    return max(_SMALLEST_ARRAY, ceil(bytes_a_second(max(rates)) * _PREDICTED_SECONDS))


def _array_bytes(reader: NumaNode, node: NumaNode, least: int) -> int:
    """Size of an array in a node's memory that outgrows the caches of the reading cores."""
    wanted = max(least, _CACHE_MULTIPLE * (reader.cache_bytes or 0))
    if node.memory_bytes is not None:
        wanted = min(wanted, node.memory_bytes // _MEMORY_SHARE)
    return max(wanted // MIB, 1) * MIB


def _host_and_gpu(machine: Machine, gpu: Gpu, size: int) -> list[Experiment]:
    down = _host_copy(machine, gpu, Memory.PINNED, True, size)
    up = _host_copy(machine, gpu, Memory.PINNED, False, size)
    host = machine.nearest_node(gpu).id
    return [
        Experiment(f"h2d/{gpu.id}", f"{host} → {gpu.id}", (down,)),
        Experiment(f"d2h/{gpu.id}", f"{gpu.id} → {host}", (up,)),
        Experiment(f"h2d+d2h/{gpu.id}", f"{host} ⇄ {gpu.id}, both at once", (down, up)),
    ]


def _far_and_gpu(machine: Machine, gpu: Gpu, size: int) -> list[Experiment]:
    """Each way between a GPU and the memory of the other nodes: is the near one near?"""
    near = machine.nearest_node(gpu)
    experiments = []
    for node in machine.nodes:
        if node.index == near.index or node.memory_bytes == 0:
            continue
        for direction, down in (("h2d", True), ("d2h", False)):
            copy = _host_copy(machine, gpu, Memory.PINNED, down, size, node)
            name = f"{direction}/{gpu.id}/{node.id}"
            experiments.append(Experiment(name, f"{copy.path}, other node", (copy,)))
    return experiments


def _gpu_pair(gpu: Gpu, other: Gpu, size: int) -> list[Experiment]:
    there, back = (
        Copy(Place(a.id, Memory.DEVICE), Place(b.id, Memory.DEVICE), size, Engine.CE)
        for a, b in ((gpu, other), (other, gpu))
    )
    pair = f"{gpu.id}-{other.id}"
    return [
        Experiment(f"d2d/{pair}", there.path, (there,)),
        Experiment(f"d2d/{other.id}-{gpu.id}", back.path, (back,)),
        Experiment(f"d2d-both/{pair}", f"{gpu.id} ⇄ {other.id}, both at once", (there, back)),
    ]


def _host_copy(
    machine: Machine,
    gpu: Gpu,
    memory: Memory,
    down: bool,
    size: int,
    node: NumaNode | None = None,
) -> Copy:
    node = node or machine.nearest_node(gpu)
    host, device = Place(node.id, memory), Place(gpu.id, Memory.DEVICE)
    source, destination = (host, device) if down else (device, host)
    cpus = tuple(cpu for core in node.cores for cpu in core)
    return Copy(source, destination, size, Engine.CE, cpus=cpus)


def _sweep_point(
    machine: Machine, gpu: Gpu, memory: Memory, timing: Timing, down: bool, size: int
) -> Experiment:
    copy = _host_copy(machine, gpu, memory, down, size)
    direction = "h2d" if down else "d2h"
    clock = "events" if timing is Timing.GATE else "host-clock"
    return Experiment(
        name=f"sweep/{direction}/{gpu.id}/{memory}/{clock}/{size}",
        title=f"{copy.path}, {memory}, {clock}, {size} B",
        copies=(copy,),
        timing=timing,
        purpose=Purpose.SWEEP,
    )
