"""What nodes of a kind have in common: software, firmware, links and layout."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from lanescope.machine import Link, Machine
from lanescope.machine.sysfs import bridges_above, redirects_peers
from lanescope.report.format import count_text

_IOMMUS = Path("/sys/class/iommu")


def configuration_of(machine: Machine) -> dict[str, str]:
    """Return a machine's configuration by name; what is not known is left out.

    What changes while a machine is sound is not in it: how fast an idle link is now, free memory.
    """
    found = {
        "CPU": machine.cpu,
        "kernel": platform.release(),
        "driver": machine.driver,
        "CUDA": machine.cuda_version,
        "IOMMU": _iommu(),
        "ACS": _acs(machine),
        "GPUs": str(len(machine.gpus)),
    }
    for node in machine.nodes:
        found[f"{node.id} cores"] = str(len(node.cores))
        found[f"{node.id} memory"] = _gib(node.memory_bytes)
    for gpu in machine.gpus:
        found |= {
            f"{gpu.id} model": gpu.name,
            f"{gpu.id} memory": _gib(gpu.memory_bytes),
            f"{gpu.id} VBIOS": gpu.vbios,
            f"{gpu.id} nearest node": None if gpu.node is None else f"h{gpu.node}",
            f"{gpu.id} peers": None if gpu.peers is None else " ".join(f"g{i}" for i in gpu.peers),
        }
    for link in machine.links:
        found[f"link {link.a}-{link.b}"] = _link(link)
    return {name: value for name, value in found.items() if value}


def _gib(size: int | None) -> str | None:
    """In whole steps of 4 GiB: the kernel keeps a little more or less of it."""
    return None if size is None else f"about {round(size / (4 << 30)) * 4} GiB"


def _link(link: Link) -> str | None:
    if link.pcie is not None:
        pcie = link.pcie
        payload = f", payload {pcie.max_payload_bytes} B" if pcie.max_payload_bytes else ""
        return f"PCIe {pcie.max_generation or pcie.generation}.0 x{pcie.width}{payload}"
    return None if link.nvlink is None else count_text(link.nvlink.count, "NVLink")


def _acs(machine: Machine, root: Path = Path("/sys")) -> str | None:
    """Say at which bridges above GPUs peers are redirected; None where nobody may read it."""
    bridges: dict[str, bytes] = {}
    for gpu in machine.gpus:
        if gpu.pci_address is not None:
            bridges |= bridges_above(gpu.pci_address, root)
    found = {address: redirects_peers(config) for address, config in bridges.items()}
    if not found or None in found.values():
        return None
    count = sum(map(bool, found.values()))
    return f"redirects peers at {count_text(count, 'bridge')}" if count else "off"


def _iommu() -> str | None:
    try:
        return "on" if os.listdir(_IOMMUS) else "off"
    except OSError:
        return None
