"""The paper's machine, and small plans of its micro-benchmarks.

The machine is that of the paper's figure 3: two sockets, two GPUs on each; the GPUs
of socket 1 share a switch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from lanescope.copies import (
    Access,
    Caches,
    Copy,
    Engine,
    Experiment,
    Memory,
    Operation,
    Pattern,
    Place,
    Purpose,
    Route,
    Timing,
)
from lanescope.machine import Gpu, Link, LinkKind, Machine, NumaNode, PcieLink, Switch

GEN3 = PcieLink(3, 16, 3, 16, max_payload_bytes=256, max_read_request_bytes=512)
KIB, MIB = 1 << 10, 1 << 20
SIZES = tuple(4**i for i in range(3, 14))  # 64 B to 64 MiB
LARGEST = SIZES[-1]
HOST_KINDS = (Memory.PAGEABLE, Memory.PINNED, Memory.WRITE_COMBINED)
THREADS = (1, 2, 4, 8)


def node(index: int) -> NumaNode:
    cores = tuple((8 * index + i,) for i in range(8))
    return NumaNode(index, cores, 32 << 30, 20 << 20, 51.2, "4 modules of 1600 MT/s")


def paper_machine(sockets: int = 2, gpus: int = 4) -> Machine:
    links = [Link(f"h{i}", f"h{i + 1}", LinkKind.SOCKET) for i in range(sockets - 1)]
    switches = []
    for gpu in range(gpus):
        home = gpu // 2 if sockets > 1 else 0
        if home == 1:
            if not switches:
                switches.append(Switch("s0", "PCIe switch"))
                links.append(Link.of_pcie("h1", "s0", GEN3))
            links.append(Link.of_pcie("s0", f"g{gpu}", GEN3))
        else:
            links.append(Link.of_pcie(f"h{home}", f"g{gpu}", GEN3))
    return Machine(
        name="two-socket" if sockets > 1 else "one-node",
        cpu="2 x Intel Xeon E5-2650",
        nodes=tuple(node(i) for i in range(sockets)),
        gpus=tuple(
            Gpu(i, "Tesla K20Xm", i // 2 if sockets > 1 else 0, memory_bytes=6 << 30)
            for i in range(gpus)
        ),
        switches=tuple(switches),
        links=tuple(links),
    )


def cpu_of(machine: Machine, part: str, thread: int = 0) -> tuple[int, ...]:
    return machine.node(int(part[1:])).cores[thread % 8]


def point(name: str, copies: tuple[Copy, ...], timing: Timing = Timing.GATE) -> Experiment:
    """A point of the micro-benchmark that its name begins with."""
    first, second, *_ = name.split("/")
    purpose = Purpose.SOCKETS if second == "sockets" else Purpose(first)
    return Experiment(name, name, copies, timing, purpose)


def overhead(machine: Machine) -> Iterator[Experiment]:
    nodes = [n.id for n in machine.nodes]
    kinds = (*HOST_KINDS, Memory.HUGE)
    places = [Place(n, m) for n in nodes for m in kinds]
    places += [Place(g.id, m) for g in machine.gpus for m in (Memory.DEVICE, Memory.POOL)]
    for place, thread, size in itertools.product(places, nodes, SIZES):
        stages = [Operation.ALLOCATE, Operation.TOUCH, Operation.RELEASE]
        if not place.is_host:
            stages.remove(Operation.TOUCH)
        cpus = cpu_of(machine, thread)
        copies = tuple(Copy(place, place, size, Engine.CPU, o, cpus) for o in stages)
        name = f"overhead/{place.part}/{place.memory}/by-{thread}/{size}"
        yield point(name, copies, Timing.HOST)


def host(machine: Machine, patterns: tuple[Pattern, ...] = tuple(Pattern)) -> Iterator[Experiment]:
    nodes = [n.id for n in machine.nodes]
    for a, b, thread, memory in itertools.product(nodes, nodes, nodes, HOST_KINDS):
        for pattern, caches, size in itertools.product(patterns, Caches, SIZES):
            copy = Copy(
                Place(a, memory),
                Place(b, memory),
                size,
                Engine.CPU,
                cpus=cpu_of(machine, thread),
                access=Access(pattern, max(size, MIB), caches=caches),
            )
            name = f"host/{a}-{b}/by-{thread}/{memory}/{pattern}/{caches}/{size}"
            yield point(name, (copy,), Timing.HOST)


def hostdev(machine: Machine) -> Iterator[Experiment]:
    nodes = [n.id for n in machine.nodes]
    for direction, gpu, n, thread in itertools.product(("h2d", "d2h"), machine.gpus, nodes, nodes):
        for memory, timing, size in itertools.product(HOST_KINDS, ("sync", "async"), SIZES):
            if memory is Memory.PAGEABLE and timing == "async":
                continue
            ends = (Place(n, memory), Place(gpu.id, Memory.DEVICE))
            access = Access(Pattern.REPEATED)
            cpus = cpu_of(machine, thread)
            ends = ends if direction == "h2d" else ends[::-1]
            copy = Copy(*ends, size, Engine.CE, cpus=cpus, access=access)
            name = f"hostdev/{direction}/{gpu.id}/{n}/by-{thread}/{memory}/repeated/{timing}/{size}"
            yield point(name, (copy,), Timing.HOST if timing == "sync" else Timing.GATE)


def peer(machine: Machine) -> Iterator[Experiment]:
    parts = [Place(g.id, Memory.DEVICE) for g in machine.gpus]
    for a, b, route, size in itertools.product(parts, parts, Route, SIZES):
        if a == b and route is Route.STAGED:
            continue
        name = f"peer/{a.part}-{b.part}/{route}/{size}"
        yield point(name, (Copy(a, b, size, Engine.CE, route=route),))


def nurma(machine: Machine) -> Iterator[Experiment]:
    nodes = [n.id for n in machine.nodes]
    kinds = (Memory.PAGEABLE, Memory.SMALL_PAGES, Memory.HUGE)
    loads = (Operation.CHASE, Operation.CHASE_RANDOM, Operation.GATHER)
    for n, thread, memory, operation in itertools.product(nodes, nodes, kinds, loads):
        for stride, size in itertools.product((64, 5256), SIZES[1:]):
            access = Access(stride_bytes=stride, span_bytes=max(size, size // 8 * stride))
            place = Place(n, memory)
            cpus = cpu_of(machine, thread)
            copy = Copy(place, place, size, Engine.CPU, operation, cpus, access=access)
            name = f"nurma/{n}/by-{thread}/{memory}/{operation}/{stride}/{size}"
            yield point(name, (copy,), Timing.HOST)


STREAM = (Operation.COPY, Operation.SCALE, Operation.ADD, Operation.TRIAD)


def contention(machine: Machine) -> Iterator[Experiment]:
    nodes = [n.id for n in machine.nodes]
    groups = [(n,) for n in nodes] + ([tuple(nodes)] if len(nodes) > 1 else [])
    for group, operation, threads in itertools.product(groups, STREAM, THREADS):
        copies = tuple(
            stream(machine, part, part, part, operation, i // len(group))
            for i, part in zip(range(threads), itertools.cycle(group), strict=False)
        )
        name = f"contention/memory/{'+'.join(group)}/{operation}/{threads}"
        yield point(name, copies, Timing.HOST)
    for a, b in itertools.permutations(nodes, 2):
        for operation, threads in itertools.product(STREAM, THREADS):
            copies = tuple(stream(machine, a, a, b, operation, i) for i in range(threads))
            name = f"contention/sockets/{a}-{b}/{operation}/{threads}"
            yield point(name, copies, Timing.HOST)
            if a < b:
                back = tuple(stream(machine, b, b, a, operation, i) for i in range(threads))
                name = f"contention/sockets/{a}-{b}-both/{operation}/{threads}"
                yield point(name, copies + back, Timing.HOST)
    yield from pcie(machine)


def pcie(machine: Machine) -> Iterator[Experiment]:
    gpus = machine.gpus
    sets = [(g,) for g in gpus] + list(itertools.combinations(gpus, 2))
    sets += [gpus] if len(gpus) > 2 else []
    wheres = ("near", "far") if len(machine.nodes) > 1 else ("h0",)
    for chosen, direction, where in itertools.product(sets, ("h2d", "d2h", "both"), wheres):
        for streams in (1, 2, 4):
            copies = []
            for gpu in chosen:
                home = machine.nearest_node(gpu).index
                host_node = 1 - home if where == "far" else home
                down = (Place(f"h{host_node}", Memory.PINNED), Place(gpu.id, Memory.DEVICE))
                ends = {"h2d": [down], "d2h": [down[::-1]], "both": [down, down[::-1]]}[direction]
                copies += [Copy(*e, LARGEST, Engine.CE) for e in ends for _ in range(streams)]
            who = "+".join(g.id for g in chosen)
            name = f"contention/pcie/{who}/{direction}/{where}/{streams}"
            yield point(name, tuple(copies))


def stream(
    machine: Machine, source: str, destination: str, thread: str, operation: Operation, core: int
) -> Copy:
    ends = (Place(source, Memory.PAGEABLE), Place(destination, Memory.PAGEABLE))
    return Copy(*ends, LARGEST, Engine.CPU, operation, cpu_of(machine, thread, core))


PARTS = (overhead, host, hostdev, peer, nurma, contention)
