"""What a page says of the machine: parts, links, and what is not known."""

from __future__ import annotations

from lanescope.document.blocks import (
    Badge,
    Block,
    Bullets,
    Cell,
    Column,
    Facts,
    Group,
    Kind,
    Table,
    Text,
    Tone,
    Value,
    Words,
)
from lanescope.machine import Gpu, Link, LinkKind, Machine, NumaNode
from lanescope.report.format import MISSING, bytes_text, count_text, gbs_text
from lanescope.report.topology_layout import trained_down_text


def machine_blocks(machine: Machine) -> list[Block]:
    """Return the parts of a machine, its links, and what is not known of it."""
    blocks: list[Block] = []
    if machine.described:
        blocks.append(Text("Described in a file, not measured here."))
    blocks.append(_parts(machine))
    if machine.links:
        blocks.append(_links(machine))
    if machine.notes:
        blocks += [Text("What is not known, and why:"), Bullets(machine.notes)]
    return blocks


def _parts(machine: Machine) -> Facts:
    pairs: list[tuple[str, Words]] = [("CPU", machine.cpu or "not known")]
    pairs += [(f"NUMA node {n.id}", _node(n)) for n in machine.nodes]
    pairs += [(f"GPU {g.id}", _gpu(g)) for g in machine.gpus]
    if not machine.gpus:
        pairs.append(("GPUs", "none"))
    pairs.append(("NVIDIA driver", machine.driver or MISSING))
    pairs.append(("CUDA", machine.cuda_version or MISSING))
    if machine.latencies.source is not None:
        pairs.append(("Latencies for predictions", machine.latencies.source))
    return Facts(pairs)


def _links(machine: Machine) -> Table:
    columns = (
        Column("link"),
        Column("kind"),
        Column("generation", Kind.COUNT),
        Column("width", Kind.COUNT, "Lanes of PCIe, links of NVLink"),
        Column("raw GB/s", Kind.GBS, "What the wire carries one way after the line code"),
        Column("payload there GB/s", Kind.GBS, "From the first to the second part"),
        Column("payload back GB/s", Kind.GBS, "From the second to the first part"),
        Column("state"),
    )
    rows = [_link(link) for link in machine.links]
    return Table("Links and their limits, in each direction", columns, [Group(rows)])


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


def _gpu(gpu: Gpu) -> Words:
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
    if gpu.unavailable is None:
        return ", ".join(parts)
    return (", ".join(parts), "; ", Badge("not available", Tone.BAD), f": {gpu.unavailable}")


def _link(link: Link) -> list[Value | Cell]:
    generation, width = None, None
    if link.pcie is not None:
        generation, width = link.pcie.generation, f"x{link.pcie.width}"
    elif link.nvlink is not None:
        generation, width = link.nvlink.version, f"x{link.nvlink.count}"
    there, back = (None, None) if link.payload_gbs is None else link.payload_gbs
    kinds = {LinkKind.PCIE: "PCIe", LinkKind.NVLINK: "NVLink", LinkKind.SOCKET: "socket"}
    return [
        f"{link.a} – {link.b}",
        kinds[link.kind],
        generation,
        width,
        link.raw_gbs,
        there,
        back,
        _state(link),
    ]


def _state(link: Link) -> Value | Cell:
    if (warning := trained_down_text(link)) is not None:
        return Cell(warning, tone=Tone.BAD)
    nvlink = link.nvlink
    if nvlink is not None and nvlink.max_count is not None and nvlink.count < nvlink.max_count:
        return Cell(f"{nvlink.count} of {nvlink.max_count} links up", tone=Tone.BAD)
    return "as fast as both ends allow" if _best_known(link) else None


def _best_known(link: Link) -> bool:
    if link.pcie is not None:
        return link.pcie.max_generation is not None and link.pcie.max_width is not None
    return link.nvlink is not None and link.nvlink.max_count is not None
