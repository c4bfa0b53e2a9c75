"""What links cost before anything has crossed them: from stored parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from lanescope.compression.costs import LinkCost
from lanescope.model.transfer.parameters import LinkParameters, Way
from lanescope.units.bandwidth import bandwidth_gbs

_HOST_FIRST = re.compile(r"h2d|^host>")
_HOST_LAST = re.compile(r"d2h|>host$")


class LinkModel(Protocol):
    """Knows links before anything has crossed them."""

    def link(self, path: str) -> LinkCost | None:
        """Return what a path costs; None: not known."""


@dataclass(frozen=True, slots=True)
class HostLinks:
    """Copies of pinned memory between the host and one GPU, by its stored link parameters."""

    parameters: LinkParameters

    def link(self, path: str) -> LinkCost | None:
        """Return what ``g0>host``, ``host>g0``, ``d2h`` or ``h2d`` costs; None for others."""
        if _HOST_FIRST.search(path):
            way = Way.H2D
        elif _HOST_LAST.search(path):
            way = Way.D2H
        else:
            return None
        direction = self.parameters.direction(way)
        return LinkCost(bandwidth_gbs(1, direction.per_byte.value), direction.first.value)


def links_of_this_machine() -> LinkModel | None:
    """Return its stored link parameters, or None where it has none."""
    from lanescope.errors import LanescopeError
    from lanescope.model.transfer.stored import named_parameters

    try:
        return HostLinks(named_parameters())
    except LanescopeError:
        return None
