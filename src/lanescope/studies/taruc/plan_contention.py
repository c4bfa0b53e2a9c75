"""Contention: more and more threads and streams at the same memory, sockets and links."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.terms import Access, Memory, Place
from lanescope.machine import Gpu, Machine, NumaNode
from lanescope.studies.taruc.axes import Axes, Planned, cache_bytes
from lanescope.studies.taruc.parameters import WORD_BYTES, ContentionParameters

OPERATIONS = (Operation.COPY, Operation.SCALE, Operation.ADD, Operation.TRIAD)
#: STREAM's rule: an array is at least four times the last-level caches.
_CACHE_MULTIPLE = 4
_MIB = 1 << 20
#: Up to here every number of threads is tried.
_EVERY_UP_TO = 16

#: A thread: the CPU that it is pinned to, and the node of the memory that it works on.
Seat = tuple[int, NumaNode]


def thread_counts(most: int) -> tuple[int, ...]:
    """Return numbers of threads: all up to 16, else 1, 2, 3, 4, 6, 8, 12, 16 ... and the most.

    >>> thread_counts(24)
    (1, 2, 3, 4, 6, 8, 12, 16, 24)
    """
    if most <= _EVERY_UP_TO:
        return tuple(range(1, most + 1))
    steps = {1, most}
    power = 2
    while power <= most:
        steps |= {power, power * 3 // 2}
        power *= 2
    return tuple(sorted(step for step in steps if step <= most))


def seats(node: NumaNode, count: int) -> tuple[int, ...]:
    """Return CPUs for so many threads on a node: a core each, then its other CPUs, then again."""
    rounds = itertools.zip_longest(*node.cores)
    order = [cpu for cpus in rounds for cpu in cpus if cpu is not None]
    return tuple(order[i % len(order)] for i in range(count))


def memory_points(nodes: Sequence[NumaNode], section: ContentionParameters) -> Iterator[Experiment]:
    """Return threads on their own node's memory: 1 to twice the cores, one node and all."""
    usable = [node for node in nodes if node.cores]
    sets = [[node] for node in usable]
    if len(usable) > 1:
        sets.append(usable)
    for together in sets:
        most = 2 * sum(len(node.cores) for node in together)
        for count in thread_counts(most):
            shares = _shares(together, count)
            taken = [(cpu, node) for node in together for cpu in seats(node, shares[node.index])]
            size = section.memory_bytes or _array_bytes(together, count)
            for operation in OPERATIONS:
                names = "+".join(node.id for node in together)
                name = f"memory/{names}/{operation}/{count}"
                yield _point(name, taken, size, operation)


def socket_points(nodes: Sequence[NumaNode], section: ContentionParameters) -> Iterator[Experiment]:
    """Return threads of one node on another's memory: each pair, each way and both at once."""
    for a, b in itertools.permutations(nodes, 2):
        for count in thread_counts(len(a.cores)) if a.cores else ():
            size = section.socket_bytes or _array_bytes([a, b], count)
            there = [(cpu, b) for cpu in seats(a, count)]
            for operation in OPERATIONS:
                yield _point(f"sockets/{a.id}-{b.id}/{operation}/{count}", there, size, operation)
    for a, b in itertools.combinations([n for n in nodes if n.cores], 2):
        for count in thread_counts(min(len(a.cores), len(b.cores))):
            size = section.socket_bytes or _array_bytes([a, b], 2 * count)
            crossed = [(cpu, b) for cpu in seats(a, count)] + [(cpu, a) for cpu in seats(b, count)]
            for operation in OPERATIONS:
                name = f"sockets/{a.id}-{b.id}-both/{operation}/{count}"
                yield _point(name, crossed, size, operation)


def _shares(nodes: Sequence[NumaNode], count: int) -> dict[int, int]:
    """Return how many threads each node gets: in turn, and none more than its cores allow."""
    shares = {node.index: 0 for node in nodes}
    while count:
        for node in nodes:
            if count and shares[node.index] < 2 * len(node.cores):
                shares[node.index] += 1
                count -= 1
    return shares


