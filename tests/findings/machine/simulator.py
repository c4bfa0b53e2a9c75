"""Machines, and runs of them with planted faults."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lanescope.copies import Copy, Engine, Experiment, Memory, Place, Timing
from lanescope.copies.limit import limits
from lanescope.machine import (
    Gpu,
    Link,
    LinkKind,
    Machine,
    NumaNode,
    NvLink,
    PcieLink,
    Switch,
    machine_named,
)
from lanescope.results import CopyResult, Result, Source, Status, Verdict, summarise

GIB = 1 << 30
SIZE = 512 << 20
GEN5 = PcieLink(5, 16, 5, 16, max_payload_bytes=256, max_read_request_bytes=4096)
GEN4 = PcieLink(4, 16, 4, 16, max_payload_bytes=256, max_read_request_bytes=512)
#: Shares of the limit that healthy hardware reaches.
EFFICIENCY = {LinkKind.PCIE: 0.95, LinkKind.NVLINK: 0.88, "memory": 0.7}

#: Changes a copy's rate in GB/s.
Fault = Callable[[Experiment, Copy, float], float]


def switched() -> Machine:
    """Two sockets with two PCIe 4.0 switches each, two GPUs on a switch, no NVLink."""
    links = [Link("h0", "h1", LinkKind.SOCKET)]
    for switch in range(4):
        links.append(Link.of_pcie(f"h{switch // 2}", f"s{switch}", GEN4))
        links += [Link.of_pcie(f"s{switch}", f"g{2 * switch + i}", GEN4) for i in (0, 1)]
    return Machine(
        name="switched",
        nodes=tuple(node(i, 204.8) for i in (0, 1)),
        gpus=tuple(gpu(i, i // 4) for i in range(8)),
        switches=tuple(Switch(f"s{i}", "PCIe switch", f"0000:{i}0:00.0") for i in range(4)),
        links=tuple(links),
    )


def nvswitched(gpus: int = 8) -> Machine:
    """Two sockets, up to four GPUs on links of their own on each, all on an NVSwitch."""
    links = [Link("h0", "h1", LinkKind.SOCKET)]
    links += [Link.of_pcie(f"h{i // 4}", f"g{i}", GEN5) for i in range(gpus)]
    links += [Link.of_nvlink(f"g{i}", "nvswitch", NvLink(18, 26.5625, 4, 18)) for i in range(gpus)]
    return Machine(
        name="nvswitched",
        nodes=tuple(node(i, 1200.0) for i in (0, 1)),
        gpus=tuple(gpu(i, i // 4) for i in range(gpus)),
        switches=(Switch("nvswitch", "NVLink switch"),),
        links=tuple(links),
    )


def h200s() -> Machine:
    return machine_named("h200-x2")


def node(index: int, gbs: float) -> NumaNode:
    cores = tuple((8 * index + i,) for i in range(8))
    return NumaNode(index, cores, 256 * GIB, 32 << 20, gbs, "modules")


def gpu(index: int, near: int) -> Gpu:
    return Gpu(index, "Test GPU", near, f"0000:{0x17 + index:02X}:00.0")


def changed_link(machine: Machine, part: str, **state: int) -> Machine:
    """Return the machine with the PCIe link above a part made slower, really."""
    return replace(
        machine,
        links=tuple(
            Link.of_pcie(ln.a, ln.b, replace(ln.pcie, **state))
            if ln.pcie is not None and ln.b == part
            else ln
            for ln in machine.links
        ),
    )


def slower_link(machine: Machine, part: str, generation: int, width: int) -> Machine:
    """Return what a machine with a trained-down link really is."""
    best = {"max_generation": generation, "max_width": width}
    return changed_link(machine, part, generation=generation, width=width, **best)


def with_nvlinks(machine: Machine, part: str, count: int) -> Machine:
    return replace(
        machine,
        links=tuple(
            Link.of_nvlink(ln.a, ln.b, replace(ln.nvlink, count=count))
            if ln.nvlink is not None and ln.a == part
            else ln
            for ln in machine.links
        ),
    )


def down(gpu: int, node: int = 0, size: int = SIZE) -> Copy:
    places = Place(f"h{node}", Memory.PINNED), Place(f"g{gpu}", Memory.DEVICE)
    return Copy(*places, size, Engine.CE)


def up(gpu: int, node: int = 0, size: int = SIZE) -> Copy:
    places = Place(f"g{gpu}", Memory.DEVICE), Place(f"h{node}", Memory.PINNED)
    return Copy(*places, size, Engine.CE)


def peer(a: int, b: int) -> Copy:
    return Copy(Place(f"g{a}", Memory.DEVICE), Place(f"g{b}", Memory.DEVICE), SIZE, Engine.CE)


def experiment(*copies: Copy) -> Experiment:
    pageable = copies[0].engine is Engine.CPU
    name = " + ".join(copy.path for copy in copies)
    return Experiment(name, name, copies, Timing.HOST if pageable else Timing.GATE)


def whole_matrix(machine: Machine) -> list[Experiment]:
    """Every pair of places alone, both ways, and all GPUs with their near nodes at once."""
    near = {g.index: g.node or 0 for g in machine.gpus}
    found = []
    for n in machine.nodes:
        place = Place(n.id, Memory.PAGEABLE)
        cpus = tuple(core[0] for core in n.cores)
        found.append(experiment(Copy(place, place, SIZE, Engine.CPU, cpus=cpus)))
        for i in near:
            found += [experiment(down(i, n.index)), experiment(up(i, n.index))]
    found += [experiment(down(i, n), up(i, n)) for i, n in near.items()]
    for a, b in itertools.combinations(near, 2):
        found += [experiment(peer(a, b)), experiment(peer(b, a))]
        found.append(experiment(peer(a, b), peer(b, a)))
    if len(near) > 1:
        found.append(experiment(*(down(i, n) for i, n in near.items())))
        found.append(experiment(*(up(i, n) for i, n in near.items())))
        found.append(
            experiment(*(direction(i, n) for i, n in near.items() for direction in (down, up)))
        )
    return found


def simulate(
    truth: Machine,
    experiments: Sequence[Experiment] | None = None,
    fault: Fault | None = None,
    *,
    noise: float = 0.002,
    seed: int = 1,
    staged: bool = False,
) -> list[Result]:
    """Return what a run would see: limits of the true machine, times efficiency, with noise."""
    random = np.random.default_rng(seed)
    results = []
    for case in whole_matrix(truth) if experiments is None else experiments:
        copies = []
        for copy, limit in zip(case.copies, limits(truth, case), strict=True):
            # The rest are far copies, over links between sockets of unknown speed.
            gbs = (limit.gbs or 200.0) * EFFICIENCY.get(limit.kind or "", 0.93)
            gbs = fault(case, copy, gbs) if fault is not None else gbs
            gbs *= 1 + noise * random.uniform(-1, 1)
            copies.append(copy_result(copy, gbs, 1 + 0.002 * random.uniform(-1, 1, 9)))
        peers = not any(c.source.is_host or c.destination.is_host for c in case.copies)
        results.append(
            Result(case, Source.MEASURED, tuple(copies), "GPU events", staged=staged and peers)
        )
    return results


def measured(*rates: tuple[Copy, float]) -> Result:
    """Return the result of one experiment with given rates in GB/s."""
    case = experiment(*(copy for copy, _ in rates))
    copies = tuple(copy_result(copy, gbs, np.ones(9)) for copy, gbs in rates)
    return Result(case, Source.MEASURED, copies, "GPU events")


def copy_result(copy: Copy, gbs: float, wobble: np.ndarray) -> CopyResult:
    seconds = copy.counted_bytes / gbs / 1e9 * wobble
    verdict = Verdict(Status.UNJUDGED, "a simulation")
    return CopyResult(copy, seconds, summarise(seconds), None, "a simulation", verdict)
