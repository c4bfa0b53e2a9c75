"""Reads hwloc's XML: packages, NUMA nodes, cores, caches, and where devices hang."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

from lanescope.machine.machine import NumaNode


@dataclass(frozen=True, slots=True)
class HwlocMachine:
    """What lanescope takes from hwloc.

    Attributes
    ----------
    device_nodes
        For each PCI address the nearest NUMA node with cores, where exactly one is.
    """

    cpu: str | None
    nodes: tuple[NumaNode, ...]
    device_nodes: dict[str, int] = field(default_factory=dict)


def parse_hwloc(xml: str) -> HwlocMachine:
    """Read hwloc 2.x XML.

    Raises
    ------
    ValueError
        If it is no hwloc topology.
    """
    try:
        root = ET.fromstring(xml)
    except ET.ParseError as error:
        raise ValueError(f"hwloc's XML cannot be read: {error}") from error
    objects = list(root.iter("object"))
    cores = [_core(o) for o in objects if o.get("type") == "Core"]
    caches = _last_level_caches(objects)
    nodes: list[NumaNode] = []
    taken: set[int] = set()
    for o in sorted(objects, key=lambda o: int(o.get("os_index", -1))):
        # a GPU's memory may be a NUMA node as well, but is reached as the GPU's
        if o.get("type") == "NUMANode" and o.get("subtype") != "GPUMemory":
            # hwloc gives memory without CPUs (CXL, HBM) those of the node beside it
            cpus = cpu_numbers(o.get("cpuset")) - taken
            taken |= cpus
            nodes.append(_node(o, cpus, cores, caches))
    models = {
        info.get("value")
        for o in objects
        if o.get("type") == "Package"
        for info in o.findall("info")
        if info.get("name") == "CPUModel"
    }
    with_cores = {n.index for n in nodes if n.cores}
    model = models.pop() if len(models) == 1 else None
    return HwlocMachine(model, tuple(nodes), _devices(root, with_cores))


def _core(core: ET.Element) -> tuple[int, ...]:
    units = (o for o in core.iter("object") if o.get("type") == "PU")
    return tuple(sorted(int(o.get("os_index", 0)) for o in units))


def _last_level_caches(objects: list[ET.Element]) -> list[tuple[set[int], int]]:
    """CPUs and bytes of each cache of the highest data-cache level there is."""
    by_level: dict[int, list[tuple[set[int], int]]] = {}
    for o in objects:
        if o.get("type", "").endswith("Cache") and o.get("cache_type") in ("0", "1"):
            entry = (cpu_numbers(o.get("cpuset")), int(o.get("cache_size", 0)))
            by_level.setdefault(int(o.get("depth", 0)), []).append(entry)
    return by_level[max(by_level)] if by_level else []


def _node(
    node: ET.Element,
    cpus: set[int],
    cores: list[tuple[int, ...]],
    caches: list[tuple[set[int], int]],
) -> NumaNode:
    cache = sum(size for shared, size in caches if shared & cpus)
    return NumaNode(
        index=int(node.get("os_index", 0)),
        cores=tuple(sorted(core for core in cores if core and core[0] in cpus)),
        memory_bytes=int(node.get("local_memory", 0)),  # not written where there is none
        cache_bytes=cache or None,
    )


def _devices(root: ET.Element, with_cores: set[int]) -> dict[str, int]:
    found: dict[str, int] = {}

    def visit(element: ET.Element, nodeset: str | None) -> None:
        near = element.get("nodeset") or nodeset
        address = element.get("pci_busid")
        nodes = cpu_numbers(near) & with_cores
        if address is not None and len(nodes) == 1:
            found[address] = min(nodes)
        for child in element.findall("object"):
            visit(child, near)

    for top in root.findall("object"):
        visit(top, None)
    return found


def cpu_numbers(mask: str | None) -> set[int]:
    """Return the numbers in an hwloc bitmap such as ``0x0000000f,0xffffffff``.

    Words of 32 bits, the highest first; an empty word stands for zero. Endless
    bitmaps (``0xf...f``) count as empty.
    """
    if not mask or "..." in mask:
        return set()
    value = 0
    for word in mask.split(","):
        value = value << 32 | int(word or "0", 16)
    return {bit for bit in range(value.bit_length()) if value >> bit & 1}
