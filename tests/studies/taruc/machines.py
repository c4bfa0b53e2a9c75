"""Machines that nobody here has: shapes that plans must fit."""

import dataclasses

from lanescope.machine import Gpu, Link, LinkKind, Machine, NumaNode, PcieLink, Switch
from lanescope.machine.files import machine_named

GIB, MIB = 1 << 30, 1 << 20
GEN4 = PcieLink(4, 16, 4, 16, 256, 512)


def node(index, first, cores, *, memory=64 * GIB, cache=32 * MIB, smt=0):
    """A node with cores from CPU `first` on; `smt` is from a CPU to its sibling, 0 for none."""
    own = tuple((first + i, first + i + smt) if smt else (first + i,) for i in range(cores))
    return NumaNode(index, own, memory, cache)


def one_node():
    return Machine("one-node", nodes=(node(0, 0, 2, memory=24 * GIB),))


def one_gpu():
    gpus = (Gpu(0, "Test GPU", 0, memory_bytes=24 * GIB),)
    links = (Link.of_pcie("h0", "g0", GEN4),)
    return Machine("one-gpu", nodes=(node(0, 0, 8),), gpus=gpus, links=links)


def paper():
    """Figure 3 of the TARUC paper."""
    return machine_named("taruc-2017")


def eight_gpus():
    """Two sockets, four switches, eight GPUs that all reach each other."""
    nodes = (node(0, 0, 24, smt=48), node(1, 24, 24, smt=48))
    gpus = tuple(Gpu(i, "Test GPU", i // 4, memory_bytes=80 * GIB) for i in range(8))
    switches = tuple(Switch(f"s{i}", "PCIe switch") for i in range(4))
    links = [Link("h0", "h1", LinkKind.SOCKET, payload_gbs=(50.0, 50.0))]
    links += [Link.of_pcie(f"h{i // 2}", f"s{i}", GEN4) for i in range(4)]
    links += [Link.of_pcie(f"s{i // 2}", f"g{i}", GEN4) for i in range(8)]
    return Machine("eight-gpus", None, nodes, gpus, switches, tuple(links))


def epyc():
    """One EPYC as four nodes (NPS4), a GPU at the last."""
    nodes = tuple(node(i, 6 * i, 6, smt=24, cache=64 * MIB) for i in range(4))
    gpus = (Gpu(0, "Test GPU", 3, memory_bytes=48 * GIB),)
    links = (Link.of_pcie("h3", "g0", GEN4),)
    return Machine("epyc-nps4", None, nodes, gpus, links=links)


def without_memory():
    """The second node has cores and no memory."""
    return Machine("no-memory", nodes=(node(0, 0, 4), node(1, 4, 4, memory=0)))


def without_cores():
    """The second node has memory and no cores."""
    return Machine("no-cores", nodes=(node(0, 0, 4), NumaNode(1, (), 128 * GIB)))


def in_a_container():
    """What a process sees of the paper's machine that may use three CPUs of one node."""
    machine = paper()
    narrow = dataclasses.replace(machine.nodes[0], cores=((2,), (3, 19)))
    bare = dataclasses.replace(machine.nodes[1], cores=())
    return dataclasses.replace(machine, nodes=(narrow, bare))


def little_memory():
    machine = one_gpu()
    small = dataclasses.replace(machine.nodes[0], memory_bytes=1 * GIB)
    gpu = dataclasses.replace(machine.gpus[0], memory_bytes=1 * GIB)
    return dataclasses.replace(machine, nodes=(small,), gpus=(gpu,))


ALL = (
    *(one_node, one_gpu, paper, eight_gpus, epyc),
    *(without_memory, without_cores, in_a_container, little_memory),
)