def _array_bytes(nodes: Sequence[NumaNode], count: int) -> int:
    """Return the size of one of `count` arrays that together outgrow the caches, in whole MiB."""
    caches = sum(cache_bytes(node) for node in nodes if node.cores)
    return -(-_CACHE_MULTIPLE * caches // (count * _MIB)) * _MIB


def _point(name: str, taken: Sequence[Seat], size: int, operation: Operation) -> Experiment:
    size = max(size // WORD_BYTES, 1) * WORD_BYTES  # threads work on whole numbers
    copies = tuple(
        Copy(place, place, size, Engine.CPU, operation, (cpu,))
        for cpu, node in taken
        for place in (Place(node.id, Memory.PAGEABLE),)
    )
    kind, where, _, _ = name.split("/")
    words = "1 thread" if len(taken) == 1 else f"{len(taken)} threads"
    place_words = (
        f"memory of {where}" if kind == "memory" else f"from {where.replace('-', ' to ', 1)}"
    )
    title = f"{words}, {place_words}: {operation}"
    purpose = Purpose.CONTENTION if kind == "memory" else Purpose.SOCKETS
    return Experiment(f"contention/{name}", title, copies, Timing.HOST, purpose)


MOST_STREAMS = 4
_DIRECTIONS = {"h2d": (True,), "d2h": (False,), "both": (True, False)}


def pcie_points(
    machine: Machine, nodes: Sequence[NumaNode], gpus: Sequence[Gpu], section: ContentionParameters
) -> Iterator[Experiment]:
    """Return each GPU, each pair, all: near and far memory, each way and both, 1 to 4 streams.

    A copy for each stream; both ways have so many streams each.
    """
    for together in _sets(gpus):
        for where, homes in _homes(machine, nodes, together).items():
            for direction, directions in _DIRECTIONS.items():
                for streams in range(1, MOST_STREAMS + 1):
                    copies = tuple(
                        _copy(home, gpu, down, section.pcie_bytes)
                        for gpu, home in zip(together, homes, strict=True)
                        for down in directions
                        for _ in range(streams)
                    )
                    names = "+".join(gpu.id for gpu in together)
                    yield Experiment(
                        f"contention/pcie/{names}/{direction}/{where}/{streams}",
                        f"{names}, {direction}, {where} memory, {streams} to each",
                        copies,
                        purpose=Purpose.CONTENTION,
                    )


def _sets(gpus: Sequence[Gpu]) -> tuple[tuple[Gpu, ...], ...]:
    every = [tuple(gpus)] if gpus else []
    alone = [(gpu,) for gpu in gpus]
    return tuple(dict.fromkeys([*alone, *itertools.combinations(gpus, 2), *every]))


def _homes(
    machine: Machine, nodes: Sequence[NumaNode], gpus: Sequence[Gpu]
) -> dict[str, list[NumaNode]]:
    """Return where the host memory lies, for each GPU: near, far, or all on one node.

    Of two nodes, far is the other one of each GPU. Of more, each has its own name.
    """
    if not nodes:
        return {}
    near = [home if (home := machine.nearest_node(gpu)) in nodes else nodes[0] for gpu in gpus]
    homes = {"near": near}
    if len(nodes) == 2:
        homes["far"] = [nodes[1] if home is nodes[0] else nodes[0] for home in near]
    elif len(nodes) > 2:
        homes |= {node.id: [node] * len(gpus) for node in nodes if {node.index} != _indices(near)}
    return homes


def _indices(nodes: Sequence[NumaNode]) -> set[int]:
    return {node.index for node in nodes}


def _copy(node: NumaNode, gpu: Gpu, down: bool, size: int) -> Copy:
    host, device = Place(node.id, Memory.PINNED), Place(gpu.id, Memory.DEVICE)
    source, destination = (host, device) if down else (device, host)
    # a walk of one block: so its clock is calibrated like that of the other points
    return Copy(source, destination, size, Engine.CE, access=Access(span_bytes=size))


def contention_experiments(axes: Axes) -> Planned:
    """Return sets of copies: memory channels, links between sockets, PCIe links."""
    nodes, section = axes.memory_nodes(), axes.parameters.contention
    pcie = pcie_points(axes.machine, nodes, axes.gpus(), section)
    parts = [
        axes.fitting(memory_points(nodes, section), f"{Purpose.CONTENTION}/memory"),
        axes.fitting(socket_points(nodes, section), f"{Purpose.CONTENTION}/sockets"),
        axes.fitting(pcie, f"{Purpose.CONTENTION}/pcie"),
    ]
    return Planned(
        tuple(e for part in parts for e in part.experiments),
        _notes(nodes) + tuple(note for part in parts for note in part.notes),
    )


def _notes(nodes: Iterable[NumaNode]) -> tuple[str, ...]:
    return tuple(
        f"{Purpose.CONTENTION}: {node.id} has memory but no core that may be used: no thread runs "
        "there."
        for node in nodes
        if not node.cores
    )
