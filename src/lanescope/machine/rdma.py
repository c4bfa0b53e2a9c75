"""RDMA NICs: InfiniBand and RoCE ports, and the GPUs that they are near."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lanescope.machine.links import pcie_state
from lanescope.machine.machine import Gpu, Nic
from lanescope.machine.sysfs import RdmaPort

if TYPE_CHECKING:
    from lanescope.machine.snapshot import Snapshot


def nics(snapshot: Snapshot, gpus: Sequence[Gpu]) -> tuple[Nic, ...]:
    """Return the NICs of a machine, each with the GPUs that it shares most bridges with."""
    return tuple(_nic(port, snapshot, gpus) for port in snapshot.rdma)


def _nic(port: RdmaPort, snapshot: Snapshot, gpus: Sequence[Gpu]) -> Nic:
    address = port.pci_address
    device = snapshot.pci.get(address or "", {})
    node = int(device.get("numa_node") or -1)
    near = _nearest(address, snapshot, gpus)
    if not near:
        near = [gpu for gpu in gpus if gpu.node == node and node >= 0]
    return Nic(
        port.device,
        port.port,
        node if node >= 0 else None,
        address,
        gbps(port.rate),
        (port.state or "").partition(":")[2].strip().lower() or None,
        port.layer,
        port.firmware,
        pcie_state(snapshot, address, None, None),
        tuple(gpu.id for gpu in near),
    )


def gbps(rate: str | None) -> float | None:
    """Return a port's rate in Gbit/s.

    >>> gbps("400 Gb/sec (4X NDR)")
    400.0
    """
    found = re.match(r"\s*([0-9]+(?:\.[0-9]+)?)\s*Gb/sec", rate or "")
    return float(found[1]) if found else None


def _nearest(address: str | None, snapshot: Snapshot, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs below the lowest bridge that a device has in common with any."""
    mine = _bridges(address, snapshot)
    shared = {gpu.id: len(set(mine) & set(_bridges(gpu.pci_address, snapshot))) for gpu in gpus}
    most = max(shared.values(), default=0)
    return [gpu for gpu in gpus if most and shared[gpu.id] == most]


def _bridges(address: str | None, snapshot: Snapshot) -> list[str]:
    """Return the bridges above a PCI device, those that are not the host's."""
    found: list[str] = []
    above = snapshot.pci.get(address or "", {}).get("parent")
    while above is not None and above not in found:
        found.append(above)
        above = snapshot.pci.get(above, {}).get("parent")
    return found
