"""A machine as a tree for a terminal."""

from __future__ import annotations

from rich.tree import Tree

from lanescope.machine import Gpu, HostBandwidth, Link, LinkKind, Machine, Nic, NumaNode
from lanescope.machine.part_names import part_name
from lanescope.report import format as fmt


def machine_tree(machine: Machine) -> Tree:
    """Return the machine as a tree: nodes, what hangs below them, the GPU fabric."""
    kind = "described machine" if machine.described else "machine"
    facts = [kind, machine.name]
    if machine.cpu:
        facts.append(f"({machine.cpu})")
    tree = Tree(" ".join(facts))
    driver = f"driver {machine.driver}" if machine.driver else "no NVIDIA driver"
    if machine.cuda_version:
        driver += f", CUDA {machine.cuda_version}"
    tree.add(driver)
    for node in machine.nodes:
        branch = tree.add(_node_text(node))
        for known in machine.host_bandwidth:
            if known.node == node.index:
                branch.add(host_bandwidth_text(known))
        _add_below(branch, machine, node.id, {node.id})
    for nic in machine.nics:
        tree.add(nic_text(nic))
    for link in machine.links:
        if link.kind is not LinkKind.PCIE:
            tree.add(f"{link.a} – {link.b}: {link_text(link)}")
    return tree


def link_text(link: Link) -> str:
    """Return a link with its limits, and what it lost when it is trained down."""
    text = link.label
    if link.raw_gbs is not None:
        text += f", raw {fmt.gbs_text(link.raw_gbs)}"
    if link.payload_gbs is not None:
        there, back = link.payload_gbs
        text += f", payload {fmt.gbs_text(there)} ↓ {fmt.gbs_text(back)} ↑ GB/s"
    if link.pcie is not None and link.pcie.trained_down:
        best = link.pcie.at_best()
        text += f" (now; up to {best.generation}.0 x{best.width}, which the limits are for)"
    return text


def host_bandwidth_text(known: HostBandwidth) -> str:
    """Return what some GPUs together read and write of a node's memory, in a line."""
    rates = [f"{name} {fmt.gbs_text(gbs)}" for name, gbs in known.rates]
    gpus = ", ".join(part_name("g", gpu) for gpu in known.gpus)
    early = f"{known.at_capacity:.0%} of it when they ask for just that; "
    how = f"{'' if known.at_capacity == 1 else early}± {known.spread:.1%}, measured"
    return f"{gpus} together: {', '.join(rates)} GB/s at most ({how})"


def nic_text(nic: Nic) -> str:
    """Return a NIC's port in a line: its network, its PCIe link, and the GPUs that it is near."""
    facts = [nic.layer or "RDMA"]
    if nic.rate_gbps is not None:
        facts.append(f"{nic.rate_gbps:g} Gbit/s")
    if nic.state is not None:
        facts.append(nic.state)
    if nic.pcie is not None:
        facts.append(f"PCIe {nic.pcie.generation}.0 x{nic.pcie.width}")
    if nic.pci_address is not None:
        facts.append(nic.pci_address)
    near = ", ".join(nic.gpus) or (None if nic.node is None else f"h{nic.node}")
    if near is not None:
        facts.append(f"near {near}")
    return f"{nic.id}: {', '.join(facts)}"


def _add_below(branch: Tree, machine: Machine, part: str, drawn: set[str]) -> None:
    for link in machine.links:
        if link.kind is LinkKind.PCIE and link.a == part and link.b not in drawn:
            drawn.add(link.b)
            below = branch.add(f"{_part_text(machine, link.b)} over {link_text(link)}")
            _add_below(below, machine, link.b, drawn)


def _part_text(machine: Machine, part: str) -> str:
    for gpu in machine.gpus:
        if gpu.id == part:
            return _gpu_text(gpu)
    for switch in machine.switches:
        if switch.id == part:
            return f"{switch.id}: {switch.name}"
    return part


def _node_text(node: NumaNode) -> str:
    threads = sum(len(core) for core in node.cores)
    cores = len(node.cores)
    facts = [f"{fmt.count_text(cores, 'core')}, {fmt.count_text(threads, 'thread')}"]
    if node.memory_bytes is not None:
        size = f"{fmt.bytes_text(node.memory_bytes)} " if node.memory_bytes else "no "
        facts.append(f"{size}memory")
    if node.memory_gbs is not None:
        facts.append(f"limit {fmt.gbs_text(node.memory_gbs)} GB/s")
    if node.cache_bytes is not None:
        facts.append(f"{fmt.bytes_text(node.cache_bytes)} last-level cache")
    return f"{node.id}: " + ", ".join(facts)


def _gpu_text(gpu: Gpu) -> str:
    facts = [gpu.name]
    if gpu.memory_bytes is not None:
        facts.append(fmt.bytes_text(gpu.memory_bytes))
    if gpu.pci_address:
        facts.append(gpu.pci_address)
    if gpu.unavailable:
        facts.append(f"not usable: {gpu.unavailable}")
    return f"{gpu.id}: " + ", ".join(facts)
