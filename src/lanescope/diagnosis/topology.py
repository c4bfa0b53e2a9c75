"""Questions on the machine's tree of PCIe links."""

from __future__ import annotations

from collections.abc import Iterable

from lanescope.machine import Link, LinkKind, Machine


def pcie_link_of(machine: Machine, part: str) -> Link | None:
    """Return the PCIe link above a GPU or switch, or None when it is not known."""
    return next((ln for ln in machine.links if ln.kind is LinkKind.PCIE and ln.b == part), None)


def above(machine: Machine, part: str) -> tuple[str, ...]:
    """Return the parts between a GPU and its node, upwards and with the node: ``s0, h0``."""
    found: list[str] = []
    link = pcie_link_of(machine, part)
    while link is not None and link.a not in found:
        found.append(link.a)
        link = pcie_link_of(machine, link.a)
    return tuple(found)


def narrowest_gbs(machine: Machine, gpu: str) -> float | None:
    """Return what the narrowest PCIe link above a GPU carries one way, in GB/s.

    None where a link on the way is not known.
    """
    links = [pcie_link_of(machine, part) for part in (gpu, *above(machine, gpu)[:-1])]
    rates = [None if link is None else link.raw_gbs for link in links]
    return None if None in rates else min((r for r in rates if r is not None), default=None)


def below(machine: Machine, parts: Iterable[str]) -> frozenset[str]:
    """Return the GPUs that are among some parts or hang below them."""
    wanted = set(parts)
    return frozenset(
        gpu.id for gpu in machine.gpus if gpu.id in wanted or wanted & set(above(machine, gpu.id))
    )


def shared_by_only(machine: Machine, gpus: Iterable[str], others: Iterable[str]) -> str | None:
    """Return the lowest part that is above all of some GPUs (two or more) and none of others."""
    paths = [above(machine, gpu) for gpu in gpus]
    if len(paths) < 2:
        return None
    elsewhere = {part for gpu in others for part in above(machine, gpu)}
    common = (part for part in paths[0] if all(part in path for path in paths))
    return next((part for part in common if part not in elsewhere), None)


def pci_address(machine: Machine, part: str) -> str | None:
    """Return a GPU's or switch's PCI address, or None when it is not known."""
    known = {gpu.id: gpu.pci_address for gpu in machine.gpus}
    known |= {switch.id: switch.pci_address for switch in machine.switches}
    return known.get(part)


def lspci_of(machine: Machine, part: str) -> str:
    """Return the option of lspci that picks a part, or all of NVIDIA where that is unknown."""
    address = pci_address(machine, part)
    return "-d 10de:" if address is None else f"-s {address}"
