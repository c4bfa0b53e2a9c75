"""What the link of a GPU can carry: measured by an earlier run, else by the link's rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lanescope.machine import Link, LinkKind, Machine

#: Directions over a GPU's link, in the order of all pairs in this package.
DIRECTIONS = ("h2d", "d2h")


@dataclass(frozen=True, slots=True)
class LinkLimit:
    """A ceiling of one direction, in GB/s of payload; None when unknown, with the reason."""

    gbs: float | None
    source: str


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What an earlier run measured.

    Attributes
    ----------
    gbs
        By GPU and direction, such as ``(0, "h2d")``, in GB/s.
    source
        Which run that was, as a phrase.
    node_gbs
        As `gbs`, by the NUMA node of the host memory, too, such as ``(0, "h2d", 1)``.
    """

    gbs: Mapping[tuple[int, str], float] = field(default_factory=dict)
    source: str = "measured before"
    node_gbs: Mapping[tuple[int, str, int], float] = field(default_factory=dict)


def pcie_links(machine: Machine, gpu: int) -> tuple[Link, ...]:
    """Return the known PCIe links between a GPU and its node, from the GPU upwards."""
    found: list[Link] = []
    part = f"g{gpu}"
    while link := next(
        (ln for ln in machine.links if ln.kind is LinkKind.PCIE and ln.b == part), None
    ):
        if link in found:
            break
        found.append(link)
        part = link.a
    return tuple(found)


def link_limits(
    machine: Machine | None, gpu: int, ceilings: Ceilings | None = None
) -> tuple[LinkLimit, LinkLimit]:
    """Return the ceilings of a GPU's link (h2d, d2h)."""
    links = () if machine is None else pcie_links(machine, gpu)
    down, up = (_limit(links, gpu, direction, ceilings or Ceilings()) for direction in range(2))
    return down, up


def _limit(links: tuple[Link, ...], gpu: int, direction: int, ceilings: Ceilings) -> LinkLimit:
    measured = ceilings.gbs.get((gpu, DIRECTIONS[direction]))
    if measured is not None:
        return LinkLimit(measured, ceilings.source)
    rates = [(link.payload_gbs[direction], link) for link in links if link.payload_gbs is not None]
    if not rates:
        return LinkLimit(None, f"the link of g{gpu} is not known")
    gbs, link = min(rates, key=lambda rate: rate[0])
    best = None if link.pcie is None else link.pcie.at_best()
    label = link.label if best is None else f"PCIe {best.generation}.0 x{best.width}"
    return LinkLimit(gbs, f"payload limit of {label}")
