"""Finds the links of a machine in its PCI tree and in NVML's answers."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

from lanescope.machine.machine import Gpu, Link, Machine, NvLink, Switch
from lanescope.machine.nvml import Nvml
from lanescope.machine.pcie import TRANSFER_RATE_GTS, PcieLink
from lanescope.machine.snapshot import Snapshot
from lanescope.machine.sysfs import PacketSizes, is_upstream_port, link_now, packet_sizes

#: NVML's numbers for what is at the other end of an NVLink, and for its version.
_REMOTE_SWITCH = 2
_NVLINK_VERSION = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5}
#: Line rate of one NVLink and direction in GB/s, for drivers that do not tell.
_NVLINK_GBS = {1: 20.0, 2: 25.78125, 3: 25.0, 4: 26.5625, 5: 53.125}

NVSWITCH = "nvswitch"


def pcie_links(
    snapshot: Snapshot, gpus: tuple[Gpu, ...], first_node: int
) -> tuple[tuple[Link, ...], tuple[Switch, ...]]:
    """Return every PCIe hop from the NUMA nodes to the GPUs, and the switches between.

    A GPU without a known node hangs on `first_node`.
    """
    links: dict[tuple[str, str], Link] = {}
    switches: dict[str, Switch] = {}
    for gpu in gpus:
        below, address = gpu.id, gpu.pci_address
        node = f"h{first_node if gpu.node is None else gpu.node}"
        entry = _nvml_entry(snapshot, gpu)  # knows of the link next to the GPU only
        # it is the GPU whose requests cross all links above it
        own = _sizes(snapshot.pci.get(gpu.pci_address or "", {}))
        request = None if own is None else own.max_read_request_bytes
        for upstream in _upstream_ports(snapshot, address):
            if upstream not in switches:
                number = f"s{len(switches)}"
                switches[upstream] = Switch(number, "PCIe switch", upstream)
            above = switches[upstream].id
            _add(links, above, below, pcie_state(snapshot, address, entry, request))
            below, address, entry = above, upstream, None
        _add(links, node, below, pcie_state(snapshot, address, entry, request))
    return tuple(links.values()), tuple(switches.values())


def _add(links: dict[tuple[str, str], Link], above: str, below: str, pcie: PcieLink | None) -> None:
    if pcie is not None:
        links.setdefault((above, below), Link.of_pcie(above, below, pcie))


def _upstream_ports(snapshot: Snapshot, address: str | None) -> list[str]:
    """Upstream ports of the switches above a device, from the lowest.

    The bridges above a device are, upwards: a downstream and an upstream port for
    each switch, and last the root port. Their place in that row tells which is which
    where their own word cannot be read: that takes root.
    """
    bridges = []
    parent = snapshot.pci.get(address or "", {}).get("parent")
    while parent is not None and parent in snapshot.pci:
        bridges.append(parent)
        parent = snapshot.pci[parent].get("parent")
    ports = []
    for place, bridge in enumerate(bridges[:-1]):
        upstream = is_upstream_port(bytes.fromhex(snapshot.pci[bridge].get("config") or ""))
        if place % 2 == 1 if upstream is None else upstream:
            ports.append(bridge)
    return ports


def pcie_state(
    snapshot: Snapshot, address: str | None, entry: dict[str, Any] | None, request: int | None
) -> PcieLink | None:
    """State of the link above a device: from the kernel, else from NVML."""
    device = snapshot.pci.get(address or "", {})
    port = snapshot.pci.get(device.get("parent") or "", {})
    entry = entry or {}
    generation = _generation(device.get("current_link_speed")) or entry.get("generation")
    width = _positive(device.get("current_link_width")) or entry.get("width")
    if generation is None or width is None:
        return None
    best_generation = [
        _generation(device.get("max_link_speed")),
        _generation(port.get("max_link_speed")),
        entry.get("max_generation"),
    ]
    best_width = [
        _positive(device.get("max_link_width")),
        _positive(port.get("max_link_width")),
        entry.get("max_width"),
    ]
    sizes = [s for s in (_sizes(device), _sizes(port)) if s is not None]
    return PcieLink(
        generation=generation,
        width=width,
        max_generation=min((g for g in best_generation if g), default=None),
        max_width=min((w for w in best_width if w), default=None),
        max_payload_bytes=min((s.max_payload_bytes for s in sizes), default=None),
        max_read_request_bytes=request,
    )


def link_states(machine: Machine, root: Path = Path("/sys")) -> dict[str, PcieLink]:
    """Return the PCIe links as they are at this moment, by their lower part, such as ``g0``.

    Those that the kernel does not tell of are as the driver says; others are left out.
    """
    parts: tuple[Gpu | Switch, ...] = (*machine.gpus, *machine.switches)
    addresses = {part.id: part.pci_address for part in parts}
    uuids = {gpu.id: gpu.uuid for gpu in machine.gpus}
    nvml: Nvml | None = None
    found = {}
    for link in machine.links:
        if link.pcie is None:
            continue
        speed, lanes = link_now(addresses.get(link.b) or "-", root)
        state = (_generation(speed), _positive(lanes))
        if None in state and (uuid := uuids.get(link.b)) is not None:
            nvml = nvml or Nvml.open()
            state = (nvml and nvml.link_state(uuid)) or state
        generation, width = state
        if generation in TRANSFER_RATE_GTS and width is not None:
            now = {"generation": generation, "width": width}
            found[link.b] = dataclasses.replace(link.pcie, **now)
    return found


def _generation(speed: str | None) -> int | None:
    """``32.0 GT/s PCIe`` is generation 5; None for 'Unknown' and nothing."""
    try:
        rate = float((speed or "").split()[0])
    except (IndexError, ValueError):
        return None
    return next((g for g, gts in TRANSFER_RATE_GTS.items() if gts == rate), None)


def _positive(text: str | None) -> int | None:
    # a port without a link says 0, one that does not know says 255
    return int(text) if text and text.isdigit() and 0 < int(text) <= 32 else None


def _sizes(device: dict[str, str | None]) -> PacketSizes | None:
    return packet_sizes(bytes.fromhex(device.get("config") or ""))


def _nvml_entry(snapshot: Snapshot, gpu: Gpu) -> dict[str, Any] | None:
    entries = snapshot.nvml.get("gpus", [])
    return next((e for e in entries if e.get("pci_address") == gpu.pci_address), None)


def nvlinks(
    snapshot: Snapshot, gpus: tuple[Gpu, ...]
) -> tuple[tuple[Link, ...], tuple[Switch, ...]]:
    """Return bundles of NVLinks: from each GPU to the switch fabric, or between GPUs.

    Links that are up are left out where the driver lets their GPU reach no other by them:
    so it is before the fabric manager has started, and in some virtual machines.
    """
    links: list[Link] = []
    by_address = {gpu.pci_address: gpu.id for gpu in gpus}
    for gpu in gpus:
        entry = _nvml_entry(snapshot, gpu) or {}
        every = entry.get("nvlinks", [])
        up = [ln for ln in every if ln["up"]] if entry.get("nvlink_peers") != [] else []
        ends: Counter[str] = Counter()
        for link in up:
            peer = by_address.get(link["remote_address"])
            if link["remote_type"] == _REMOTE_SWITCH:
                ends[NVSWITCH] += 1
            elif peer is not None and gpu.id < peer:  # counted once, from its first end
                ends[peer] += 1
        for end, count in ends.items():
            whole = len(every) if end == NVSWITCH else None
            links.append(Link.of_nvlink(gpu.id, end, _bundle(up[0], count, whole)))
    fabric = any(link.b == NVSWITCH for link in links)
    return tuple(links), (Switch(NVSWITCH, "NVLink switch"),) if fabric else ()


def _bundle(link: dict[str, Any], count: int, whole: int | None) -> NvLink:
    version = _NVLINK_VERSION.get(link["version"])
    speed = link["speed_mbps"]
    rate = _NVLINK_GBS.get(version or 0, 25.0)
    if speed and speed != int(rate * 1e3):  # drivers cut 26562.5 MB/s to 26562
        rate = speed / 1e3
    return NvLink(count, rate, version, whole)
