"""What the page says of the machine: parts, links, and what is not known."""

from __future__ import annotations

from lanescope.machine import Gpu, Link, LinkKind, Machine, NumaNode
from lanescope.report.format import MISSING, bytes_text, count_text, gbs_text
from lanescope.report.html import Cell, Column, Group, Markup, definitions, items, table, text
from lanescope.report.topology_boxes import trained_down_text


def machine_summary(machine: Machine) -> str:
    """Return the parts of the machine as a list of terms."""
    pairs: list[tuple[str, Cell]] = [("CPU", machine.cpu or "not known")]
    pairs += [(f"NUMA node {n.id}", _node(n)) for n in machine.nodes]
    pairs += [(f"GPU {g.id}", _gpu(g)) for g in machine.gpus]
    if not machine.gpus:
        pairs.append(("GPUs", "none"))
    pairs.append(("NVIDIA driver", machine.driver or MISSING))
    pairs.append(("CUDA", machine.cuda_version or MISSING))
    if machine.latencies.source is not None:
        pairs.append(("Latencies for predictions", machine.latencies.source))
    return definitions(pairs)


def links_table(machine: Machine) -> str:
    """Return every link with what it runs at and what it can carry; empty without links."""
    if not machine.links:
        return ""
    columns = (
        Column("Link"),
        Column("Kind"),
        Column("Generation", number=True),
        Column("Width", number=True, hint="Lanes of PCIe, links of NVLink"),
        Column("Raw, GB/s", number=True, hint="What the wire carries one way after the line code"),
        Column("Payload there, GB/s", number=True, hint="From the first to the second part"),
        Column("Payload back, GB/s", number=True, hint="From the second to the first part"),
        Column("State"),
    )
    rows = [_link(link) for link in machine.links]
    return table(columns, [Group(rows)], "Links and their limits, in each direction")


def machine_notes(machine: Machine) -> str:
    """Return what is not known or not there, each with its remedy; empty without notes."""
    return items(machine.notes) if machine.notes else ""


def _node(node: NumaNode) -> str:
    parts = [count_text(len(node.cores), "core") if node.cores else "no cores"]
    if node.memory_bytes is not None:
        size = f"{bytes_text(node.memory_bytes)} of " if node.memory_bytes else "no "
        parts.append(f"{size}memory")
    if node.cache_bytes is not None:
        parts.append(f"{bytes_text(node.cache_bytes)} of last-level cache")
    if node.memory_gbs is not None:
        parts.append(f"memory limit {gbs_text(node.memory_gbs)} GB/s")
    else:
        parts.append("memory limit not known")
    if node.memory_detail is not None:
        parts[-1] += f" ({node.memory_detail})"
    return ", ".join(parts)


def _gpu(gpu: Gpu) -> Cell:
    parts = [gpu.name]
    if gpu.memory_bytes is not None:
        parts.append(bytes_text(gpu.memory_bytes))
    if gpu.compute_capability is not None:
        parts.append("compute capability {}.{}".format(*gpu.compute_capability))
    if gpu.multiprocessors is not None:
        parts.append(f"{gpu.multiprocessors} multiprocessors")
    if gpu.copy_engines is not None:
        parts.append(count_text(gpu.copy_engines, "copy engine"))
    if gpu.pci_address is not None:
        parts.append(gpu.pci_address)
    parts.append("nearest node not known" if gpu.node is None else f"near h{gpu.node}")
    words = text(", ".join(parts))
    if gpu.unavailable is not None:
        words += f'<span class="warn">Not available: {text(gpu.unavailable)}</span>'
    return Markup(words)


def _link(link: Link) -> list[Cell]:
    generation, width = MISSING, MISSING
    if link.pcie is not None:
        generation, width = str(link.pcie.generation), f"x{link.pcie.width}"
    elif link.nvlink is not None:
        version = link.nvlink.version
        generation = MISSING if version is None else str(version)
        width = f"x{link.nvlink.count}"
    there, back = (None, None) if link.payload_gbs is None else link.payload_gbs
    kinds = {LinkKind.PCIE: "PCIe", LinkKind.NVLINK: "NVLink", LinkKind.SOCKET: "socket"}
    return [
        f"{link.a} – {link.b}",
        kinds[link.kind],
        generation,
        width,
        gbs_text(link.raw_gbs),
        gbs_text(there),
        gbs_text(back),
        _state(link),
    ]


def _state(link: Link) -> Cell:
    if (warning := trained_down_text(link)) is not None:
        return Markup(f'<span class="warn">{text(warning)}</span>')
    nvlink = link.nvlink
    if nvlink is not None and nvlink.max_count is not None and nvlink.count < nvlink.max_count:
        return Markup(f'<span class="warn">{nvlink.count} of {nvlink.max_count} links up</span>')
    return "as fast as both ends allow" if _best_known(link) else MISSING


def _best_known(link: Link) -> bool:
    if link.pcie is not None:
        return link.pcie.max_generation is not None and link.pcie.max_width is not None
    return link.nvlink is not None and link.nvlink.max_count is not None
